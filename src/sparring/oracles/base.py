"""What an oracle is: states in, a verdict on every legal action out; and what all oracles share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sparring.games.base import Game, State
from sparring.types import Verdict

SUPPORT = True

TIE = 1e-9  # values closer than this, relative to the largest, are equally good


class Oracle(Protocol):
    """Judges the decisions of one game."""

    name: str

    def covers(self, game: Game) -> str:
        """Return why this game cannot be judged, or ""."""
        ...

    def judge(self, states: Sequence[State]) -> list[Verdict | None]:
        """Return a verdict per state on the seat that is to act; None where the oracle abstains.

        Raises:
            OracleError: a state is finished, or of a game that is not covered.
        """
        ...


def verdict(actions: Sequence[str], values: Sequence[float], *, certainty: float = 1.0, bound: float = 0.0) -> Verdict:
    """Return the verdict whose best actions are those of the largest value.

    Args:
        actions: the legal actions.
        values: what each is worth to the seat that acts, in the game's units.
        certainty: in [0, 1]; 1 is exact.
        bound: how far a value may be from the truth.
    """
    top = max(values)
    tie = TIE * max(1.0, abs(top))
    best = frozenset(action for action, value in zip(actions, values, strict=True) if value >= top - tie)
    return Verdict(actions=tuple(actions), values=tuple(map(float, values)), best=best, certainty=certainty, bound=bound)
