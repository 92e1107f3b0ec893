"""Combinator: several plays of an environment in a row, in one conversation."""

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
    join_texts,
    shown_of,
)
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import finished_plays, heading, timeline

MAX_PLAYS = 6  # largest number of earlier plays
RESULTS = ("minus", "zero", "plus")  # words for results, in brief style


@dataclass(kw_only=True, eq=False)
class RepeatedEnvironment(CombinedEnvironment):
    """Several plays of an environment in a row, with the same seats and continuing conversations.

    What: each play has a new initial state and new chance. The first prompt of a play begins with
    the end and the payoff of the previous play.
    When to use: to learn about an opponent over several plays, and for repeated games.
    Mathematics:
        return of a seat = sum over plays of its return
    Pitfalls: in style "full" every play repeats its rules. ``rollout.max_new_tokens`` and the
    model's context must hold all plays. Information states cover all plays, so their number grows
    exponentially with the number of plays.
    Verified by: tests/environments/test_combinators.py.

    Args:
        environment: the environment to repeat, {name: ..., options: {...}}. null (default):
            rock_paper_scissors, as an example.
        rounds: number of plays, 1 to 1000.
        recall: false (default): the view has only the current play, so with ``context: markov`` a
            seat knows nothing of earlier plays. true: the view begins with the end of the previous
            play, but has no earlier plays.

    Raises:
        ConfigError: the option ``environment`` names no environment.
    """

    environment: dict[str, Any] | None = None
    rounds: Annotated[int, Field(ge=1, le=1000)] = 3
    recall: bool = False

    def __post_init__(self) -> None:
        super().__init__("repeated", inner_of("repeated", self.environment))
        inner, rounds = self.inner, self.rounds
        self.max_turns = rounds * inner.max_turns
        self.min_utility, self.max_utility = rounds * inner.min_utility, rounds * inner.max_utility
        inner_sum = inner.utility_sum
        self.utility_sum = None if inner_sum is None else rounds * inner_sum

    def words(self) -> tuple[str, ...]:
        """Return the words for results."""
        return RESULTS

    def reset(self, stream: Stream) -> RepeatedPlay:
        return RepeatedPlay(self, stream)


class RepeatedPlay(CombinedPlay):
    """Several plays, one after the other.

    Attributes:
        number: number of the current play, from 0.
        past_returns: sum of the returns of earlier plays, [num_seats].
        earlier_plays: the plays that are over.
    """

    def __init__(self, rules: RepeatedEnvironment, stream: Stream) -> None:
        super().__init__(rules, rules.inner.reset(stream.child(0)))
        self.stream, self.number = stream, 0
        self.earlier_plays: tuple[Any, ...] = ()
        self.past_returns = (0.0,) * rules.num_seats
        self.keys = ("",) * rules.num_seats  # what each seat knows of earlier plays
        self.last_turns: dict[int, str] = {}  # seat -> information state and reply of its turn

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs of all plays so far."""
        return tuple(a + b for a, b in zip(self.past_returns, self.play.returns, strict=True))

    def step(self, replies: Mapping[int, str]) -> None:
        key_parts = self.key_parts(replies)
        super().step(replies)
        self.last_turns = {**self.last_turns, **key_parts}
        while self.play.done and self.number + 1 < self.rules.rounds:
            for seat, payoff in enumerate(tuple(self.play.returns)):
                text = result_text(self.play, seat, payoff, self.rules.brief)
                self.news[seat] = join_texts([self.news.get(seat, ""), text], self.rules.brief)
                self.last_turns[seat] = f"{self.last_turns.get(seat, '')}{text}|"
            self.keys = tuple(f"{key}{self.last_turns[seat]}" for seat, key in enumerate(self.keys))
            self.last_turns = {}
            self.past_returns, self.number = self.returns, self.number + 1
            self.earlier_plays = (*self.earlier_plays, self.play)
            self.begin_another(self.stream.child(self.number))

    def observe(self, seat: int) -> Observation:
        """Return the observation of the current play, after the end of the previous play."""
        observation = super().observe(seat)
        if self.rules.recall and observation.view:
            view = join_texts([self.news.get(seat, ""), observation.view], self.rules.brief)
            observation = observation._replace(view=view)
        return observation._replace(key=f"{self.keys[seat]}{observation.key}")

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        heading(canvas, f"Play {self.number + 1} of {self.rules.rounds}")
        super().paint(canvas, seat)
        if self.earlier_plays:
            heading(canvas, "Plays before")
            messages = finished_plays(self.earlier_plays, self.rules.roles, seat, "play", MAX_PLAYS)
            timeline(canvas, messages, most=MAX_PLAYS, lines=2)

    def described(self, seat: int | None) -> str:
        roles = self.rules.roles
        payoffs = ", ".join(
            f"{role} {self.past_returns[player]:+g}"
            for player, role in enumerate(roles)
            if seat in (None, player)
        )
        earlier_text = f" From the plays before: {payoffs}." if self.earlier_plays else ""
        title = f"Play {self.number + 1} of {self.rules.rounds}."
        return f"{title} {super().described(seat)}{earlier_text}"


def result_text(play: Play, seat: int, payoff: float, brief: bool, reveal: bool = False) -> str:
    """Return the end of a play for a seat: the final news and the result.

    Args:
        play: a play that is over.
        seat: the reader.
        payoff: the reader's return.
        brief: whether the style is brief.
        reveal: whether to add what the rules reveal at the end (``shown`` of the play).
    """
    sign = (payoff > 0) - (payoff < 0)
    result = RESULTS[1 + sign] if brief else f"That play is over. You got {payoff:g}."
    showdown = shown_of(play, seat, brief) if reveal else ""
    return join_texts([ending_of(play, seat), showdown, result], brief)


repeated = RepeatedEnvironment
