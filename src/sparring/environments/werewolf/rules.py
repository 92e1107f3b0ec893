"""The rules of Werewolf as a state machine: positions, seats that act next, legal replies.

A seat has a fixed role and team. Each seat draws a player's number, its ``place``, at the start.
Players know each other only by these numbers, so a seat's index reveals nothing to other players.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple


@cache
def name_of(place: int) -> str:
    """Return the name of the player with a number, such as "p1" for 0."""
    return f"p{place + 1}"


@cache
def number_of(name: str) -> int:
    """Return the number of the player with a name, such as 0 for "p1"."""
    return int(name[1:]) - 1


def role_names(roles: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each seat: the role, with a number if several seats have it."""
    names: list[str] = []
    for seat, role in enumerate(roles):
        count_so_far = roles[: seat + 1].count(role)
        names.append(f"{role}{count_so_far}" if roles.count(role) > 1 else role)
    return tuple(names)


WOLF, SEER, DOCTOR, VILLAGER = "wolf", "seer", "doctor", "villager"
WOLVES, VILLAGE, NOBODY = 0, 1, 2  # teams, and a draw


@dataclass(frozen=True, kw_only=True, slots=True)
class WerewolfSetup:
    """The fixed options; see ``werewolf``."""

    roles: tuple[str, ...]  # the role of each seat, wolves first
    rounds: int  # largest number of rounds
    strict: bool  # whether the wolves need a majority to win, not only half
    first_night: str  # "kill", or "quiet" for no kill in the first night
    tie: str  # a tied vote excludes a random one of the tied players ("random") or nobody ("none")
    cap: str  # the winner after the last round: "wolves", "village" or "draw"
    order: str  # "ordered" speeches, one seat at a time, or "simultaneous"
    speech: str  # "words" (phrases of the grammar), "text" or "none"
    say: tuple[str, ...]  # the allowed kinds of phrases, a part of ``SAY``
    limit: int  # largest number of characters of a speech
    abstain: bool  # whether a vote may be an abstention
    reveal: bool  # whether a death reveals the role
    wolves_talk: bool  # whether the wolves talk at night
    deduce: tuple[int, ...]  # the seats that deduce
    malformed: str  # an unparsable part of a deduction is "noted", or the reply is "illegal"

    @property
    def players(self) -> int:
        """The number of players."""
        return len(self.roles)

    @property
    def wolves(self) -> tuple[int, ...]:
        """The seats of the wolves."""
        return _wolf_seats(self.roles)

    def winner(self, num_wolves: int, num_living: int) -> int:
        """Return the team that has won with these numbers of living wolves and players, or -1."""
        if not num_wolves:
            return VILLAGE
        num_good = num_living - num_wolves
        have_wolves_won = num_wolves > num_good if self.strict else num_wolves >= num_good
        return WOLVES if have_wolves_won else -1


@cache
def _wolf_seats(roles: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(seat for seat, role in enumerate(roles) if role == WOLF)


Say = Literal["claim", "result", "accuse", "support"]

SILENCE = "silence"
SAY: tuple[Say, ...] = ("claim", "result", "accuse", "support")
MAX_CHARS = 100_000  # largest number of characters of a speech that are read
_NAME = r"p[1-9]"
_MARKED_NAME = re.compile(
    rf"\[\s*({_NAME}|abstain)\s*\]|\*\*\s*({_NAME}|abstain)\s*\*\*"
    rf"|(?<!not )(?<!n't )\b(?:answer|action|vote)\b(?:\s+is)?\s*(?:[:=]\s*)?({_NAME}|abstain)\b",
    re.IGNORECASE,
)
_ANY_NAME = re.compile(rf"(?<![\w-])({_NAME}|abstain)(?![\w-])", re.IGNORECASE)


def phrases(say: Sequence[str], roles: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return all speeches of the grammar.

    Args:
        say: the allowed kinds of phrases besides silence, a part of ``SAY``.
        roles: roles that may be claimed.
        others: names of the other living players.
    """
    speeches = [SILENCE]
    if "claim" in say:
        speeches += [f"claim {role}" for role in roles]
    if "result" in say:
        speeches += [f"seer {name} {word}" for name in others for word in ("wolf", "good")]
    verbs = [verb for verb in ("accuse", "support") if verb in say]
    return (*speeches, *(f"{verb} {name}" for verb in verbs for name in others))


def wolf_phrases(
    say: Sequence[str], roles: Sequence[str], others: Sequence[str]
) -> tuple[str, ...]:
    """Return all phrases that a wolf may say to the other wolves at night.

    Args:
        say: the allowed kinds of phrases, a part of ``SAY``; "claim": a wolf may announce a claim.
        roles: roles that may be claimed.
        others: names of the players that may be killed.
    """
    claims = phrases([kind for kind in say if kind == "claim"], roles, ())
    return (*claims, *(f"kill {name}" for name in others))


def one_line(text: str, limit: int) -> str:
    """Return a speech on one line, without unprintable characters.

    A text longer than ``limit`` gives ``limit`` + 1 characters, so its length shows the truncation.
    The function is idempotent.
    """
    printable_text = "".join(c if c.isprintable() or c.isspace() else "" for c in text[:MAX_CHARS])
    line = " ".join(printable_text.split())
    return line[:limit] + line[limit:].lstrip()[:1]


def parse_name(reply: str) -> str | None:
    """Return the name or "abstain" in a reply, marked ones first; None if none or several."""
    text = reply[:MAX_CHARS]
    for names in (
        {mark.lower() for marks in _MARKED_NAME.findall(text) for mark in marks if mark},
        {mark.lower() for mark in _ANY_NAME.findall(text)},
    ):
        if names:
            return next(iter(names)) if len(names) == 1 else None
    return None


Phase = Literal["whisper", "night", "decide", "speak", "vote", "over"]
NIGHT: tuple[Phase, ...] = ("whisper", "night", "decide")
GOOD = "good"  # the result of a seer about a player who is not a wolf
ABSTAIN = "abstain"
DEDUCTION_EVENT = "think"  # event kind of a deduction, which only the deducing seat sees


class WerewolfEvent(NamedTuple):
    """An event of a game."""

    kind: str
    actor: int = -1  # the acting player's number; -1: no player
    target: int = -1  # the number of the player that the event concerns; -1: no player
    word: str = ""
    audience: tuple[int, ...] | None = None  # the seats that know of the event; None: all seats


class WerewolfPosition(NamedTuple):
    """A position of Werewolf.

    Args:
        setup: the fixed options.
        places: the player's number of each seat, from 0.
        phase: the current phase.
        round: number of the current day and night, from 1.
        dead: dead seats, in the order of their deaths.
        num_known_events: for each dead seat the number of events up to its death.
        events: all events so far.
        proposed_victim: number of the player that a wolf proposed this night, or -1.
        victim: number of the player that the wolves kill this night, or -1.
        saved_player: number of the player that the doctor saves this night, or -1.
        seats_done_speaking: seats that have spoken this day, or to the wolves this night.
        has_deductions: whether the seats that act next have given their deductions.
        winner: a team, or ``NOBODY``; -1 before the end.
    """

    setup: WerewolfSetup
    places: tuple[int, ...]
    phase: Phase = "night"
    round: int = 1
    dead: tuple[int, ...] = ()
    num_known_events: tuple[int, ...] = ()
    events: tuple[WerewolfEvent, ...] = ()
    proposed_victim: int = -1
    victim: int = -1
    saved_player: int = -1
    seats_done_speaking: tuple[int, ...] = ()
    has_deductions: bool = False
    winner: int = -1

    def seat_at(self, place: int) -> int:
        """Return the seat of the player with a number."""
        return self.places.index(place)

    def living(self) -> tuple[int, ...]:
        """Return the living seats in the order of their players' numbers."""
        return _living(self.places, self.dead)

    def living_wolves(self) -> tuple[int, ...]:
        """Return the living wolves in the order of their numbers."""
        return _living_wolves(self.setup.roles, self.places, self.dead)

    def is_kill_night(self) -> bool:
        """Return whether the wolves kill this night."""
        return self.round > 1 or self.setup.first_night == "kill"

    def due(self) -> tuple[int, ...]:
        """Return the seats that must reply now, ascending."""
        return tuple(sorted(self._deducers() or self.acting_seats))

    @property
    def acting_seats(self) -> tuple[int, ...]:
        """The seats that act, speak or vote in this phase, after any deductions."""
        living = self.living()
        if self.phase == "night":
            roles = (SEER, DOCTOR) if self.is_kill_night() else (SEER,)
            seats = tuple(seat for seat in living if self.setup.roles[seat] in roles)
            return (*self.living_wolves()[:1], *seats) if self.is_kill_night() else seats
        if self.phase == "decide":
            return self.living_wolves()[-1:]
        if self.is_speaking:
            speakers = living if self.phase == "speak" else self.living_wolves()
            seats = tuple(seat for seat in speakers if seat not in self.seats_done_speaking)
            return seats[:1] if self.setup.order == "ordered" else seats
        return living if self.phase == "vote" else ()

    @property
    def is_speaking(self) -> bool:
        """Whether seats speak now, by day to all or by night to the wolves."""
        return self.phase in ("speak", "whisper")

    @property
    def is_deducing(self) -> bool:
        """Whether the seats that act next deduce now, before they speak or vote."""
        return bool(self._deducers())

    def _deducers(self) -> tuple[int, ...]:
        if not self.setup.deduce or self.has_deductions or self.phase not in ("speak", "vote"):
            return ()
        return tuple(seat for seat in self.acting_seats if seat in self.setup.deduce)

    def targets(self, seat: int) -> tuple[int, ...]:
        """Return the numbers of the players that a seat may name now."""
        role, living = self.setup.roles[seat], self.living()
        is_night = self.phase in NIGHT
        if is_night and role == WOLF:
            return tuple(self.places[other] for other in living if other not in self.setup.wolves)
        may_name_itself = is_night and role == DOCTOR
        return tuple(self.places[other] for other in living if other != seat or may_name_itself)

    def legal_names(self, seat: int) -> tuple[str, ...]:
        """Return the names of the players that a seat may name now."""
        return tuple(map(name_of, self.targets(seat)))

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the legal replies of a seat; None if any text is legal."""
        names = self.legal_names(seat)
        if self.is_deducing:
            return None
        if self.is_speaking:
            is_free_text = self.setup.speech == "text"
            return None if is_free_text else self.phrases(seat, self.setup.say)
        return (*names, ABSTAIN) if self.phase == "vote" and self.setup.abstain else names

    def phrases(self, seat: int, say: Sequence[str]) -> tuple[str, ...]:
        """Return the phrases of a seat in the grammar, by day or to the wolves.

        Args:
            seat: a seat that speaks.
            say: the allowed kinds of phrases.
        """
        roles = tuple(dict.fromkeys(self.setup.roles[len(self.setup.wolves) :]))
        list_phrases = phrases if self.phase == "speak" else wolf_phrases
        return list_phrases(say, roles, self.legal_names(seat))

    def position_after(self, replies: Mapping[int, str], number: int = 0) -> WerewolfPosition:
        """Return the position after the replies of all seats that are due.

        Args:
            replies: a legal reply of each seat; a speech in free text is truncated, a deduction is
                in normal form (see ``deduction.py``).
            number: a random number; its remainder chooses one of several tied players.
        """
        order = sorted(replies, key=lambda seat: self.places[seat])
        if self.is_deducing:
            events = (
                WerewolfEvent(DEDUCTION_EVENT, self.places[seat], -1, replies[seat], (seat,))
                for seat in order
            )
            return self._replace(events=(*self.events, *events), has_deductions=True)
        if self.phase == "vote":
            return self._replace(has_deductions=False)._after_votes(replies, number)
        if self.is_speaking:
            return self._after_speeches(replies, order)
        return self._after_night(replies)

    def _after_speeches(self, replies: Mapping[int, str], order: list[int]) -> WerewolfPosition:
        is_day = self.phase == "speak"
        kind, audience = ("say", None) if is_day else ("whisper", self.living_wolves())
        speeches = tuple(
            WerewolfEvent(kind, self.places[seat], word=replies[seat], audience=audience)
            for seat in order
        )
        seats, events = (*self.seats_done_speaking, *order), (*self.events, *speeches)
        position = self._replace(events=events, seats_done_speaking=seats, has_deductions=False)
        if position.acting_seats:
            return position
        return position._replace(phase="vote") if is_day else position._start_night_actions()

    def _after_night(self, replies: Mapping[int, str]) -> WerewolfPosition:
        position, wolves = self, self.living_wolves()
        for seat, word in sorted(replies.items()):
            role, target = self.setup.roles[seat], number_of(word)
            place = self.places[seat]
            if role == SEER:
                is_wolf = self.setup.roles[self.seat_at(target)] == WOLF
                event = WerewolfEvent("look", place, target, WOLF if is_wolf else GOOD, (seat,))
            elif role == DOCTOR:
                position = position._replace(saved_player=target)
                event = WerewolfEvent("save", place, target, audience=(seat,))
            elif self.phase == "night" and len(wolves) > 1:
                position = position._replace(proposed_victim=target, phase="decide")
                event = WerewolfEvent("propose", place, target, audience=wolves)
            else:
                position = position._replace(victim=target)
                event = WerewolfEvent("kill", place, target, audience=wolves)
            position = position.with_event(event)
        is_undecided = position.phase == "decide" and position.victim < 0
        return position if is_undecided else position.position_after_night()

    def with_event(self, event: WerewolfEvent) -> WerewolfPosition:
        """Return the position with one more event."""
        return self._replace(events=(*self.events, event))

    def position_after_night(self) -> WerewolfPosition:
        """Return the position after the night: at most one death, then speeches."""
        if self.victim >= 0 and self.victim != self.saved_player:
            position = self._with_death(self.seat_at(self.victim), "dead")
        else:
            position = self.with_event(WerewolfEvent("quiet"))
        position = position._replace(
            proposed_victim=-1, victim=-1, saved_player=-1, seats_done_speaking=()
        ).with_winner()
        if position.phase == "over":
            return position
        return position._replace(phase="vote" if self.setup.speech == "none" else "speak")

    def _with_death(self, seat: int, kind: str) -> WerewolfPosition:
        """Return the position after a death, which is the last event that the dead seat knows."""
        word = self.setup.roles[seat] if self.setup.reveal else ""
        position = self.with_event(WerewolfEvent(kind, target=self.places[seat], word=word))
        num_known_events = (*position.num_known_events, len(position.events))
        return position._replace(dead=(*position.dead, seat), num_known_events=num_known_events)

    def _after_votes(self, replies: Mapping[int, str], number: int) -> WerewolfPosition:
        order = sorted(replies, key=lambda seat: self.places[seat])
        targets = [-1 if replies[seat] == ABSTAIN else number_of(replies[seat]) for seat in order]
        votes = (
            WerewolfEvent("vote", self.places[seat], target)
            for seat, target in zip(order, targets, strict=True)
        )
        position = self._replace(events=(*self.events, *votes))
        counts = Counter(target for target in targets if target >= 0)
        leaders = sorted(place for place in counts if counts[place] == max(counts.values()))
        if len(leaders) == 1 or (leaders and self.setup.tie == "random"):
            player = leaders[number % len(leaders)]
            position = position._with_death(position.seat_at(player), "out")
        else:
            position = position.with_event(WerewolfEvent("stay"))
        position = position.with_winner()
        if position.phase == "over":
            return position
        if self.round == self.setup.rounds:
            winner = {"wolves": WOLVES, "village": VILLAGE, "draw": NOBODY}[self.setup.cap]
            return position._replace(phase="over", winner=winner)
        return position._replace(round=self.round + 1).start_night()

    def with_winner(self) -> WerewolfPosition:
        """Return the position, with phase "over" and the winner if a team has won."""
        winner = self.setup.winner(len(self.living_wolves()), len(self.living()))
        return self._replace(phase="over", winner=winner) if winner >= 0 else self

    def start_night(self) -> WerewolfPosition:
        """Return the position at the first phase of the night in which a seat acts."""
        if self.setup.wolves_talk and len(self.living_wolves()) > 1:
            return self._replace(phase="whisper", seats_done_speaking=())
        return self._start_night_actions()

    def _start_night_actions(self) -> WerewolfPosition:
        position = self._replace(phase="night")
        return position if position.acting_seats else position.position_after_night()

    def events_of(self, seat: int, since: int = 0) -> tuple[WerewolfEvent, ...]:
        """Return the events that a seat knows; a dead seat knows no later events.

        Args:
            seat: the seat.
            since: number of events to skip at the start of the game.
        """
        end = len(self.events)
        if seat in self.dead:
            end = self.num_known_events[self.dead.index(seat)]
        return tuple(
            event
            for event in self.events[since:end]
            if event.audience is None or seat in event.audience
        )


@lru_cache(maxsize=65_536)
def _living(places: tuple[int, ...], dead: tuple[int, ...]) -> tuple[int, ...]:
    living_seats = (seat for seat in range(len(places)) if seat not in dead)
    return tuple(sorted(living_seats, key=places.__getitem__))


@lru_cache(maxsize=65_536)
def _living_wolves(
    roles: tuple[str, ...], places: tuple[int, ...], dead: tuple[int, ...]
) -> tuple[int, ...]:
    return tuple(seat for seat in _living(places, dead) if roles[seat] == WOLF)
