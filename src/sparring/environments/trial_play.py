"""A play of ``trial``: attempts, one after the other, with notes between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.combining import CombinedPlay, joined, with_news
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import Said, heading, paragraph, timeline
from sparring.environments.drawing.told import ended
from sparring.environments.drawing.words import wrapped
from sparring.environments.repeated import SHOWN, result_text

REFLECT = "reflect"  # the question between attempts, in brief style
OVER = "The attempt is over."
AGAIN = "A new attempt begins, by the same rules."
NOTE = "note"  # begins a reflection, in brief style
ASK = (
    "Before the next attempt, write a short note to yourself: what you have learned, and what you "
    "will do differently."
)


class TrialPlay(CombinedPlay):
    """Attempts, one after the other.

    Attributes:
        attempt: number of the one that goes on now, from 0.
        paid: returns of those before, [num_seats].
        reflecting: whether the carried seats are to write their notes.
        notes: what each seat has written, by seat.
        before: the attempts that are over.
    """

    def __init__(self, rules: Any, stream: Stream) -> None:
        super().__init__(rules, rules.inner.reset(stream.child(0)))
        self.stream, self.attempt, self.reflecting, self.ended = stream, 0, False, False
        self.paid = (0.0,) * rules.num_seats
        self.notes: dict[int, tuple[str, ...]] = {}
        self.before: tuple[Any, ...] = ()
        self.opened: frozenset[int] = frozenset()  # seats that have replied in this attempt
        self.keys = ("",) * rules.num_seats  # what each seat knows of the attempts before
        self.last: dict[int, str] = {}  # what it knew and did at its last turn in this one

    @property
    def done(self) -> bool:
        """Whether the last attempt is over."""
        return self.ended

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs of all attempts so far."""
        return tuple(a + b for a, b in zip(self.paid, self.play.returns, strict=True))

    def due(self) -> tuple[int, ...]:
        """Return the seats of the attempt that are due, or those that reflect."""
        if self.ended:
            return ()
        return tuple(sorted(self.rules.carried)) if self.reflecting else super().due()

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the actions of the attempt; a note is any text."""
        return None if self.reflecting else super().legal(seat)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply; a note is what it is."""
        return reply if self.reflecting else super().read(seat, reply, exact)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply drawn at random; a note says what the attempt told, in brief nothing."""
        if not self.reflecting:
            return super().sample(seat, stream)
        told = "" if self.rules.brief else " ".join(self.news.get(seat, "").split())
        return told[: self.rules.note_limit] or NOTE

    def observe(self, seat: int) -> Observation:
        """Return what the attempt tells a seat, or the question for a note."""
        rules, news = self.rules, self.news.get(seat, "")
        if self.reflecting:
            ask = "" if rules.brief else ASK
            told = joined([news, REFLECT], True) if rules.brief else news
            key = f"{self.keys[seat]}{self.last.get(seat, '')}{news}|{REFLECT}"
            return Observation(told=told, ask=ask, key=key, attempt=self.attempt, note=True)
        begins = self.attempt > 0 and seat not in self.opened
        keeps = seat in rules.carried and rules.memory == "all"
        seen = self.play.observe(seat)
        if begins and keeps and rules.told_once:
            said = seen.told.removeprefix(rules.told_once).strip()
            seen = seen._replace(told=joined([AGAIN, said], False))
        fresh = (begins or seen.fresh) and not keeps
        seen = with_news(seen, self._notes(seat) if fresh else news, rules.brief)
        key = f"{self.keys[seat]}{seen.key}" if seat in rules.carried else seen.key
        return seen._replace(key=key, attempt=self.attempt, fresh=fresh)

    def _notes(self, seat: int) -> str:
        """Return what a seat has written so far, for a conversation that begins anew."""
        own = self.notes.get(seat, ())
        if self.rules.brief or not own:
            return joined(own, True)
        listed = (f"{number}. {text}" for number, text in enumerate(own, start=1))
        return joined(["Your notes from earlier attempts:", *listed], False)

    def step(self, replies: Mapping[int, str]) -> None:
        """Go on with the attempt, the notes, or the next attempt."""
        if self.reflecting:
            for seat, text in replies.items():
                note = text[: self.rules.note_limit]
                self.notes[seat] = (*self.notes.get(seat, ()), note)
                self._learnt(seat, self.news.pop(seat, ""))
                self.keys = _added(self.keys, seat, f"{note}|")
            self._next()
            return
        known = self.known(replies)
        super().step(replies)
        self._replied(known)

    def after(self, replies: Mapping[int, str], play: Play) -> TrialPlay:
        """Return a copy after replies of some seats to the attempt, which then stands as a play.

        For a walk over all that chance can do: ``step`` draws what chance does.

        Args:
            replies: to the attempt as it stands in this one; empty: only the play is another.
            play: of the inner environment; the copy keeps it, and ends the attempt if it is over.
        """
        twin, known = self.clone(), self.known(replies)
        twin.play = play
        for seat in replies:
            twin.news.pop(seat, None)
        twin._replied(known)
        return twin

    def _learnt(self, seat: int, said: str) -> None:
        """Add an attempt that is over to what a seat knows, unless its notes alone are kept."""
        if self.rules.memory == "all":
            self.keys = _added(self.keys, seat, f"{self.last.get(seat, '')}{said}|")

    def _replied(self, known: Mapping[int, str]) -> None:
        """Note who has replied in the attempt, with what was known, and go on where it is over."""
        self.opened |= set(known)
        self.last = {**self.last, **known}
        while self.play.done and not self.ended and not self.reflecting:
            self._over()

    def _over(self) -> None:
        """End the attempt that is over."""
        rules, results = self.rules, tuple(self.play.returns)
        won = any(results[seat] > 0 for seat in rules.carried)
        if self.attempt + 1 == rules.attempts or (rules.stop_on_win and won):
            self.ended = True
            return
        for seat in rules.carried:
            said = result_text(self.play, seat, results[seat], rules.brief, rules.reveal)
            self.news[seat] = joined([self.news.get(seat, ""), said], rules.brief)
            if not rules.reflect:
                self._learnt(seat, said)
        if rules.reflect:
            self.reflecting = True
        else:
            self._next()

    def _next(self) -> None:
        """Begin the next attempt."""
        self.before = (*self.before, self.play)
        self.paid, self.attempt = self.returns, self.attempt + 1
        self.reflecting, self.opened, self.last = False, frozenset(), {}
        number = 0 if self.rules.redeal == "same" else self.attempt
        self.begin_another(self.stream.child(number))

    def clone(self) -> TrialPlay:
        """Return an independent copy."""
        twin: TrialPlay = super().clone()
        twin.notes = dict(self.notes)
        return twin

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the attempt that goes on; for who remembers, those before and the notes."""
        rules, knows = self.rules, seat is None or seat in self.rules.carried
        if knows:
            note = "notes are due" if self.reflecting else ""
            heading(canvas, f"Attempt {self.attempt + 1} of {rules.attempts}", note)
        if not knows and self.reflecting:
            paragraph(canvas, OVER)  # how it ended is told to those who remember
            return
        super().paint(canvas, seat)
        if not knows:
            return
        if self.before:
            heading(canvas, "Attempts before")
            said = ended(self.before, rules.roles, seat, "attempt", SHOWN)
            timeline(canvas, said, most=SHOWN, lines=2)
        for one, notes in sorted(self.notes.items()):
            if seat in (None, one):
                who = f"note of {rules.roles[one]}"
                said = [Said(who, text or "(nothing)", seat_colour(one)) for text in notes]
                timeline(canvas, said, most=3)

    def described(self, seat: int | None) -> str:
        """Return the position of the attempt; for who remembers, its number and the last note."""
        rules, said = self.rules, super().described(seat)
        if seat is not None and seat not in rules.carried:
            return OVER if self.reflecting else said
        parts = [f"Attempt {self.attempt + 1} of {rules.attempts}.", said]
        if self.reflecting:
            parts.append("Notes are due.")
        for one, notes in sorted(self.notes.items()):
            if seat in (None, one):
                parts.append(f"{rules.roles[one]} noted: {wrapped(notes[-1], 1, 60, 1)[0]}")
        return " ".join(parts)


def _added(keys: tuple[str, ...], seat: int, text: str) -> tuple[str, ...]:
    """Return what seats know, with something more for one of them."""
    return (*keys[:seat], keys[seat] + text, *keys[seat + 1 :])
