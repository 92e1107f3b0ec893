"""Credit: process rewards normalised at each turn over the group (VPR)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import CreditError
from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import (
    broadcast_to_turns,
    component,
    require_column,
    start_groups,
    turn_keys,
)
from sparring.ops.groups import (
    centre,
    discounted_returns,
    divide_by_deviation,
    group_ids,
    is_varied,
    leave_one_out_mean,
    standardise,
    trajectory_starts,
    trajectory_sums,
)

PRESETS = {
    "unbiased": {"leave_one_out": True, "divide_by_std": False},
    "by_turn": {"baseline": "turn_index", "divide_by_std": True},
    "as_released": {
        "baseline": "candidates",
        "divide_by_std": False,
        "whiten": True,
        "equal": "mask",
        "skip_above": 0.93,
        "epsilon": 1e-8,
    },
}

NEEDS_BY = {"baseline": {"candidates": {"state_group", "committed"}}}
GROUP_RELATIVE = {"baseline": {"turn_index", "state"}}
REQUIRES = {"components": {"process"}}  # options that name components


def vpr(
    turns: TurnTable,
    *,
    process: str = "best_action",
    baseline: Literal["turn_index", "state", "role", "candidates", "none"] = "turn_index",
    leave_one_out: bool = False,
    divide_by_std: bool = True,
    whiten: bool = False,
    equal: Literal["keep", "mask"] = "keep",
    skip_above: Annotated[float, Field(ge=0, le=1)] = 1.0,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.0,
    outcome: Annotated[float, Field(ge=0)] = 0.0,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare the process reward of a turn with those of the same turn of the group.

    What: Turn-level GRPO on a reward that an oracle gives each turn. Every token of a turn gets its
    turn's advantage. Two forms are published. The older form, the default and preset "by_turn",
    compares the same turn of several episodes. The authors' current code, preset "as_released",
    compares several replies to one prompt.
    When to use: with a process reward such as ``best_action`` or ``regret``, in groups of
    trajectories with the same initial state; "as_released" with ``rollout.candidates``.
    Mathematics:
        x[i, t] = sum over k >= t of gamma^(k-t) p[i, k]
        A[i, t] = (x[i, t] - mean x) / (std x + epsilon) + outcome * A_grpo[i]
    p is the process reward. Mean and deviation are over the members of the baseline's group whose
    turn was judged. A_grpo is the normalised rest of the trajectory's return. With
    ``leave_one_out`` the mean is over the other members; without ``divide_by_std`` the deviation is
    1. With ``whiten`` the differences d = x - mean x become
        A[i] = (d[i] - mean d) / (std d + epsilon)
    with the mean and the population deviation of all rows that train. With ``equal`` "mask" the
    rows of a group of equal x do not train: their tokens are not in losses, means of tokens or
    whitening. If x is equal within more than ``skip_above`` of the groups, nothing trains.
    Shapes: advantages [N]; groups per (group, role, turn_index) by default, per prompt with
    ``candidates``.
    Pitfalls:
        - With gamma 0 a turn gets no credit for its successor states. The expected gradient is that
          of each turn's reward, given that the turn is reached. For ``regret`` this is right only
          under the oracle's policy; for ``potential`` it is one step of improvement on the oracle.
        - A reward that is part of its own mean shrinks the gradient by (m - 1) / m, where m members
          reach the turn. So turns that few members reach count less, and a single member gets 0.
        - The deviation gives rare right turns more weight.
        - With gamma > 0 and turn-index means, rewards of later turns are compared only among the
          members that reach these turns.
        - With ``candidates`` a reply that was not played has no later turns. So gamma must be 0,
          and only played replies get the outcome's part. The states are then those of the chosen
          replies, not of the policy.
        - Turns without a verdict get only the outcome's part; with ``equal`` "mask" they do not
          train.
        - With ``whiten`` a group with large differences weighs more than a group with small ones,
          and the scale depends on the whole batch.
        - Preset "unbiased" is leave-one-out without the deviation.
    Metrics: judged_share; with ``equal`` "mask" also equal_share, of the judged groups, and
    skipped_update, 1 if nothing trains.
    Reference: arXiv 2605.10325 (VPR), and code of thu-nics/VPR, core_gigpo.py; with baseline
    "turn_index" and gamma 0 the formula of ``at_grpo`` on one component.
    Verified by: tests/methods/credit/test_judged_turns.py.

    Args:
        process: name of the reward component that scores turns; the default is an oracle's
            ``best_action``.
        baseline: which judged turns are compared. "turn_index" (default, as published): those of
            the group at the same turn index and role; "state": those of the batch with the same
            information state; "role": all turns of the role in the batch; "candidates": the replies
            to one prompt, where ``rollout.candidates`` asks for several. "none" subtracts no mean;
            with ``divide_by_std`` it still divides by the role's deviation.
        leave_one_out: true takes the mean over the other members. False (default) includes the turn
            itself.
        divide_by_std: true (default) divides by the sample deviation. False leaves the differences.
        whiten: true makes the differences of all rows that train have mean 0 and deviation 1. False
            (default) leaves them.
        equal: treatment of a group of equal scores, or of one member. "keep" (default): its
            advantages are 0, and its tokens count in the means of losses. "mask": its tokens are
            excluded everywhere.
        skip_above: with ``equal`` "mask", the share of equal groups, in [0, 1], above which the
            step trains nothing. 1 (default) never skips; the authors' launchers have 0.93 for
            Sudoku, 0.9 for tic-tac-toe and none for the others.
        gamma: discount per turn of process rewards, in [0, 1]. 0 (default) counts the turn's reward
            only, 1 also all later rewards in full.
        outcome: weight of A_grpo, the rest of the trajectory's return compared within its (group,
            role) with ``leave_one_out`` and ``divide_by_std``; a number of at least 0 or a
            schedule. Default 0: no such term.
        epsilon: added to the deviations, in reward units, at least 0. The default matters only
            where a deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: no turn has the process reward, candidates are compared with a gamma above 0,
            or turns are masked that the outcome's part would train.
    """
    _check_options(baseline, gamma, outcome, equal)
    rewards = component(turns, "vpr", process)
    # only rows with a verdict are compared
    rows = np.arange(len(rewards)) if turns.judged is None else np.flatnonzero(turns.judged)
    values = rewards if gamma == 0 else discounted_returns(rewards, turns.trajectory, gamma=gamma)
    advantages = np.zeros(len(rewards))
    ids, num_ids = _groups(turns, rows, baseline)
    advantages[rows] = _relative_to_group(
        values[rows], ids, num_ids, baseline == "none", leave_one_out, divide_by_std, epsilon
    )
    metrics = {"judged_share": len(rows) / len(rewards)} if len(rewards) else {}
    mask = None
    if equal == "mask":
        is_varied_group = is_varied(values[rows], ids, num_ids)
        mask = np.zeros(len(rewards), dtype=bool)
        equal_share = float((~is_varied_group).mean()) if num_ids else 0.0
        if equal_share <= skip_above:
            mask[rows] = is_varied_group[ids]
        metrics |= {"equal_share": equal_share, "skipped_update": float(not mask.any())}
    if whiten:
        trained_rows = rows if mask is None else np.flatnonzero(mask)
        advantages[trained_rows] = _whiten(advantages[trained_rows], epsilon)
    if outcome:
        other_returns = trajectory_sums(turns.reward - rewards, turns.trajectory)
        groups, num_groups = start_groups(turns)
        first_rows = trajectory_starts(turns.trajectory)
        is_played = np.ones(len(first_rows), dtype=bool)
        if turns.committed is not None:
            is_played = turns.committed[first_rows]
        relative_returns = np.zeros(len(first_rows))
        relative_returns[is_played] = _relative_to_group(
            other_returns[is_played],
            groups[first_rows[is_played]],
            num_groups,
            False,
            leave_one_out,
            divide_by_std,
            epsilon,
        )
        advantages += outcome * broadcast_to_turns(relative_returns, turns)
    return Credit(advantages=advantages, trained=mask, metrics=metrics)


def _check_options(baseline: str, gamma: float, outcome: float, equal: str) -> None:
    if baseline == "candidates" and gamma:
        raise CreditError(
            f"credit 'vpr': gamma={gamma} counts later turns, which candidates that were not "
            "played do not have; write gamma: 0, or another baseline."
        )
    if equal == "mask" and outcome:
        raise CreditError(
            f"credit 'vpr': equal='mask' excludes turns that outcome={outcome} would train; "
            "write equal: keep, or outcome: 0."
        )


def _whiten(values: FloatArray, epsilon: float) -> FloatArray:
    """Return values minus their mean, over their population deviation; 0 for equal values."""
    ids = np.zeros(len(values), dtype=np.int64)
    return standardise(values, ids, 1, ddof=0, epsilon=epsilon)


def _groups(turns: TurnTable, rows: IntArray, baseline: str) -> tuple[IntArray, int]:
    if baseline == "candidates":
        return group_ids(require_column(turns, "vpr", "state_group")[rows])
    keys = {
        "turn_index": turn_keys(turns),
        "state": (turns.game, turns.role, turns.state_key),
        "role": (turns.game, turns.role),
        "none": (turns.game, turns.role),
    }
    return group_ids(*(column[rows] for column in keys[baseline]))


def _relative_to_group(
    values: FloatArray,
    ids: IntArray,
    num_groups: int,
    without_mean: bool,
    leave_one_out: bool,
    divide_by_std: bool,
    epsilon: float,
) -> FloatArray:
    """Return values relative to their group's mean and deviation, or to the deviation alone."""
    if without_mean:
        centred = values
    elif leave_one_out:
        centred = values - leave_one_out_mean(values, ids, num_groups)
    elif divide_by_std:
        return standardise(values, ids, num_groups, epsilon=epsilon)
    else:
        centred = centre(values, ids, num_groups)
    if not divide_by_std:
        return centred
    return divide_by_deviation(centred, values, ids, num_groups, epsilon=epsilon)
