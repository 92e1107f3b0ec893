"""What a move is worth in puzzles with one solution.

Every cell is filled once and stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from sparring.types import Judgement


class Filling(Protocol):
    """What is read of such a puzzle's table."""

    @property
    def blanks(self) -> int:
        """Cells that are empty at the start."""
        ...

    @property
    def ends(self) -> bool:
        """Whether a wrong move ends the game."""
        ...

    @property
    def share(self) -> bool:
        """Whether the share of right cells is paid, and not only a solved puzzle."""
        ...

    @property
    def moves(self) -> Sequence[int]:
        """The moves so far."""
        ...


def filling(
    table: Filling,
    right: Sequence[bool],
    wrong: int,
    forced: Sequence[bool] | None,
    lost: Literal["abstain", "solution"],
) -> Judgement | None:
    """Return the judgement on a position.

    Args:
        table: the position.
        right: whether each legal move is the solution's.
        wrong: number of wrong moves so far.
        forced: which right moves are the best, if there are any; None: all.
        lost: what is said where nothing that is paid is left: None ("abstain"), or ``right`` with
            ``bound`` 1.
    """
    if wrong and not table.share:  # nothing that is done now changes what is paid
        return (
            None if lost == "abstain" else Judgement(values=[float(ok) for ok in right], bound=1.0)
        )
    if not table.share:
        best, worst = 1.0, 0.0
    elif table.ends:
        best, worst = 1.0, len(table.moves) / table.blanks
    else:
        best, worst = (
            (table.blanks - wrong) / table.blanks,
            (table.blanks - wrong - 1) / table.blanks,
        )
    values = [best if ok else worst for ok in right]
    return Judgement(values=values, best=forced if forced is not None and any(forced) else None)
