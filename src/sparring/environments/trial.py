"""Combinator: several attempts at an environment, with reflections between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.environments.combining import (
    SHOWS,
    Combined,
    CombinedPlay,
    ended,
    inner_of,
    joined,
    with_news,
)
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import Said, heading, paragraph, timeline
from sparring.environments.drawing.words import wrapped
from sparring.environments.repeated import RESULTS, SHOWN, result_text
from sparring.errors import ConfigError, UnknownNameError, quoted
from sparring.rng import Stream
from sparring.types import Observation

REFLECT = "reflect"  # the question between attempts, in brief style
OVER = "The attempt is over."
NOTE = "note"  # begins a reflection, in brief style
ASK = (
    "Before the next attempt, write a short note to yourself: what you have learned, and what you "
    "will do differently."
)


class Trial(Combined):
    """Rules: those of the other environment, ``attempts`` times."""

    def __init__(
        self,
        inner: Any,
        *,
        attempts: int,
        carry: tuple[str, ...],
        reflect: bool,
        memory: str,
        redeal: str,
        stop_on_win: bool,
        note_limit: int,
        reveal: bool = False,
    ) -> None:
        super().__init__("trial", inner)
        self.attempts, self.reflect, self.memory, self.redeal = attempts, reflect, memory, redeal
        self.stop_on_win, self.note_limit, self.reveal = stop_on_win, note_limit, reveal
        self.carried = tuple(inner.roles.index(role) for role in carry)
        notes = (attempts - 1) * len(self.carried) if reflect else 0
        self.notes = notes > 0
        self.max_turns = attempts * inner.max_turns + notes
        ends = (inner.min_utility, inner.max_utility)
        self.min_utility, self.max_utility = (attempts * end for end in ends)
        if stop_on_win:  # a win may be the first attempt's, and nothing follows it
            self.max_utility = max(self.max_utility, inner.max_utility)
        total = inner.utility_sum
        self.utility_sum = None if total is None or (stop_on_win and total) else attempts * total

    def words(self) -> tuple[str, ...]:
        """Return the words between attempts."""
        return (*RESULTS, REFLECT, NOTE, *([SHOWS] if self.reveal else []))

    def reset(self, stream: Stream) -> TrialPlay:
        """Return the first attempt at its start."""
        return TrialPlay(self, stream)


class TrialPlay(CombinedPlay):
    """Attempts, one after the other.

    Attributes:
        attempt: number of the one that goes on now, from 0.
        paid: returns of those before, [num_seats].
        reflecting: whether the carried seats are to write their notes.
        notes: what each seat has written, by seat.
        before: the attempts that are over.
    """

    def __init__(self, rules: Trial, stream: Stream) -> None:
        super().__init__(rules, rules.inner.reset(stream.child(0)))
        self.stream, self.attempt, self.reflecting, self.ended = stream, 0, False, False
        self.paid = (0.0,) * rules.num_seats
        self.notes: dict[int, tuple[str, ...]] = {}
        self.before: tuple[Any, ...] = ()
        self.opened: frozenset[int] = frozenset()  # seats that have replied in this attempt
        self.keys = ("",) * rules.num_seats  # what each seat knows of the attempts before

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
        """Return a reply drawn at random, or a note that says nothing."""
        return NOTE if self.reflecting else super().sample(seat, stream)

    def observe(self, seat: int) -> Observation:
        """Return what the attempt tells a seat, or the question for a note."""
        rules, news = self.rules, self.news.get(seat, "")
        if self.reflecting:
            ask = "" if rules.brief else ASK
            told = joined([news, REFLECT], True) if rules.brief else news
            key = f"{self.keys[seat]}{news}|{REFLECT}"
            return Observation(told=told, ask=ask, key=key, attempt=self.attempt, note=True)
        begins = self.attempt > 0 and seat not in self.opened
        keeps = seat in rules.carried and rules.memory == "all"
        if begins and not keeps:
            news = self._notes(seat)
        seen = with_news(self.play.observe(seat), news, rules.brief)
        key = f"{self.keys[seat]}{seen.key}" if seat in rules.carried else seen.key
        return seen._replace(key=key, attempt=self.attempt, fresh=begins and not keeps)

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
                self.keys = _added(self.keys, seat, f"{self.news.pop(seat, '')}|{note}|")
            self._next()
            return
        super().step(replies)
        self.opened |= set(replies)
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
            self.news[seat] = result_text(self.play, seat, results[seat], rules.brief, rules.reveal)
        if rules.reflect and rules.carried:
            self.reflecting = True
        else:
            for seat in rules.carried:
                self.keys = _added(self.keys, seat, f"{self.news[seat]}|")
            self._next()

    def _next(self) -> None:
        """Begin the next attempt."""
        self.before = (*self.before, self.play)
        self.paid, self.attempt = self.returns, self.attempt + 1
        self.reflecting, self.opened = False, frozenset()
        number = 0 if self.rules.redeal == "same" else self.attempt
        self.play = self.rules.inner.reset(self.stream.child(number))

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


def trial(
    *,
    environment: dict[str, Any] | None = None,
    attempts: Annotated[int, Field(ge=1, le=100)] = 3,
    carry: tuple[str, ...] = (),
    reflect: bool = True,
    memory: Literal["all", "notes"] = "all",
    redeal: Literal["fresh", "same"] = "fresh",
    stop_on_win: bool = False,
    note_limit: Annotated[int, Field(ge=1, le=100_000)] = 2000,
    reveal: bool = False,
) -> Trial:
    """Several attempts at an environment in one episode: meta-RL, learning within an episode.

    What: the seats named in ``carry`` remember from attempt to attempt, and write a note (any text)
    between two of them. All other seats begin a fresh conversation at every attempt, so that they
    are the same opponent again. Turns are numbered by attempt (record ``attempt``); a note belongs
    to the attempt before it.
    When to use: to train agents that learn about a task or an opponent while they play it (MAGE,
    LaMer), with an estimator that reads attempts.
    Mathematics:
        return of a seat = sum over attempts of its return
    Pitfalls: with ``redeal: same`` (as MAGE's release) a note may give away what chance will do
    again, so that the next attempt is recall. With ``stop_on_win`` an early win ends the episode,
    and later attempts are missing, not lost. A note is a turn, and is trained on like any other.
    Reference: MAGE (arXiv 2603.03680); LaMer (arXiv 2512.16848).
    Verified by: tests/environments/test_combinators.py.

    Args:
        environment: the other environment, {name: ..., options: {...}}. null (default):
            rock_paper_scissors, to look at.
        attempts: number of attempts, 1 to 100.
        carry: roles that remember. Empty (default): the first role alone.
        reflect: whether these write a note between attempts. true by default.
        memory: what they keep: "all" (default), their whole conversation; "notes", their notes
            alone, in a fresh conversation at every attempt.
        redeal: "fresh" (default): chance is drawn anew at every attempt. "same": every attempt has
            the chance of the first, as far as the play goes the same way.
        stop_on_win: whether an attempt with a positive return of a carried seat is the last.
        note_limit: characters of a note that are kept, 1 to 100,000.
        reveal: whether those who remember are told at the end of an attempt what the rules show
            then, such as the cards of a show-down in kuhn_poker (no card after a fold). false by
            default: the actions and the result alone.

    Raises:
        ConfigError: the option ``environment`` names none, or a role is carried twice.
        UnknownNameError: the environment has no role of a name in ``carry``.
    """
    inner = inner_of("trial", environment)
    for role in carry:
        if role not in inner.roles:
            raise UnknownNameError(f"role of {inner.name}", role, inner.roles)
    if len(set(carry)) != len(carry):
        raise ConfigError(f"environments 'trial': carry={quoted(carry)} names a role twice.")
    return Trial(
        inner,
        attempts=attempts,
        carry=tuple(carry) or inner.roles[:1],
        reflect=reflect,
        memory=memory,
        redeal=redeal,
        stop_on_win=stop_on_win,
        note_limit=note_limit,
        reveal=reveal,
    )
