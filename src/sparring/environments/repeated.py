"""Combinator: an environment played several times in a row, in one conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.combining import (
    CombinedEnvironment,
    CombinedPlay,
    ending_of,
    inner_of,
    joined,
    shown_of,
)
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import ended, heading, timeline

SHOWN = 6  # earlier plays that a picture shows
RESULTS = ("minus", "zero", "plus")  # what a seat got, in brief style


@dataclass(kw_only=True, eq=False)
class RepeatedEnvironment(CombinedEnvironment):
    """An environment played several times in a row by the same seats, who remember.

    What: each play begins afresh, with chance drawn anew. At its first turn in a play a seat is
    told how the one before ended and what it got. The conversations go on.
    When to use: to learn about an opponent from play to play, and for repeated games.
    Mathematics:
        return of a seat = sum over plays of its return
    Pitfalls: in style "full" every play says its rules again. ``rollout.max_new_tokens`` and the
    model's context must hold all plays. Information states are those of the whole sequence, so that
    their number grows exponentially.
    Verified by: tests/environments/test_combinators.py.

    Args:
        environment: the other environment, {name: ..., options: {...}}. null (default):
            rock_paper_scissors, to look at.
        rounds: number of plays, 1 to 1000.
        recall: false (default): the view is that of the play that goes on, so that with ``context:
            markov`` a seat knows nothing of the plays before. true: it begins with how the play
            before ended for the seat, and no more.

    Raises:
        ConfigError: the option ``environment`` names none.
    """

    environment: dict[str, Any] | None = None
    rounds: Annotated[int, Field(ge=1, le=1000)] = 3
    recall: bool = False

    def __post_init__(self) -> None:
        super().__init__("repeated", inner_of("repeated", self.environment))
        inner, rounds = self.inner, self.rounds
        self.max_turns = rounds * inner.max_turns
        self.min_utility, self.max_utility = rounds * inner.min_utility, rounds * inner.max_utility
        total = inner.utility_sum
        self.utility_sum = None if total is None else rounds * total

    def words(self) -> tuple[str, ...]:
        """Return the words for what a seat got."""
        return RESULTS

    def reset(self, stream: Stream) -> RepeatedPlay:
        return RepeatedPlay(self, stream)


class RepeatedPlay(CombinedPlay):
    """Several plays, one after the other.

    Attributes:
        number: of the play that goes on now, from 0.
        past_returns: returns of those before, [num_seats].
        before: those themselves.
    """

    def __init__(self, rules: RepeatedEnvironment, stream: Stream) -> None:
        super().__init__(rules, rules.inner.reset(stream.child(0)))
        self.stream, self.number = stream, 0
        self.before: tuple[Any, ...] = ()
        self.past_returns = (0.0,) * rules.num_seats
        self.keys = ("",) * rules.num_seats  # what each seat knows of the plays before
        self.last: dict[int, str] = {}  # what it knew and did at its last turn in this one

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs of all plays so far."""
        return tuple(a + b for a, b in zip(self.past_returns, self.play.returns, strict=True))

    def step(self, replies: Mapping[int, str]) -> None:
        known = self.known(replies)
        super().step(replies)
        self.last = {**self.last, **known}
        while self.play.done and self.number + 1 < self.rules.rounds:
            results = tuple(self.play.returns)
            for seat, got in enumerate(results):
                text = result_text(self.play, seat, got, self.rules.brief)
                self.news[seat] = joined([self.news.get(seat, ""), text], self.rules.brief)
                self.last[seat] = f"{self.last.get(seat, '')}{text}|"
            self.keys = tuple(f"{key}{self.last[seat]}" for seat, key in enumerate(self.keys))
            self.last = {}
            self.past_returns, self.number = self.returns, self.number + 1
            self.before = (*self.before, self.play)
            self.begin_another(self.stream.child(self.number))

    def observe(self, seat: int) -> Observation:
        """Return what the play tells a seat, after how the one before it ended."""
        seen = super().observe(seat)
        if self.rules.recall and seen.view:
            view = joined([self.news.get(seat, ""), seen.view], self.rules.brief)
            seen = seen._replace(view=view)
        return seen._replace(key=f"{self.keys[seat]}{seen.key}")

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        heading(canvas, f"Play {self.number + 1} of {self.rules.rounds}")
        super().paint(canvas, seat)
        if self.before:
            heading(canvas, "Plays before")
            messages = ended(self.before, self.rules.roles, seat, "play", SHOWN)
            timeline(canvas, messages, most=SHOWN, lines=2)

    def described(self, seat: int | None) -> str:
        roles = self.rules.roles
        seen = [
            (role, self.past_returns[player])
            for player, role in enumerate(roles)
            if seat in (None, player)
        ]
        payoffs = ", ".join(f"{role} {value:+g}" for role, value in seen)
        earlier = f" From the plays before: {payoffs}." if self.before else ""
        head = f"Play {self.number + 1} of {self.rules.rounds}."
        return f"{head} {super().described(seat)}{earlier}"


def result_text(play: Play, seat: int, got: float, brief: bool, reveal: bool = False) -> str:
    """Return how a play ended for a seat: what it learns of it, and what it got.

    Args:
        play: which is over.
        seat: who is told.
        got: its return.
        brief: whether in words for a tiny model.
        reveal: whether it is told what the rules show at the end, too (``shown`` of the play).
    """
    result = RESULTS[1 + (got > 0) - (got < 0)] if brief else f"That play is over. You got {got:g}."
    showdown = shown_of(play, seat, brief) if reveal else ""
    return joined([ending_of(play, seat), showdown, result], brief)


repeated = RepeatedEnvironment
