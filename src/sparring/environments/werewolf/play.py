"""Werewolf as an environment: the prompts, the class ``Werewolf`` and its episodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.abstracted import Gist
from sparring.environments.base import Environment
from sparring.environments.drawing.canvas import Canvas, PaintedPlay, seat_colour
from sparring.environments.drawing.pieces import (
    TimelineMessage,
    due_sentence,
    heading,
    printed_lines,
    table,
    timeline,
)
from sparring.environments.reply import in_quotation_marks, listed_reply
from sparring.environments.werewolf import deduction
from sparring.environments.werewolf.deduction import CONFIDENCES, UNKNOWN, parse_guesses
from sparring.environments.werewolf.rules import (
    DEDUCTION_EVENT,
    DOCTOR,
    NIGHT,
    NOBODY,
    SAY,
    SEER,
    SILENCE,
    WOLF,
    WOLVES,
    WerewolfEvent,
    WerewolfPosition,
    WerewolfSetup,
    name_of,
    one_line,
    parse_name,
    role_names,
)
from sparring.environments.werewolf.sentences import gist

DEDUCE = "deduce"  # in brief style: the question that asks for a deduction
NIGHT_QUESTIONS = {"propose": "propose", "kill": "kill", SEER: "look", DOCTOR: "save"}


def question_of(position: WerewolfPosition, seat: int) -> str:
    """Return the word for the question to a seat; "" if the seat is not due."""
    if seat not in position.due():
        return ""
    if position.is_deducing:
        return DEDUCE
    if position.is_speaking:
        return "say" if position.phase == "speak" else "whisper"
    if position.phase == "vote":
        return "vote"
    role = position.setup.roles[seat]
    if role != WOLF:
        return NIGHT_QUESTIONS[role]
    return "propose" if position.phase == "night" and len(position.living_wolves()) > 1 else "kill"


def mate_names(position: WerewolfPosition, seat: int) -> tuple[str, ...]:
    """Return the names of a wolf's fellow wolves; () for other roles."""
    wolves = position.setup.wolves
    numbers = [position.places[wolf] for wolf in wolves if wolf != seat] if seat in wolves else []
    return tuple(map(name_of, sorted(numbers)))


# -- brief ---------------------------------------------------------------------------------------


def vocabulary(setup: WerewolfSetup) -> tuple[str, ...]:
    """Return every word of the brief wording."""
    names = map(name_of, range(setup.players))
    verbs = ("kill", "propose", "look", "save", "say", "vote", "abstain", "mate")
    news = ("dead", "quiet", "out", "stay", "won", "lost", "draw", "good", "you", ".")
    speech_words = {SILENCE, "claim", "accuse", "support", SEER, WOLF}
    speech_words |= {"whisper"} if setup.wolves_talk else set()
    deduction_words = (DEDUCE, DEDUCTION_EVENT, UNKNOWN, *CONFIDENCES) if setup.deduce else ()
    return tuple(sorted({*names, *verbs, *news, *speech_words, *deduction_words, *setup.roles}))


def brief_role_text(position: WerewolfPosition, seat: int) -> str:
    """Return the role and mates of a player in brief style."""
    text = f"you {name_of(position.places[seat])} {position.setup.roles[seat]}"
    return " ".join([text, *(f"mate {name}" for name in mate_names(position, seat))])


def brief_event_text(event: WerewolfEvent) -> str:
    """Return an event in brief style."""
    actor, target = (name_of(place) if place >= 0 else "" for place in (event.actor, event.target))
    if event.kind == "say":
        return f"{actor} {event.word}"
    if event.kind == "whisper":
        return f"{actor} whisper {event.word}"
    if event.kind == "vote":
        return f"{actor} vote {target or 'abstain'}"
    if event.kind in ("propose", "kill"):
        return f"{actor} {event.kind} {target}"
    return " ".join(part for part in (event.kind, target, event.word) if part)


# -- full ----------------------------------------------------------------------------------------


DEDUCTION_RULES = (
    "Before you speak or vote you are asked what you think that the others are; nobody else learns "
    "what you answer."
)


def full_rules(setup: WerewolfSetup, seat: int) -> str:
    """Return the rules in sentences for a seat."""
    counts = [setup.roles.count(role) for role in (WOLF, SEER, DOCTOR, "villager")]
    names = ("werewolf", "seer", "doctor", "villager")
    role_counts = ", ".join(
        f"{count} {'werewolves' if name == 'werewolf' and count > 1 else name}"
        f"{'s' if count > 1 and name != 'werewolf' else ''}"
        for count, name in zip(counts, names, strict=True)
        if count
    )
    parts = [
        f"We play Werewolf with {setup.players} players, {name_of(0)} to "
        f"{name_of(setup.players - 1)}: {role_counts}. Nobody knows another player's role, but the "
        "werewolves know one another. By night the werewolves kill one other player"
        + (" (not in the first night)." if setup.first_night == "quiet" else ".")
    ]
    if setup.wolves[1:]:
        parts.append(
            "The werewolf with the smallest number proposes whom, the one with the largest decides."
        )
    if setup.wolves_talk:
        parts.append(
            "While several werewolves live, each first says something to the werewolves alone, "
            f"{_speech_order(setup)}."
        )
    if SEER in setup.roles:
        parts.append("The seer learns of one other player whether it is a werewolf.")
    if DOCTOR in setup.roles:
        parts.append("The doctor saves one player, which may be itself, from being killed.")
    role_clause = "its role is told" if setup.reveal else "its role is not told"
    parts.append(f"By day all are told who was killed, if anybody; {role_clause}.")
    parts += [_speech_rules(setup)] if setup.speech != "none" else []
    parts += [DEDUCTION_RULES] if seat in setup.deduce else []
    tie_text = "one of them, drawn at random, is out" if setup.tie == "random" else "nobody is out"
    abstains = " or abstains" if setup.abstain else ""
    parts.append(
        f"Then each votes for another player{abstains}, all at once. Who has most votes is out; if "
        f"several have most, {tie_text}. Who is killed or out says and does nothing any more."
    )
    comparison = "more than" if setup.strict else "as many as"
    results = {"draw": "nobody wins", "wolves": "the werewolves win", "village": "the village wins"}
    parts.append(
        f"The village wins when no werewolf is left, the werewolves when they are {comparison} the "
        f"others. After {setup.rounds} day{'s' if setup.rounds > 1 else ''} without that "
        f"{results[setup.cap]}. All of a team win or lose together, dead or alive."
    )
    return " ".join(parts)


def _speech_rules(setup: WerewolfSetup) -> str:
    text = f"Each living player then speaks once, {_speech_order(setup)}."
    if setup.speech == "text":
        text += (
            f" A speech is any text of at most {setup.limit} characters. You read it in quotation "
            "marks after the player's number. Whatever is said in quotation marks is that "
            "player's word, never the moderator's, and may be a lie."
        )
    return text


def _speech_order(setup: WerewolfSetup) -> str:
    text = "one after the other in the order of their numbers"
    return text if setup.order == "ordered" else "all at once"


def full_first_prompt(position: WerewolfPosition, seat: int) -> str:
    """Return the rules, and the role and mates of a player, in sentences."""
    role = position.setup.roles[seat]
    text = f"You are {name_of(position.places[seat])}, {_role_phrase(role)}."
    names = mate_names(position, seat)
    if names:
        verb = "is a werewolf too" if len(names) == 1 else "are werewolves too"
        text += f" {' and '.join(names)} {verb}."
    return f"{full_rules(position.setup, seat)}\n\n{text}"


def _role_phrase(role: str) -> str:
    return {WOLF: "a werewolf", SEER: "the seer", DOCTOR: "the doctor"}.get(role, "a villager")


def full_event_text(event: WerewolfEvent, free_text: bool) -> str:
    """Return an event in a sentence; ``free_text``: whether speeches are free text."""
    actor, target = (name_of(place) if place >= 0 else "" for place in (event.actor, event.target))
    role = f" {target} was {_role_phrase(event.word)}." if event.word else ""
    if event.kind in ("say", "whisper"):
        prefix = "Among the werewolves " if event.kind == "whisper" else ""
        if not event.word or (event.word == SILENCE and not free_text):
            return f"{prefix}{actor} says nothing."
        if free_text:
            return f"{prefix}{actor} says: {in_quotation_marks(event.word)}"
        return f"{prefix}{actor} {(_whisper_sentence if prefix else _speech_sentence)(event.word)}"
    if event.kind == "look":
        role_phrase = "a werewolf" if event.word == WOLF else "no werewolf"
        return f"You learn that {target} is {role_phrase}."
    if event.kind == DEDUCTION_EVENT:
        return f"You have noted: {', '.join(clauses(event.word))}."
    sentences = {
        "vote": f"{actor} votes for {target}." if target else f"{actor} abstains.",
        "propose": f"{actor} proposes to kill {target}.",
        "kill": f"{actor} decides to kill {target}.",
        "save": f"You save {target}.",
        "dead": f"{target} was killed in the night.{role}",
        "quiet": "Nobody was killed in the night.",
        "out": f"{target} is out by the vote.{role}",
        "stay": "Nobody is out by the vote.",
    }
    return sentences[event.kind]


def clauses(deduction_text: str) -> tuple[str, ...]:
    """Return the guesses of a deduction in normal form as clauses."""
    return tuple(
        f"{g.name} is {_role_phrase(g.role)} ({g.confidence})" if g.role else f"{g.name} unknown"
        for g in parse_guesses(deduction_text)
    )


def _speech_sentence(phrase: str) -> str:
    verb, *arguments = phrase.split()
    if verb == "claim":
        return f"claims to be {_role_phrase(arguments[0])}."
    if verb == SEER:
        role_phrase = "a werewolf" if arguments[1] == WOLF else "no werewolf"
        return f"claims to be the seer and to know that {arguments[0]} is {role_phrase}."
    return f"{verb}s {arguments[0]}." if verb == "support" else f"accuses {arguments[0]}."


def _whisper_sentence(phrase: str) -> str:
    verb, word = phrase.split()
    return f"wants to kill {word}." if verb == "kill" else f"will claim to be {_role_phrase(word)}."


def full_question(position: WerewolfPosition, seat: int, legal: Sequence[str] | None) -> str:
    """Return the question to a player."""
    question = {
        "propose": "Whom do you propose to kill?",
        "kill": "Whom do you kill?",
        "look": "Of whom do you learn whether it is a werewolf?",
        "save": "Whom do you save?",
        "say": "What do you say to all?",
        "whisper": "What do you say to the werewolves alone?",
        "vote": "Whom do you vote for?",
        DEDUCE: "What do you think that the others are?",
        "": "",
    }[question_of(position, seat)]
    if position.is_deducing:
        return f"{question} {_deduction_form(position, seat)}" if question else ""
    if not question or legal is None:
        return f"{question} Reply with your speech alone." if question else ""
    return f"{question} Reply with exactly one of: {', '.join(legal)}."


def _deduction_form(position: WerewolfPosition, seat: int) -> str:
    distinct_roles = dict.fromkeys(position.setup.roles)
    roles = ", ".join("werewolf" if role == WOLF else role for role in distinct_roles)
    names = ", ".join(position.legal_names(seat))
    return (
        f"Write a line for each of {names}: PLAYER: ROLE, CONFIDENCE. "
        f"A role is one of: {roles}. A confidence is one of: {', '.join(CONFIDENCES)}."
    )


def ending(position: WerewolfPosition, seat: int, brief: bool) -> str:
    """Return the result and all roles."""
    setup = position.setup
    order = sorted(range(setup.players), key=lambda player: position.places[player])
    roles = [(name_of(position.places[player]), setup.roles[player]) for player in order]
    team = WOLVES if seat in setup.wolves else 1 - WOLVES
    if brief:
        word = "draw" if position.winner == NOBODY else "won" if position.winner == team else "lost"
        return " ".join([word, *(f"{name} {role}" for name, role in roles)])
    results = {NOBODY: "Nobody wins", WOLVES: "The werewolves win"}
    result = results.get(position.winner, "The village wins")
    return f"{result}. " + " ".join(f"{name} was {_role_phrase(role)}." for name, role in roles)


TIE_DRAW = 1000  # index of the first draw for ties; earlier draws give the players' numbers
# kinds of events that are no news to the player who caused them
OWN_ACTIONS = ("say", "whisper", "save", "kill", "propose")
MAX_LISTED = 5  # largest number of players; exact solvers need a list of all deals


class Werewolf(Environment):
    """Rules and wording of Werewolf: each seat has a fixed role, wolves first.

    Args:
        setup: the options.
        style: "brief" or "full".

    Attributes:
        player_names: names of players, by number.
    """

    name = "werewolf"
    min_utility, max_utility, utility_sum, zero_sum = -1.0, 1.0, None, False
    figures: tuple[str, ...] = ("won", "survived", "right_votes", "cut", *deduction.STANCE_FIGURES)

    def __init__(self, setup: WerewolfSetup, style: str) -> None:
        self.setup, self.style, self.brief = setup, style, style == "brief"
        self.roles = role_names(setup.roles)
        players = range(setup.players)
        self.teams: tuple[int, ...] = tuple(int(seat not in setup.wolves) for seat in players)
        self.num_seats = setup.players
        self.player_names = tuple(map(name_of, range(setup.players)))
        turns_per_round = 3 + 2 * bool(setup.deduce) + setup.wolves_talk  # turns of each player
        self.max_turns = setup.rounds * turns_per_round * setup.players
        if setup.deduce:
            self.figures = (*self.figures, *deduction.figure_names(setup.roles))

    def vocabulary(self) -> tuple[str, ...]:
        return vocabulary(self.setup)

    def reset(self, stream: Stream) -> WerewolfPlay:
        return self.begin(tuple(stream.shuffled(range(self.num_seats))), stream)

    def begin(self, places: tuple[int, ...], stream: Stream) -> WerewolfPlay:
        """Return an episode in which seat i has the player's number ``places[i]``, from 0."""
        position = WerewolfPosition(setup=self.setup, places=places).start_night()
        return WerewolfPlay(self, position, stream, (0,) * self.num_seats, (0,) * self.num_seats)


class ListedWerewolf(Werewolf):
    """Werewolf without chance after the deal, so exact solvers can enumerate it."""

    def openings(self) -> tuple[tuple[float, WerewolfPlay], ...]:
        """Return (probability, episode) of every deal."""
        deals = [*itertools.permutations(range(self.num_seats))]
        unused_stream = Stream.from_seed(0)
        return tuple((1 / len(deals), self.begin(places, unused_stream)) for places in deals)


class WerewolfPlay(PaintedPlay):
    """One episode of Werewolf.

    Attributes:
        position: the current position, with all events.
        seen_until: for each seat 1 + the number of events at its last reply; 0 before a reply.
        num_truncated: number of truncated speeches of each seat.
    """

    def __init__(
        self,
        rules: Werewolf,
        position: WerewolfPosition,
        stream: Stream,
        seen_until: tuple[int, ...],
        num_truncated: tuple[int, ...],
    ) -> None:
        self.rules, self.position, self.stream = rules, position, stream
        self.seen_until, self.num_truncated = seen_until, num_truncated

    @property
    def done(self) -> bool:
        return self.position.phase == "over"

    @property
    def returns(self) -> tuple[float, ...]:
        """1 for every seat of the winning team, -1 for the other seats; 0 without a winner."""
        winner = self.position.winner
        if winner in (-1, NOBODY):
            return (0.0,) * self.rules.num_seats
        return tuple(1.0 if team == winner else -1.0 for team in self.rules.teams)

    def due(self) -> tuple[int, ...]:
        return self.position.due()

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the names or phrases that a seat may reply with; None if any text is legal."""
        return self.position.legal(seat)

    def kind(self, seat: int) -> str:
        """Return the kind of a speech, such as "seer speaks"; "" for all other replies."""
        position = self.position
        if position.is_deducing or not position.is_speaking:
            return ""
        verb = "speaks" if position.phase == "speak" else "whispers"
        return f"{self.rules.setup.roles[seat]} {verb}"

    def legal_names(self, seat: int) -> tuple[str, ...]:
        """Return the players that a speech may name; a free text may name all players."""
        if self.position.is_deducing or self.rules.setup.speech == "text":
            return self.rules.player_names
        return self.position.legal_names(seat)

    def gist(self, seat: int) -> Gist:
        """Return the abstract state of a seat; see ``sentences.gist``."""
        return gist(self.position, seat)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply: a player (alive or dead), a speech, or a deduction.

        ``rules.one_line`` normalises a speech in free text.
        """
        legal, position = self.legal(seat), self.position
        if position.is_deducing and self.rules.setup.malformed == "illegal":
            return reply if deduction.is_complete(self._normalise(seat, reply)) else None
        if legal is None:
            return reply if position.is_deducing else one_line(reply, self.rules.setup.limit)
        if exact or position.is_speaking:
            return listed_reply(legal, reply, exact)
        return parse_name(reply)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random speech of the grammar, or a random deduction."""
        position = self.position
        if position.is_deducing:
            return deduction.random_deduction(position, seat, stream)
        all_phrases = position.phrases(seat, SAY)
        return all_phrases[stream.integer(0, len(all_phrases))]

    def observe(self, seat: int) -> Observation:
        """Return the events since the seat's last reply, without events hidden from the seat."""
        position, rules = self.position, self.rules
        question = question_of(position, seat)
        parts = [repr(tuple(event[:4])) for event in position.events_of(seat)]
        role_text = brief_role_text(position, seat)
        key = " | ".join([str(seat), role_text, *parts, *([question] if question else [])])
        place = position.places[seat]
        is_first = self.seen_until[seat] == 0
        news = [
            event
            for event in position.events_of(seat, since=max(self.seen_until[seat] - 1, 0))
            if not (event.actor == place and event.kind in OWN_ACTIONS)
        ]
        is_note = position.is_deducing and bool(question)
        if rules.brief:
            words = [role_text] if is_first else []
            words += [*map(brief_event_text, news), *([question] if question else [])]
            words += position.legal_names(seat) if is_note else ()  # the players to deduce
            return Observation(prompt=" ".join(words) or ".", key=key, note=is_note)
        free_text = rules.setup.speech == "text"
        sentences = [full_first_prompt(position, seat)] if is_first else []
        news_text = "\n".join(full_event_text(event, free_text) for event in news)
        sentences += [news_text] if news else []
        ask = full_question(position, seat, self.legal(seat)) if question else ""
        prompt = "\n\n".join(sentences) or "Nothing has happened since."
        return Observation(prompt=prompt, ask=ask, key=key, note=is_note)

    def step(self, replies: Mapping[int, str]) -> None:
        previous = self.position
        statements = dict(replies)
        if previous.is_deducing:
            statements = {seat: self._normalise(seat, text) for seat, text in replies.items()}
        elif previous.is_speaking and self.rules.setup.speech == "text":
            limit = self.rules.setup.limit
            lines = {seat: one_line(text, limit) for seat, text in replies.items()}
            statements = {seat: line[:limit].rstrip() for seat, line in lines.items()}
            self.num_truncated = tuple(
                count + (len(lines.get(seat, "")) > limit)
                for seat, count in enumerate(self.num_truncated)
            )
        num_events = len(previous.events) + 1
        self.seen_until = tuple(
            num_events if seat in replies else count for seat, count in enumerate(self.seen_until)
        )
        number = 0
        if previous.phase == "vote" and self.rules.setup.tie == "random":
            num_outcomes = math.factorial(previous.setup.players)
            number = self.stream.integer(TIE_DRAW + previous.round, num_outcomes)
        self.position = previous.position_after(statements, number)

    def _normalise(self, seat: int, text: str) -> str:
        names = self.position.legal_names(seat)
        return deduction.read_deduction(text, names, self.rules.setup.roles, self.rules.brief)

    def redeal(self, stream: Stream) -> None:
        """Draw the results of later ties from another stream."""
        self.stream = stream

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of a finished episode, per seat.

        ``won``: whether the seat's team won. ``survived``: whether the seat lives. ``right_votes``:
        the share of its votes against the other team, NaN without votes. ``cut``: the number of its
        truncated speeches. The figures of ``stance_figures`` and ``deduction_figures`` follow.
        """
        position, teams = self.position, self.rules.teams
        right_votes = []
        for seat, team in enumerate(teams):
            votes = [
                e for e in position.events if e.kind == "vote" and e.actor == position.places[seat]
            ]
            are_right = [e.target >= 0 and teams[position.seat_at(e.target)] != team for e in votes]
            right_votes.append(deduction.share_true(are_right))
        return {
            "won": tuple(float(team == position.winner) for team in teams),
            "survived": tuple(float(seat not in position.dead) for seat in range(len(teams))),
            "right_votes": tuple(right_votes),
            "cut": tuple(map(float, self.num_truncated)),
            **deduction.stance_figures(position, teams),
            **(deduction.deduction_figures(position) if self.rules.setup.deduce else {}),
        }

    def ending(self, seat: int) -> str:
        """Return the result and all roles."""
        return ending(self.position, seat, self.rules.brief)

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        position = self.position
        heading(canvas, _time_of_day(position, seat), _result_text(position))
        events = position.events if seat is None else position.events_of(seat)
        rows = [("player", "role", "knows", "votes")]
        for place in range(position.setup.players):
            other = position.seat_at(place)
            death = _death(events, place)
            name = f"{name_of(place)}{f' ({death})' if death else ''}"
            is_shown = seat is None or position.phase == "over" or seat == other
            is_known = is_shown or _knows_role(position, seat, other, events)
            role = position.setup.roles[other] if is_known else "?"
            looks = [event for event in events if event.kind == "look" and event.actor == place]
            knowledge = " ".join(f"{name_of(event.target)} {event.word}" for event in looks)
            if role == WOLF and (is_shown or seat in position.setup.wolves):
                wolves = [w for w in position.setup.wolves if w != other]
                knowledge = " ".join(f"{name_of(position.places[w])} wolf" for w in wolves)
            votes = [
                event.target for event in events if event.kind == "vote" and event.actor == place
            ]
            vote_text = " ".join(name_of(target) if target >= 0 else "-" for target in votes)
            rows.append((name, role, knowledge, vote_text))
        dead_cells = [
            (row, column)
            for row in range(1, len(rows))
            for column in range(4)
            if "(" in rows[row][0]
        ]
        table(canvas, rows, faint=dead_cells, shares=(2, 3, 3))
        free_text = position.setup.speech == "text"
        news = [event for event in events if event.kind not in ("vote", DEDUCTION_EVENT)]
        messages = [_message(position, event, free_text) for event in news]
        timeline(canvas, messages, most=8, lines=2)
        deductions = _deduction_lines(events)
        if deductions:
            heading(canvas, "Deduced last")
            printed_lines(canvas, deductions)

    def described(self, seat: int | None) -> str:
        position = self.position
        if position.phase == "over":
            return f"The play is over. {_result_text(position)}."
        events = position.events if seat is None else position.events_of(seat)
        due_places = sorted(position.places[other] for other in _visible_due(position, seat))
        names = [name_of(place) for place in due_places]
        due_text = due_sentence(names) if names else "Others are to act."
        deaths = [
            name_of(place) for place in range(position.setup.players) if _death(events, place)
        ]
        parts = [due_text, f"{_time_of_day(position, seat)}."]
        parts += [f"Dead or out: {', '.join(deaths)}."] if deaths else []
        shown_seats = range(position.setup.players) if seat is None else (seat,)
        roles = position.setup.roles
        parts += [f"{name_of(position.places[seat])} is {roles[seat]}." for seat in shown_seats]
        parts += [f"Deduced by {line}." for line in _deduction_lines(events)]
        return " ".join(parts)

    def clone(self) -> WerewolfPlay:
        return WerewolfPlay(
            self.rules, self.position, self.stream, self.seen_until, self.num_truncated
        )


def _deduction_lines(events: tuple[WerewolfEvent, ...]) -> list[str]:
    texts = {event.actor: event.word for event in events if event.kind == DEDUCTION_EVENT}
    return [f"{name_of(player)}: {', '.join(clauses(texts[player]))}" for player in sorted(texts)]


def _time_of_day(position: WerewolfPosition, seat: int | None) -> str:
    if seat is not None and seat in position.dead and position.phase != "over":
        return "You are out"
    return f"{'Night' if position.phase in NIGHT else 'Day'} {position.round}"


def _visible_due(position: WerewolfPosition, seat: int | None) -> tuple[int, ...]:
    """Return the due seats as the reader sees them; by day deductions are not visible."""
    if seat is None:
        return position.due()
    if position.phase in ("speak", "vote") and seat not in position.dead:
        return position.acting_seats
    return tuple(player for player in position.due() if player == seat)


def _result_text(position: WerewolfPosition) -> str:
    if position.winner < 0:
        return ""
    if position.winner == NOBODY:
        return "Nobody wins"
    return "The wolves win" if position.winner == WOLVES else "The village wins"


def _death(events: tuple[WerewolfEvent, ...], place: int) -> str:
    kinds = {event.kind for event in events if event.target == place}
    return "dead" if "dead" in kinds else "out" if "out" in kinds else ""


def _knows_role(
    position: WerewolfPosition, seat: int | None, other: int, events: tuple[WerewolfEvent, ...]
) -> bool:
    """Return whether a seat knows another seat's role: a fellow wolf, or a role shown at death."""
    if seat in position.setup.wolves and other in position.setup.wolves:
        return True
    place = position.places[other]
    return any(e.kind in ("dead", "out") and e.target == place and e.word for e in events)


def _message(position: WerewolfPosition, event: WerewolfEvent, free_text: bool) -> TimelineMessage:
    if event.kind == "say":
        place = event.actor
        return TimelineMessage(name_of(place), event.word or "(nothing)", seat_colour(place))
    sentence = full_event_text(event, free_text)
    if event.audience is None:
        return TimelineMessage("all are told", sentence)
    actor = name_of(event.actor)
    if event.kind == "look":
        role_phrase = "a werewolf" if event.word == WOLF else "no werewolf"
        sentence = f"{actor} ({SEER}) learns that {name_of(event.target)} is {role_phrase}."
    if event.kind == "save":
        sentence = f"{actor} saves {name_of(event.target)}."
    return TimelineMessage(f"night, {actor}", sentence, seat_colour(event.actor))
