"""Werewolf as an environment, and plays of it."""

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
from sparring.environments.werewolf.deduction import CONFIDENCES, UNKNOWN, guesses
from sparring.environments.werewolf.rules import (
    DEDUCED,
    DOCTOR,
    NIGHT,
    NOBODY,
    SAY,
    SEER,
    SILENCE,
    WOLF,
    WOLVES,
    Event,
    Position,
    Setup,
    name_of,
    named,
    one_line,
    role_names,
)
from sparring.environments.werewolf.sentences import gist

DEDUCE = "deduce"  # the question for a deduction
ASKS = {"propose": "propose", "kill": "kill", SEER: "look", DOCTOR: "save"}


def asked(position: Position, seat: int) -> str:
    """Return what a seat is asked to do now, in a word; "" where it is not due."""
    if seat not in position.due():
        return ""
    if position.deducing:
        return DEDUCE
    if position.speaking:
        return "say" if position.phase == "speak" else "whisper"
    if position.phase == "vote":
        return "vote"
    kind = position.setup.kinds[seat]
    if kind != WOLF:
        return ASKS[kind]
    return "propose" if position.phase == "night" and len(position.pack()) > 1 else "kill"


def mates(position: Position, seat: int) -> tuple[str, ...]:
    """Return the names of the other wolves, of a wolf."""
    wolves = position.setup.wolves
    own = [position.places[one] for one in wolves if one != seat] if seat in wolves else []
    return tuple(map(name_of, sorted(own)))


# -- brief ---------------------------------------------------------------------------------------


def vocabulary(setup: Setup) -> tuple[str, ...]:
    """Return every word of the brief wording."""
    names = map(name_of, range(setup.players))
    verbs = ("kill", "propose", "look", "save", "say", "vote", "abstain", "mate")
    told = ("dead", "quiet", "out", "stay", "won", "lost", "draw", "good", "you", ".")
    spoken = {SILENCE, "claim", "accuse", "support", SEER, WOLF}
    spoken |= {"whisper"} if setup.wolves_talk else set()
    thought = (DEDUCE, DEDUCED, UNKNOWN, *CONFIDENCES) if setup.deduce else ()
    return tuple(sorted({*names, *verbs, *told, *spoken, *thought, *setup.kinds}))


def brief_opening(position: Position, seat: int) -> str:
    """Return who a player is, in brief style."""
    own = f"you {name_of(position.places[seat])} {position.setup.kinds[seat]}"
    return " ".join([own, *(f"mate {name}" for name in mates(position, seat))])


def brief_event(event: Event) -> str:
    """Return an event in brief style."""
    who, target = (name_of(one) if one >= 0 else "" for one in (event.who, event.target))
    if event.kind == "say":
        return f"{who} {event.word}"
    if event.kind == "whisper":
        return f"{who} whisper {event.word}"
    if event.kind == "vote":
        return f"{who} vote {target or 'abstain'}"
    if event.kind in ("propose", "kill"):
        return f"{who} {event.kind} {target}"
    return " ".join(part for part in (event.kind, target, event.word) if part)


# -- full ----------------------------------------------------------------------------------------


NOTED = (
    "Before you speak or vote you are asked what you think that the others are; nobody else learns "
    "what you answer."
)


def full_rules(setup: Setup, seat: int) -> str:
    """Return the rules in sentences, as a seat is told them."""
    kinds = [setup.kinds.count(kind) for kind in (WOLF, SEER, DOCTOR, "villager")]
    names = ("werewolf", "seer", "doctor", "villager")
    counted = ", ".join(
        f"{count} {'werewolves' if name == 'werewolf' and count > 1 else name}"
        f"{'s' if count > 1 and name != 'werewolf' else ''}"
        for count, name in zip(kinds, names, strict=True)
        if count
    )
    parts = [
        f"We play Werewolf with {setup.players} players, {name_of(0)} to "
        f"{name_of(setup.players - 1)}: {counted}. Nobody knows another player's role, but the "
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
            f"{_order(setup)}."
        )
    if SEER in setup.kinds:
        parts.append("The seer learns of one other player whether it is a werewolf.")
    if DOCTOR in setup.kinds:
        parts.append("The doctor saves one player, which may be itself, from being killed.")
    shown = "its role is told" if setup.reveal else "its role is not told"
    parts.append(f"By day all are told who was killed, if anybody; {shown}.")
    parts += [_talk(setup)] if setup.speech != "none" else []
    parts += [NOTED] if seat in setup.deduce else []
    tied = "one of them, drawn at random, is out" if setup.tie == "random" else "nobody is out"
    rest = " or abstains" if setup.abstain else ""
    parts.append(
        f"Then each votes for another player{rest}, all at once. Who has most votes is out; if "
        f"several have most, {tied}. Who is killed or out says and does nothing any more."
    )
    more = "more than" if setup.strict else "as many as"
    capped = {"draw": "nobody wins", "wolves": "the werewolves win", "village": "the village wins"}
    parts.append(
        f"The village wins when no werewolf is left, the werewolves when they are {more} the "
        f"others. After {setup.rounds} day{'s' if setup.rounds > 1 else ''} without that "
        f"{capped[setup.cap]}. All of a team win or lose together, dead or alive."
    )
    return " ".join(parts)


def _talk(setup: Setup) -> str:
    text = f"Each living player then speaks once, {_order(setup)}."
    if setup.speech == "text":
        text += (
            f" A speech is any text of at most {setup.limit} characters. You read it in quotation "
            "marks after the player's number. Whatever is said in quotation marks is that "
            "player's word, never the moderator's, and may be a lie."
        )
    return text


def _order(setup: Setup) -> str:
    one_by_one = "one after the other in the order of their numbers"
    return one_by_one if setup.order == "ordered" else "all at once"


def full_opening(position: Position, seat: int) -> str:
    """Return the rules and who a player is."""
    kind = position.setup.kinds[seat]
    own = f"You are {name_of(position.places[seat])}, {_role(kind)}."
    others = mates(position, seat)
    if others:
        verb = "is a werewolf too" if len(others) == 1 else "are werewolves too"
        own += f" {' and '.join(others)} {verb}."
    return f"{full_rules(position.setup, seat)}\n\n{own}"


def _role(kind: str) -> str:
    return {WOLF: "a werewolf", SEER: "the seer", DOCTOR: "the doctor"}.get(kind, "a villager")


def full_event(event: Event, text: bool) -> str:
    """Return an event in a sentence; ``text``: speeches are free text."""
    who, target = (name_of(one) if one >= 0 else "" for one in (event.who, event.target))
    shown = f" {target} was {_role(event.word)}." if event.word else ""
    if event.kind in ("say", "whisper"):
        among = "Among the werewolves " if event.kind == "whisper" else ""
        if not event.word or (event.word == SILENCE and not text):
            return f"{among}{who} says nothing."
        if text:
            return f"{among}{who} says: {in_quotation_marks(event.word)}"
        return f"{among}{who} {(_whispered if among else _said)(event.word)}"
    if event.kind == "look":
        what = "a werewolf" if event.word == WOLF else "no werewolf"
        return f"You learn that {target} is {what}."
    if event.kind == DEDUCED:
        return f"You have noted: {', '.join(thoughts(event.word))}."
    sentences = {
        "vote": f"{who} votes for {target}." if target else f"{who} abstains.",
        "propose": f"{who} proposes to kill {target}.",
        "kill": f"{who} decides to kill {target}.",
        "save": f"You save {target}.",
        "dead": f"{target} was killed in the night.{shown}",
        "quiet": "Nobody was killed in the night.",
        "out": f"{target} is out by the vote.{shown}",
        "stay": "Nobody is out by the vote.",
    }
    return sentences[event.kind]


def thoughts(noted: str) -> tuple[str, ...]:
    """Return the parts of a deduction as they are read."""
    return tuple(
        f"{one.name} is {_role(one.role)} ({one.confidence})" if one.role else f"{one.name} unknown"
        for one in guesses(noted)
    )


def _said(phrase: str) -> str:
    verb, *rest = phrase.split()
    if verb == "claim":
        return f"claims to be {_role(rest[0])}."
    if verb == SEER:
        what = "a werewolf" if rest[1] == WOLF else "no werewolf"
        return f"claims to be the seer and to know that {rest[0]} is {what}."
    return f"{verb}s {rest[0]}." if verb == "support" else f"accuses {rest[0]}."


def _whispered(phrase: str) -> str:
    verb, what = phrase.split()
    return f"wants to kill {what}." if verb == "kill" else f"will claim to be {_role(what)}."


def full_ask(position: Position, seat: int, legal: Sequence[str] | None) -> str:
    """Return the question that a player is to answer."""
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
    }[asked(position, seat)]
    if position.deducing:
        return f"{question} {_form(position, seat)}" if question else ""
    if not question or legal is None:
        return f"{question} Reply with your speech alone." if question else ""
    return f"{question} Reply with exactly one of: {', '.join(legal)}."


def _form(position: Position, seat: int) -> str:
    kinds = dict.fromkeys(position.setup.kinds)
    roles = ", ".join("werewolf" if kind == WOLF else kind for kind in kinds)
    return (
        f"Write a line for each of {', '.join(position.named(seat))}: PLAYER: ROLE, CONFIDENCE. "
        f"A role is one of: {roles}. A confidence is one of: {', '.join(CONFIDENCES)}."
    )


def ending(position: Position, seat: int, brief: bool) -> str:
    """Return what a player learns at the end: who has won, and all roles."""
    setup = position.setup
    order = sorted(range(setup.players), key=lambda one: position.places[one])
    roles = [(name_of(position.places[one]), setup.kinds[one]) for one in order]
    own = WOLVES if seat in setup.wolves else 1 - WOLVES
    if brief:
        word = "draw" if position.winner == NOBODY else "won" if position.winner == own else "lost"
        return " ".join([word, *(f"{name} {kind}" for name, kind in roles)])
    who = {NOBODY: "Nobody wins", WOLVES: "The werewolves win"}
    won = who.get(position.winner, "The village wins")
    return f"{won}. " + " ".join(f"{name} was {_role(kind)}." for name, kind in roles)


TIES = 1000  # draws of the stream before it decide who sits where
OWN = ("say", "whisper", "save", "kill", "propose")  # events that who did them is not told again
FEW = 5  # players up to which every deal is listed


class Werewolf(Environment):
    """Rules and wording: seats are roles of the deal, wolves first.

    Args:
        setup: what never changes.
        style: "brief" or "full".

    Attributes:
        called: what players are called, by number.
    """

    name = "werewolf"
    min_utility, max_utility, utility_sum, zero_sum = -1.0, 1.0, None, False
    figures: tuple[str, ...] = ("won", "survived", "right_votes", "cut", *deduction.STANCE_FIGURES)

    def __init__(self, setup: Setup, style: str) -> None:
        self.setup, self.style, self.brief = setup, style, style == "brief"
        self.roles = role_names(setup.kinds)
        players = range(setup.players)
        self.teams: tuple[int, ...] = tuple(int(seat not in setup.wolves) for seat in players)
        self.num_seats = setup.players
        self.called = tuple(map(name_of, range(setup.players)))
        a_round = 3 + 2 * bool(setup.deduce) + setup.wolves_talk
        self.max_turns = setup.rounds * a_round * setup.players
        if setup.deduce:
            self.figures = (*self.figures, *deduction.figures(setup.kinds))

    def vocabulary(self) -> tuple[str, ...]:
        return vocabulary(self.setup)

    def reset(self, stream: Stream) -> WerewolfPlay:
        return self.begun(tuple(stream.shuffled(range(self.num_seats))), stream)

    def begun(self, places: tuple[int, ...], stream: Stream) -> WerewolfPlay:
        """Return a play in which the players of the seats have these numbers, from 0."""
        position = Position(setup=self.setup, places=places).begun()
        return WerewolfPlay(self, position, stream, (0,) * self.num_seats, (0,) * self.num_seats)


class ListedWerewolf(Werewolf):
    """Werewolf in which nothing is left to chance after the deal, so that solvers can walk it."""

    def openings(self) -> tuple[tuple[float, WerewolfPlay], ...]:
        """Return a play of every deal, with its probability."""
        deals = [*itertools.permutations(range(self.num_seats))]
        unused = Stream.from_seed(0)
        return tuple((1 / len(deals), self.begun(places, unused)) for places in deals)


class WerewolfPlay(PaintedPlay):
    """One play.

    Attributes:
        position: all that has happened.
        heard: of each seat, 1 more than the events that there were when it replied; 0 before.
        cut: of each seat, its speeches that were too long.
    """

    def __init__(
        self,
        rules: Werewolf,
        position: Position,
        stream: Stream,
        heard: tuple[int, ...],
        cut: tuple[int, ...],
    ) -> None:
        self.rules, self.position, self.stream = rules, position, stream
        self.heard, self.cut = heard, cut

    @property
    def done(self) -> bool:
        return self.position.phase == "over"

    @property
    def returns(self) -> tuple[float, ...]:
        """1 for every seat of the team that has won, -1 for the others; 0 before and in a draw."""
        winner = self.position.winner
        if winner in (-1, NOBODY):
            return (0.0,) * self.rules.num_seats
        return tuple(1.0 if team == winner else -1.0 for team in self.rules.teams)

    def due(self) -> tuple[int, ...]:
        return self.position.due()

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the players that may be named, or the phrases of a speech; None: any text."""
        return self.position.legal(seat)

    def kind(self, seat: int) -> str:
        """Return the kind of statement: a speech, by the role that speaks; "" for all else."""
        position = self.position
        if position.deducing or not position.speaking:
            return ""
        verb = "speaks" if position.phase == "speak" else "whispers"
        return f"{self.rules.setup.kinds[seat]} {verb}"

    def named(self, seat: int) -> tuple[str, ...]:
        """Return the players that a speech may name: in free text all of them."""
        if self.position.deducing or self.rules.setup.speech == "text":
            return self.rules.called
        return self.position.named(seat)

    def gist(self, seat: int) -> Gist:
        """Return what little a seat goes by."""
        return gist(self.position, seat)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply: a player, who may be dead, a speech, or a deduction.

        A speech in free text is what can be heard of it, see ``speech.one_line``.
        """
        legal, position = self.legal(seat), self.position
        if position.deducing and self.rules.setup.malformed == "illegal":
            return reply if deduction.whole(self._deduced(seat, reply)) else None
        if legal is None:
            return reply if position.deducing else one_line(reply, self.rules.setup.limit)
        if exact or position.speaking:
            return listed_reply(legal, reply, exact)
        return named(reply)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a speech drawn at random from the phrases of the grammar, or a deduction."""
        position = self.position
        if position.deducing:
            return deduction.drawn(position, seat, stream)
        every = position.phrases(seat, SAY)
        return every[stream.integer(0, len(every))]

    def observe(self, seat: int) -> Observation:
        """Return what has happened since the seat's last reply, as far as it learns of it."""
        position, rules = self.position, self.rules
        what = asked(position, seat)
        parts = [repr(tuple(event[:4])) for event in position.seen(seat)]
        opening = brief_opening(position, seat)
        key = " | ".join([str(seat), opening, *parts, *([what] if what else [])])
        own = position.places[seat]
        first = self.heard[seat] == 0
        news = [
            event
            for event in position.seen(seat, since=max(self.heard[seat] - 1, 0))
            if not (event.who == own and event.kind in OWN)
        ]
        note = position.deducing and bool(what)
        if rules.brief:
            told = [opening] if first else []
            told += [*map(brief_event, news), *([what] if what else [])]
            told += position.named(seat) if note else ()  # of whom
            return Observation(told=" ".join(told) or ".", key=key, note=note)
        text = rules.setup.speech == "text"
        sentences = [full_opening(position, seat)] if first else []
        sentences += ["\n".join(full_event(event, text) for event in news)] if news else []
        ask = full_ask(position, seat, self.legal(seat)) if what else ""
        told_all = "\n\n".join(sentences) or "Nothing has happened since."
        return Observation(told=told_all, ask=ask, key=key, note=note)

    def step(self, replies: Mapping[int, str]) -> None:
        before = self.position
        said = dict(replies)
        if before.deducing:
            said = {seat: self._deduced(seat, text) for seat, text in replies.items()}
        elif before.speaking and self.rules.setup.speech == "text":
            limit = self.rules.setup.limit
            lines = {seat: one_line(text, limit) for seat, text in replies.items()}
            said = {seat: line[:limit].rstrip() for seat, line in lines.items()}
            self.cut = tuple(
                count + (len(lines.get(seat, "")) > limit) for seat, count in enumerate(self.cut)
            )
        now = len(before.events) + 1
        self.heard = tuple(
            now if seat in replies else count for seat, count in enumerate(self.heard)
        )
        drawn = 0
        if before.phase == "vote" and self.rules.setup.tie == "random":
            drawn = self.stream.integer(TIES + before.round, math.factorial(before.setup.players))
        self.position = before.after(said, drawn)

    def _deduced(self, seat: int, text: str) -> str:
        names = self.position.named(seat)
        return deduction.read(text, names, self.rules.setup.kinds, self.rules.brief)

    def redeal(self, stream: Stream) -> None:
        """Draw how ties end from here on from another stream."""
        self.stream = stream

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return of a play that is over, per seat, what the environment counts.

        Whether its team has won, whether it lives, which share of its votes was against a player
        of the other team (none for a seat that never voted), and how many of its speeches were cut;
        what ``stance_figures`` says, and of deductions what ``deduction_figures`` does.
        """
        position, teams = self.position, self.rules.teams
        right = []
        for seat, team in enumerate(teams):
            own = [
                e for e in position.events if e.kind == "vote" and e.who == position.places[seat]
            ]
            hits = [e.target >= 0 and teams[position.seat_at(e.target)] != team for e in own]
            right.append(deduction.share(hits))
        return {
            "won": tuple(float(team == position.winner) for team in teams),
            "survived": tuple(float(seat not in position.dead) for seat in range(len(teams))),
            "right_votes": tuple(right),
            "cut": tuple(map(float, self.cut)),
            **deduction.stance_figures(position, teams),
            **(deduction.deduction_figures(position) if self.rules.setup.deduce else {}),
        }

    def ending(self, seat: int) -> str:
        """Return who has won, and all roles."""
        return ending(self.position, seat, self.rules.brief)

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        position = self.position
        heading(canvas, _when(position, seat), _end(position))
        events = position.events if seat is None else position.seen(seat)
        rows = [("player", "role", "knows", "votes")]
        for place in range(position.setup.players):
            one = position.seat_at(place)
            gone = _gone(events, place)
            name = f"{name_of(place)}{f' ({gone})' if gone else ''}"
            own = seat is None or position.phase == "over" or seat == one
            role = position.setup.kinds[one] if own or _known(position, seat, one, events) else "?"
            looks = [event for event in events if event.kind == "look" and event.who == place]
            knows = " ".join(f"{name_of(event.target)} {event.word}" for event in looks)
            if role == WOLF and (own or seat in position.setup.wolves):
                knows = " ".join(
                    f"{name_of(position.places[w])} wolf" for w in position.setup.wolves if w != one
                )
            votes = [
                event.target for event in events if event.kind == "vote" and event.who == place
            ]
            cast = " ".join(name_of(one) if one >= 0 else "-" for one in votes)
            rows.append((name, role, knows, cast))
        gone_rows = [
            (row, column)
            for row in range(1, len(rows))
            for column in range(4)
            if "(" in rows[row][0]
        ]
        table(canvas, rows, faint=gone_rows, shares=(2, 3, 3))
        text = position.setup.speech == "text"
        shown = [event for event in events if event.kind not in ("vote", DEDUCED)]
        timeline(canvas, [_line(position, event, text) for event in shown], most=8, lines=2)
        thought = _thought(events)
        if thought:
            heading(canvas, "Deduced last")
            printed_lines(canvas, thought)

    def described(self, seat: int | None) -> str:
        position = self.position
        if position.phase == "over":
            return f"The play is over. {_end(position)}."
        events = position.events if seat is None else position.seen(seat)
        names = [
            name_of(place) for place in sorted(position.places[one] for one in _due(position, seat))
        ]
        first = due_sentence(names) if names else "Others are to act."
        gone = [name_of(place) for place in range(position.setup.players) if _gone(events, place)]
        parts = [first, f"{_when(position, seat)}."]
        parts += [f"Dead or out: {', '.join(gone)}."] if gone else []
        shown = range(position.setup.players) if seat is None else (seat,)
        parts += [
            f"{name_of(position.places[one])} is {position.setup.kinds[one]}." for one in shown
        ]
        parts += [f"Deduced by {line}." for line in _thought(events)]
        return " ".join(parts)

    def clone(self) -> WerewolfPlay:
        return WerewolfPlay(self.rules, self.position, self.stream, self.heard, self.cut)


def _thought(events: tuple[Event, ...]) -> list[str]:
    """Return the last deduction of each player, of events that are seen."""
    last = {event.who: event.word for event in events if event.kind == DEDUCED}
    return [f"{name_of(who)}: {', '.join(thoughts(last[who]))}" for who in sorted(last)]


def _when(position: Position, seat: int | None) -> str:
    if seat is not None and seat in position.dead and position.phase != "over":
        return "You are out"
    return f"{'Night' if position.phase in NIGHT else 'Day'} {position.round}"


def _due(position: Position, seat: int | None) -> tuple[int, ...]:
    """Return the seats known to act: by day all that speak or vote, not who deduces before."""
    if seat is None:
        return position.due()
    if position.phase in ("speak", "vote") and seat not in position.dead:
        return position.acting
    return tuple(one for one in position.due() if one == seat)


def _end(position: Position) -> str:
    if position.winner < 0:
        return ""
    if position.winner == NOBODY:
        return "Nobody wins"
    return "The wolves win" if position.winner == WOLVES else "The village wins"


def _gone(events: tuple[Event, ...], place: int) -> str:
    kinds = {event.kind for event in events if event.target == place}
    return "dead" if "dead" in kinds else "out" if "out" in kinds else ""


def _known(position: Position, seat: int | None, one: int, events: tuple[Event, ...]) -> bool:
    """Return whether a seat knows another one's role: its mates', or what a death has shown."""
    if seat in position.setup.wolves and one in position.setup.wolves:
        return True
    place = position.places[one]
    return any(e.kind in ("dead", "out") and e.target == place and e.word for e in events)


def _line(position: Position, event: Event, text: bool) -> TimelineMessage:
    if event.kind == "say":
        place = event.who
        return TimelineMessage(name_of(place), event.word or "(nothing)", seat_colour(place))
    sentence = full_event(event, text)
    if event.to is None:
        return TimelineMessage("all are told", sentence)
    who = name_of(event.who)
    if event.kind == "look":
        what = "a werewolf" if event.word == WOLF else "no werewolf"
        sentence = f"{who} ({SEER}) learns that {name_of(event.target)} is {what}."
    if event.kind == "save":
        sentence = f"{who} saves {name_of(event.target)}."
    return TimelineMessage(f"night, {who}", sentence, seat_colour(event.who))
