"""Credit: hierarchical advantages over segments of turns and over turns within them (HiPER)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import Cut, cut_turns, require_column, with_bootstrap
from sparring.ops.groups import (
    backward_recurrence,
    discounted_returns,
    group_ids,
    next_values,
    standardise,
    trajectory_starts,
)

NEEDS = {"value"}
REQUIRES = {"losses": {"value_loss"}}


def hiper(
    turns: TurnTable,
    *,
    segments: Literal["turns", "view"] = "turns",
    segment_turns: Annotated[int, Field(ge=1)] = 3,
    high_share: Annotated[float, Field(ge=0, le=1)] = 0.5,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    lam_turn: Annotated[float, Field(ge=0, le=1)] = 0.95,
    lam_segment: Annotated[float, Field(ge=0, le=1)] = 0.95,
    normalise: bool = True,
    cut: Cut = "bootstrap",
) -> Credit:
    """Credit a turn up to the end of its segment, and the first turn for the whole segment.

    What: The turns of a trajectory form segments. The low level sums temporal differences within a
    segment, up to the critic's value of the next segment. The high level sums the differences
    between the first turns of segments, as if each segment were one long step.
    When to use: long episodes with phases, in which credit should not pass back through every turn.
    Add the loss ``value_loss``.
    Mathematics:
        delta_t = r_t + gamma V_{t+1} - V_t
        A_low(t) = delta_t + gamma lam_turn A_low(t+1) within the segment
    V_{t+1} is V_high where the next turn opens a segment, and 0 after the last turn. For segment k
    of d turns from s_k:
        delta_k = sum_j gamma^j r + gamma^d V_high(s_{k+1}) - V_high(s_k)
        A_high(k) = delta_k + gamma^d lam_segment A_high(k+1)
    A turn that opens a segment gets
        (1 - high_share) A_low + high_share A_high
    and all others get A_low.
    Shapes: advantages and value_targets [N].
    Pitfalls:
        - In the published method the policy marks the start of a segment. A_high goes to the tokens
          of the subgoal, and a third advantage to the switch. Games here have no such tokens, so
          segments are fixed and the levels are mixed. This is our reading, not a reproduction.
        - The published method has two critics. Here one critic serves as both, V_low = V_high = V,
          with the same mixture for its targets; ``hierarchical_advantages`` takes two.
        - Without ``normalise``, two settings equal ``gae``: one segment per trajectory with
          high_share 0, and segments of one turn with high_share 1.
        - ``normalise`` subtracts a mean over turns, which is a bias.
    Reference: HiPER; code of JonP07/HiPER-agent, hiper_hae/core_hae.py.
    Verified by: tests/methods/credit/test_critics.py.

    Args:
        segments: what a segment is: "turns" (default), ``segment_turns`` successive turns of the
            seat, or "view", successive turns with the same view.
        segment_turns: turns per segment, at least 1; the default is 3, and the last segment may be
            shorter. Unused with ``segments`` "view".
        high_share: weight of A_high in the first turn of a segment, in [0, 1]. 0 uses A_low alone,
            1 A_high alone; the default 0.5 is their mean.
        gamma: discount per turn, in [0, 1]; 1 (default) does not discount.
        lam_turn: decay of the differences between turns of a segment, in [0, 1]. 1 sums all of
            them, 0 takes only the turn's own; the default 0.95 accepts a small bias for less
            variance.
        lam_segment: decay of the differences between segments, in [0, 1], with the same meaning and
            default as ``lam_turn``.
        normalise: true (default) gives A_low mean 0 and deviation 1 over the batch's turns, and
            A_high over the first turns of its segments. False leaves both. The critic's targets are
            never normalised.
        cut: "bootstrap" (default): an episode truncated by ``rollout.max_turns`` has not ended. The
            seat's next prompt is unknown, so V replaces r + gamma V_next of its last turn. That
            turn has advantage 0, and earlier turns bootstrap from its V. "zero": the episode counts
            as ended.

    Raises:
        CreditError: a column is missing.
    """
    value = turns.column("value")
    is_segment_start = _segment_starts(turns, segments, segment_turns)
    decays = {"gamma": gamma, "lam_turn": lam_turn, "lam_segment": lam_segment}
    is_truncated = cut_turns(turns, cut)
    reward = with_bootstrap(turns.reward, value, is_truncated)
    low, high = hierarchical_advantages(
        reward, value, value[is_segment_start], is_segment_start, turns.trajectory, **decays
    )
    targets = value + _mix_levels(low, high, is_segment_start, high_share)
    if normalise:
        ids = is_truncated.astype(np.int64)  # separates truncated turns, whose advantages are 0
        low, high = standardise(low, ids, 2), standardise(high, ids[is_segment_start], 2)
    metrics = {"segment_turns": len(low) / len(high)} if len(high) else {}
    advantages = _mix_levels(low, high, is_segment_start, high_share)
    return Credit(advantages=advantages, value_targets=targets, metrics=metrics)


def hierarchical_advantages(
    reward: FloatArray,
    value_low: FloatArray,
    value_high: FloatArray,
    is_segment_start: BoolArray,
    trajectory: IntArray,
    *,
    gamma: float,
    lam_turn: float,
    lam_segment: float,
) -> tuple[FloatArray, FloatArray]:
    """Return (advantages of turns within segments [N], of segments within trajectories [K]).

    Args:
        reward: rewards of the turns, [N].
        value_low: low critic before each turn, [N].
        value_high: high critic before each turn that opens a segment, [K].
        is_segment_start: whether the turn is the first one of a segment or trajectory, [N].
        trajectory: trajectory of each turn, [N], non-decreasing.
        gamma: discount per turn.
        lam_turn: decay of differences within a segment.
        lam_segment: decay of differences between segments.
    """
    segment, starts = np.cumsum(is_segment_start) - 1, np.flatnonzero(is_segment_start)
    next_value = value_low.copy()
    next_value[starts] = value_high
    low = reward + gamma * next_values(next_value, trajectory) - value_low
    durations = np.diff(np.append(starts, len(reward)))
    segment_trajectory, discount = trajectory[starts], gamma**durations
    segment_returns = discounted_returns(reward, segment, gamma=gamma)[starts]
    high = segment_returns + discount * next_values(value_high, segment_trajectory) - value_high
    return backward_recurrence(low, gamma * lam_turn, segment), backward_recurrence(
        high, discount * lam_segment, segment_trajectory
    )


def _segment_starts(
    turns: TurnTable, segments: Literal["turns", "view"], segment_turns: int
) -> BoolArray:
    starts = trajectory_starts(turns.trajectory)
    if segments == "turns":
        position = np.arange(len(turns.trajectory)) - np.repeat(
            starts, np.diff(np.append(starts, len(turns.trajectory)))
        )
        is_start: BoolArray = position % segment_turns == 0
        return is_start
    view = require_column(turns, "hiper", "view")
    views, _ = group_ids(turns.trajectory, view)
    return np.append(np.ones(min(len(views), 1), dtype=bool), np.diff(views) != 0)


def _mix_levels(
    low: FloatArray, high: FloatArray, is_segment_start: BoolArray, high_share: float
) -> FloatArray:
    """Return A_low, mixed with A_high at the first turn of each segment."""
    advantages = low.copy()
    advantages[is_segment_start] = (1.0 - high_share) * low[is_segment_start] + high_share * high
    return advantages
