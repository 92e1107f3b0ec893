"""What selection rules share.

The trajectories of a turn table with their groups, and draws that order does not change. J
trajectories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import CreditError, PluginError
from sparring.core.records import BoolArray, FloatArray, IntArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import deviations, group_counts, trajectory_sums


def check_output(rule: BoundPlugin, mask: Any, turns: TurnTable, *stream: Any) -> None:
    """Check that a selection rule has said of every turn whether it is kept.

    Every call of one ends here.

    Raises:
        PluginError: it gave something else.
    """
    if np.shape(mask) != (len(turns.reward),) or np.asarray(mask).dtype != bool:
        given = f"{np.asarray(mask).dtype} of shape {np.shape(mask)}"
        raise PluginError(
            f"The {rule} must give a boolean per turn, of shape ({len(turns.reward)},) here; it "
            f"gave {given}."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Trajectories:
    """The trajectories of a turn table; a group is those of one start and role."""

    turns: TurnTable
    returns: FloatArray  # [J]
    starts: IntArray  # [J] first row of each
    groups: IntArray  # [J] number of its group
    num_groups: int

    @property
    def counts(self) -> IntArray:
        """Trajectories of each group."""
        return group_counts(self.groups, self.num_groups)

    @property
    def lengths(self) -> IntArray:
        """Turns of each trajectory, [J]."""
        return np.diff(np.append(self.starts, len(self.turns.trajectory)))

    def deviations(self) -> FloatArray:
        """Return the sample deviation of the returns of each group.

        It is exactly 0 where they are equal up to rounding, or one.
        """
        return deviations(self.returns, self.groups, self.num_groups)

    def sums(self, column: FloatArray) -> FloatArray:
        """Return a column's sum over each trajectory, [J]."""
        return trajectory_sums(column, self.turns.trajectory)

    def group_draws(self, stream: Stream) -> FloatArray:
        """Return one uniform draw per group, a function of the group's id and its role."""
        first = self.starts[np.unique(self.groups, return_index=True)[1]]
        return _draws(stream, self.turns.group[first], self.turns.role[first])

    def draws(self, stream: Stream) -> FloatArray:
        """Return one uniform draw per trajectory, [J].

        It is a function of its episode's id and its seat.
        """
        return _draws(stream, self.turns.episode[self.starts], self.turns.seat[self.starts])

    def rows(self, kept: BoolArray) -> BoolArray:
        """Return a mask of trajectories [J] as a mask of rows [N]."""
        return (
            broadcast_to_turns(kept.astype(np.float64), self.turns) > 0.0
            if len(kept)
            else np.zeros(0, dtype=bool)
        )


def trajectories(turns: TurnTable, rule: str) -> Trajectories:
    """Return the trajectories of a table.

    Args:
        turns: the table.
        rule: name of the selection rule, for messages.

    Raises:
        CreditError: a reward is not finite.
    """
    bad = np.flatnonzero(~np.isfinite(turns.reward))
    if len(bad):
        where = f"reward {turns.reward[bad[0]]} in row {bad[0]}"
        raise CreditError(
            f"selection {rule!r}: {where} is not finite; mend the game or reward that gave it."
        )
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    return Trajectories(
        turns=turns, returns=returns, starts=starts, groups=groups[starts], num_groups=count
    )


def best_first(scores: FloatArray, draws: FloatArray) -> IntArray:
    """Return the order of descending scores, equal ones in the order of their draws."""
    order: IntArray = np.lexsort((draws, -scores))
    return order


def _draws(stream: Stream, first: IntArray, second: IntArray) -> FloatArray:
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.array([stream.child(a).child(b).uniform(0) for a, b in pairs], dtype=np.float64)
