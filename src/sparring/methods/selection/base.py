"""Functions for selection rules: trajectories with groups, and draws that ignore the row order.

Legend: J trajectories.
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
from sparring.ops.groups import group_counts, group_std_or_zero, trajectory_sums


def check_output(rule: BoundPlugin, mask: Any, turns: TurnTable, *stream: Any) -> None:
    """Check that a selection rule has returned a mask over turns, after every call.

    Raises:
        PluginError: the output is not a boolean per turn.
    """
    if np.shape(mask) != (len(turns.reward),) or np.asarray(mask).dtype != bool:
        actual = f"{np.asarray(mask).dtype} of shape {np.shape(mask)}"
        raise PluginError(
            f"The {rule} must return a boolean per turn, of shape ({len(turns.reward)},) here; it "
            f"returned {actual}."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Trajectories:
    """The trajectories of a turn table; a group has one initial state and role."""

    turns: TurnTable
    returns: FloatArray  # [J]
    first_rows: IntArray  # [J] first row of each trajectory
    groups: IntArray  # [J] index of the trajectory's group
    num_groups: int

    @property
    def group_sizes(self) -> IntArray:
        """Number of trajectories of each group."""
        return group_counts(self.groups, self.num_groups)

    @property
    def num_turns(self) -> IntArray:
        """Number of turns of each trajectory, [J]."""
        return np.diff(np.append(self.first_rows, len(self.turns.trajectory)))

    def deviations(self) -> FloatArray:
        """Return the sample deviation of each group's returns, and exactly 0 for equal returns."""
        return group_std_or_zero(self.returns, self.groups, self.num_groups)

    def sums(self, column: FloatArray) -> FloatArray:
        """Return a column's sum over each trajectory, [J]."""
        return trajectory_sums(column, self.turns.trajectory)

    def group_draws(self, stream: Stream) -> FloatArray:
        """Return one uniform draw per group, which depends on the group's id and role only."""
        rows = self.first_rows[np.unique(self.groups, return_index=True)[1]]
        return _uniforms(stream, self.turns.group[rows], self.turns.role[rows])

    def draws(self, stream: Stream) -> FloatArray:
        """Return one uniform draw per trajectory, which depends on episode and seat only, [J]."""
        return _uniforms(
            stream, self.turns.episode[self.first_rows], self.turns.seat[self.first_rows]
        )

    def row_mask(self, mask: BoolArray) -> BoolArray:
        """Return a mask of trajectories [J] as a mask of rows [N]."""
        if len(mask):
            return broadcast_to_turns(mask.astype(np.float64), self.turns) > 0.0
        return np.zeros(0, dtype=bool)


def trajectories(turns: TurnTable, rule: str) -> Trajectories:
    """Return the trajectories of a table.

    Args:
        turns: the table.
        rule: name of the selection rule, for messages.

    Raises:
        CreditError: a reward is not finite.
    """
    invalid = np.flatnonzero(~np.isfinite(turns.reward))
    if len(invalid):
        raise CreditError(
            f"selection {rule!r}: reward {turns.reward[invalid[0]]} in row {invalid[0]} is not "
            "finite; correct the game or the reward plug-in from which it comes."
        )
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    return Trajectories(
        turns=turns,
        returns=returns,
        first_rows=first_rows,
        groups=groups[first_rows],
        num_groups=num_groups,
    )


def best_first(scores: FloatArray, draws: FloatArray) -> IntArray:
    """Return the order of descending scores, with ties in the order of the draws."""
    order: IntArray = np.lexsort((draws, -scores))
    return order


def _uniforms(stream: Stream, first_keys: IntArray, second_keys: IntArray) -> FloatArray:
    keys = zip(first_keys.tolist(), second_keys.tolist(), strict=True)
    return np.array([stream.child(a).child(b).uniform(0) for a, b in keys], dtype=np.float64)
