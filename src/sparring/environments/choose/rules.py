"""Choosing among candidates: rules and wording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.choose.play import ChoosePlay
from sparring.environments.choose.proposer import Proposer, numbers, remembered
from sparring.environments.combining import Combined, joined

__all__ = ["Choose"]

NOTHING = "(nothing)"  # a text without letters, as a candidate


class Choose(Combined):
    """Rules: those of the other environment, with candidates in place of actions.

    Attributes:
        proposer: draws the candidates.
        choosers: the seats that choose; the others say their actions themselves.
        figures: names of what the other environment counts.
        version: 1 drew candidates by the moment of the play.
    """

    version = 2

    def __init__(self, inner: Any, proposer: Proposer, choosers: Sequence[int] = ()) -> None:
        super().__init__("choose", inner)
        self.proposer, self.choosers = proposer, frozenset(choosers or range(inner.num_seats))
        self.max_turns, self.utility_sum = inner.max_turns, inner.utility_sum
        self.min_utility, self.max_utility = inner.min_utility, inner.max_utility
        self.figures: tuple[str, ...] = getattr(inner, "figures", ())

    def words(self) -> tuple[str, ...]:
        """Return the numbers of the candidates."""
        return numbers(self.proposer.count)

    def reset(self, stream: Stream) -> ChoosePlay:
        """Return a play at its start."""
        return ChoosePlay(self, self.inner.reset(stream.child(0)), stream.child(1))

    def offered(self, seen: Observation, shown: Sequence[str], before: str) -> Observation:
        """Return what a seat is told where it is to choose.

        Args:
            seen: what the other environment tells it.
            shown: the candidates.
            before: those of its decisions before, as ``remembered`` has them.
        """
        listed = list(zip(numbers(len(shown)), shown, strict=True))
        key = f"{before}{seen.key} {remembered(shown)}"
        if self.brief:
            choices = " ".join(f"{number} {action}" for number, action in listed)
            ask = ""
        else:
            lines = (f"{one}. {' '.join(action.split()) or NOTHING}" for one, action in listed)
            choices = "Your choices:\n" + "\n".join(lines)
            ask = f"Reply with exactly one of these numbers: {', '.join(n for n, _ in listed)}."
        view = joined([seen.view, choices], self.brief) if seen.view else ""
        told = joined([seen.told, choices], self.brief)
        return seen._replace(told=told, ask=ask, key=key, view=view)
