"""The rules of Werewolf as one state machine: positions, who is due, what is legal, what follows.

A seat is a role of the deal and never changes its team; a player's number is its place at the
table, drawn at the start. Players know one another by their numbers alone, so that the number of a
seat says nothing to the others.
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
    """Return what a player is called."""
    return f"p{place + 1}"


@cache
def number_of(name: str) -> int:
    """Return the number of a player of a name."""
    return int(name[1:]) - 1


def role_names(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each seat: the role, with a number where several have it."""
    found: list[str] = []
    for seat, kind in enumerate(kinds):
        number = kinds[: seat + 1].count(kind)
        found.append(f"{kind}{number}" if kinds.count(kind) > 1 else kind)
    return tuple(found)


WOLF, SEER, DOCTOR, VILLAGER = "wolf", "seer", "doctor", "villager"
WOLVES, VILLAGE, NOBODY = 0, 1, 2  # teams, and a draw


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """What never changes; see the options of ``werewolf``."""

    kinds: tuple[str, ...]  # of each seat, wolves first
    rounds: int
    strict: bool
    first_night: str
    tie: str
    cap: str
    order: str
    speech: str
    say: tuple[str, ...]
    limit: int
    abstain: bool
    reveal: bool
    wolves_talk: bool
    deduce: tuple[int, ...]  # the seats that do
    malformed: str  # what a deduction is of which a part cannot be read

    @property
    def players(self) -> int:
        """How many there are."""
        return len(self.kinds)

    @property
    def wolves(self) -> tuple[int, ...]:
        """The seats of the wolves."""
        return _wolves(self.kinds)

    def winner(self, wolves: int, living: int) -> int:
        """Return the team that has won with so many wolves among those who live; -1: none yet."""
        if not wolves:
            return VILLAGE
        others = living - wolves
        enough = wolves > others if self.strict else wolves >= others
        return WOLVES if enough else -1


@cache
def _wolves(kinds: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(seat for seat, kind in enumerate(kinds) if kind == WOLF)


Say = Literal["claim", "result", "accuse", "support"]

SILENCE = "silence"
SAY: tuple[Say, ...] = ("claim", "result", "accuse", "support")
MOST = 100_000  # characters of a speech that are looked at
_NAME = r"p[1-9]"
_MARKED = re.compile(
    rf"\[\s*({_NAME}|abstain)\s*\]|\*\*\s*({_NAME}|abstain)\s*\*\*"
    rf"|(?<!not )(?<!n't )\b(?:answer|action|vote)\b(?:\s+is)?\s*(?:[:=]\s*)?({_NAME}|abstain)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"(?<![\w-])({_NAME}|abstain)(?![\w-])", re.IGNORECASE)


def phrases(say: Sequence[str], kinds: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return all speeches of the grammar.

    Args:
        say: which of ``SAY`` there are, besides silence.
        kinds: roles that may be claimed.
        others: names of the other players that live.
    """
    found = [SILENCE]
    if "claim" in say:
        found += [f"claim {kind}" for kind in kinds]
    if "result" in say:
        found += [f"seer {name} {word}" for name in others for word in ("wolf", "good")]
    found += [f"{verb} {name}" for verb in ("accuse", "support") if verb in say for name in others]
    return tuple(found)


def whispers(say: Sequence[str], kinds: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return all that wolves say to one another by night, in the grammar.

    Args:
        say: which of ``SAY`` there are; with "claim" a wolf may say as what it will speak by day.
        kinds: roles that may be claimed.
        others: names of the players that may be killed.
    """
    claims = phrases([one for one in say if one == "claim"], kinds, ())
    return (*claims, *(f"kill {name}" for name in others))


def one_line(text: str, limit: int) -> str:
    """Return a speech on one line without characters that print nothing.

    One character more than ``limit`` says that there was more. Of what it returns it returns the
    same.
    """
    shown = "".join(one if one.isprintable() or one.isspace() else "" for one in text[:MOST])
    line = " ".join(shown.split())
    return line[:limit] + line[limit:].lstrip()[:1]


def named(reply: str) -> str | None:
    """Return the one player, or abstention, that a reply names, marked names first; or None."""
    text = reply[:MOST]
    for found in (
        {mark.lower() for marks in _MARKED.findall(text) for mark in marks if mark},
        {mark.lower() for mark in _NAMED.findall(text)},
    ):
        if found:
            return next(iter(found)) if len(found) == 1 else None
    return None


Phase = Literal["whisper", "night", "decide", "speak", "vote", "over"]
NIGHT: tuple[Phase, ...] = ("whisper", "night", "decide")
GOOD = "good"  # what a seer learns of a player who is no wolf
ABSTAIN = "abstain"
DEDUCED = "think"  # an event: what a seat thinks that the others are, which it alone learns of


class Event(NamedTuple):
    """Something that happened to numbers of players, -1: none; seats ``to`` learn it, None: all."""

    kind: str
    who: int = -1
    target: int = -1
    word: str = ""
    to: tuple[int, ...] | None = None


class Position(NamedTuple):
    """A moment of a play.

    Args:
        setup: what never changes.
        places: the number of each seat's player, from 0.
        phase: what is wanted now.
        round: from 1.
        dead: seats, in the order in which they died.
        known: of each seat that is dead, the events that had happened.
        events: all so far.
        proposed: the number that a wolf has proposed this night.
        victim: the number that the wolves kill this night.
        saved: the number that the doctor saves this night.
        spoken: seats that have spoken this day, or this night to the wolves.
        deduced: whether those that are due have deduced what the others are.
        winner: a team, or ``NOBODY``; -1 before the end.
    """

    setup: Setup
    places: tuple[int, ...]
    phase: Phase = "night"
    round: int = 1
    dead: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    events: tuple[Event, ...] = ()
    proposed: int = -1
    victim: int = -1
    saved: int = -1
    spoken: tuple[int, ...] = ()
    deduced: bool = False
    winner: int = -1

    def seat_at(self, place: int) -> int:
        """Return the seat of a player's number."""
        return self.places.index(place)

    def living(self) -> tuple[int, ...]:
        """Return the seats that live, in the order of their players' numbers."""
        return _living(self.places, self.dead)

    def pack(self) -> tuple[int, ...]:
        """Return the wolves that live, in the order of their numbers."""
        return _pack(self.setup.kinds, self.places, self.dead)

    def kills(self) -> bool:
        """Return whether the wolves kill this night."""
        return self.round > 1 or self.setup.first_night == "kill"

    def due(self) -> tuple[int, ...]:
        """Return the seats whose replies are wanted now, ascending."""
        return tuple(sorted(self._thinking() or self.acting))

    @property
    def acting(self) -> tuple[int, ...]:
        """The seats that are to act by night, speak or vote, whoever deduces before they do."""
        living = self.living()
        if self.phase == "night":
            kinds = (SEER, DOCTOR) if self.kills() else (SEER,)
            awake = tuple(seat for seat in living if self.setup.kinds[seat] in kinds)
            return (*self.pack()[:1], *awake) if self.kills() else awake
        if self.phase == "decide":
            return self.pack()[-1:]
        if self.speaking:
            among = living if self.phase == "speak" else self.pack()
            left = tuple(seat for seat in among if seat not in self.spoken)
            return left[:1] if self.setup.order == "ordered" else left
        return living if self.phase == "vote" else ()

    @property
    def speaking(self) -> bool:
        """Whether speeches are wanted, by day to all or by night to the wolves."""
        return self.phase in ("speak", "whisper")

    @property
    def deducing(self) -> bool:
        """Whether those that are due are asked what the others are, before they speak or vote."""
        return bool(self._thinking())

    def _thinking(self) -> tuple[int, ...]:
        """Return the seats that are to deduce, of those that are to speak or vote."""
        if not self.setup.deduce or self.deduced or self.phase not in ("speak", "vote"):
            return ()
        return tuple(seat for seat in self.acting if seat in self.setup.deduce)

    def targets(self, seat: int) -> tuple[int, ...]:
        """Return the numbers that a seat may name now."""
        kind, living = self.setup.kinds[seat], self.living()
        night = self.phase in NIGHT
        if night and kind == WOLF:
            return tuple(self.places[one] for one in living if one not in self.setup.wolves)
        own = night and kind == DOCTOR
        return tuple(self.places[one] for one in living if one != seat or own)

    def named(self, seat: int) -> tuple[str, ...]:
        """Return the names of these."""
        return tuple(map(name_of, self.targets(seat)))

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return what a seat may reply now, None: any text."""
        named = self.named(seat)
        if self.deducing:
            return None
        if self.speaking:
            text = self.setup.speech == "text"
            return None if text else self.phrases(seat, self.setup.say)
        return (*named, ABSTAIN) if self.phase == "vote" and self.setup.abstain else named

    def phrases(self, seat: int, say: Sequence[str]) -> tuple[str, ...]:
        """Return what a seat may say now in the grammar, by day or to the wolves.

        Args:
            seat: one that is to speak.
            say: which kinds of phrases there are.
        """
        kinds = tuple(dict.fromkeys(self.setup.kinds[len(self.setup.wolves) :]))
        listed = phrases if self.phase == "speak" else whispers
        return listed(say, kinds, self.named(seat))

    def after(self, replies: Mapping[int, str], drawn: int = 0) -> Position:
        """Return the position after the replies of all seats that are due.

        Args:
            replies: a legal one each; of a speech in free text, the text that is passed on; a
                deduction as it is noted.
            drawn: a number from which a tie is decided, uniform below the product of all
                numbers of players that can be tied.
        """
        order = sorted(replies, key=lambda seat: self.places[seat])
        if self.deducing:
            thought = (
                Event(DEDUCED, self.places[seat], word=replies[seat], to=(seat,)) for seat in order
            )
            return self._replace(events=(*self.events, *thought), deduced=True)
        if self.phase == "vote":
            return self._replace(deduced=False)._voted(replies, drawn)
        if self.speaking:
            return self._said(replies, order)
        return self._by_night(replies)

    def _said(self, replies: Mapping[int, str], order: list[int]) -> Position:
        day = self.phase == "speak"
        kind, to = ("say", None) if day else ("whisper", self.pack())
        said = tuple(Event(kind, self.places[seat], word=replies[seat], to=to) for seat in order)
        spoken, events = (*self.spoken, *order), (*self.events, *said)
        now = self._replace(events=events, spoken=spoken, deduced=False)
        if now.acting:
            return now
        return now._replace(phase="vote") if day else now._asleep()

    def _by_night(self, replies: Mapping[int, str]) -> Position:
        now, pack = self, self.pack()
        for seat, word in sorted(replies.items()):
            kind, target = self.setup.kinds[seat], number_of(word)
            own = self.places[seat]
            if kind == SEER:
                wolf = self.setup.kinds[self.seat_at(target)] == WOLF
                now = now.told(Event("look", own, target, WOLF if wolf else GOOD, (seat,)))
            elif kind == DOCTOR:
                now = now.told(Event("save", own, target, to=(seat,)))._replace(saved=target)
            elif self.phase == "night" and len(pack) > 1:
                event = Event("propose", own, target, to=pack)
                now = now.told(event)._replace(proposed=target, phase="decide")
            else:
                now = now.told(Event("kill", own, target, to=pack))._replace(victim=target)
        return now if now.phase == "decide" and now.victim < 0 else now.morning()

    def told(self, event: Event) -> Position:
        """Return the position in which something has happened besides."""
        return self._replace(events=(*self.events, event))

    def morning(self) -> Position:
        """Return the position after the night: somebody is dead or nobody, then speeches."""
        if self.victim >= 0 and self.victim != self.saved:
            now = self._without(self.seat_at(self.victim), "dead")
        else:
            now = self.told(Event("quiet"))
        now = now._replace(proposed=-1, victim=-1, saved=-1, spoken=()).judged()
        if now.phase == "over":
            return now
        return now._replace(phase="vote" if self.setup.speech == "none" else "speak")

    def _without(self, seat: int, how: str) -> Position:
        """Return the position after a death, which the dead still learn of."""
        word = self.setup.kinds[seat] if self.setup.reveal else ""
        now = self.told(Event(how, target=self.places[seat], word=word))
        return now._replace(dead=(*now.dead, seat), known=(*now.known, len(now.events)))

    def _voted(self, replies: Mapping[int, str], drawn: int) -> Position:
        order = sorted(replies, key=lambda seat: self.places[seat])
        chosen = [-1 if replies[seat] == ABSTAIN else number_of(replies[seat]) for seat in order]
        votes = (
            Event("vote", self.places[seat], target)
            for seat, target in zip(order, chosen, strict=True)
        )
        now = self._replace(events=(*self.events, *votes))
        counts = Counter(target for target in chosen if target >= 0)
        most = sorted(one for one in counts if counts[one] == max(counts.values()))
        if len(most) == 1 or (most and self.setup.tie == "random"):
            out = most[drawn % len(most)]
            now = now._without(now.seat_at(out), "out")
        else:
            now = now.told(Event("stay"))
        now = now.judged()
        if now.phase == "over":
            return now
        if self.round == self.setup.rounds:
            won = {"wolves": WOLVES, "village": VILLAGE, "draw": NOBODY}[self.setup.cap]
            return now._replace(phase="over", winner=won)
        return now._replace(round=self.round + 1).begun()

    def judged(self) -> Position:
        """Return the position, over where a team has won."""
        winner = self.setup.winner(len(self.pack()), len(self.living()))
        return self._replace(phase="over", winner=winner) if winner >= 0 else self

    def begun(self) -> Position:
        """Return the position at the first moment of a night in which anybody acts."""
        talk = self.setup.wolves_talk and len(self.pack()) > 1
        return self._replace(phase="whisper", spoken=()) if talk else self._asleep()

    def _asleep(self) -> Position:
        now = self._replace(phase="night")
        return now if now.acting else now.morning()

    def seen(self, seat: int, since: int = 0) -> tuple[Event, ...]:
        """Return the events that a seat knows of: of the dead none after their death.

        Args:
            seat: whose.
            since: so many events of the play are left out.
        """
        until = len(self.events)
        if seat in self.dead:
            until = self.known[self.dead.index(seat)]
        return tuple(
            event for event in self.events[since:until] if event.to is None or seat in event.to
        )


@lru_cache(maxsize=65_536)
def _living(places: tuple[int, ...], dead: tuple[int, ...]) -> tuple[int, ...]:
    """Return the seats that live, in the order of their players' numbers."""
    alive = (seat for seat in range(len(places)) if seat not in dead)
    return tuple(sorted(alive, key=places.__getitem__))


@lru_cache(maxsize=65_536)
def _pack(
    kinds: tuple[str, ...], places: tuple[int, ...], dead: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the wolves of these."""
    return tuple(seat for seat in _living(places, dead) if kinds[seat] == WOLF)
