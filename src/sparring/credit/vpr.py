"""Credit: process rewards normalised at each turn over the group (VPR)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.credit.base import check, spread, start_groups
from sparring.credit.components import component
from sparring.ops.groups import centre, group_ids, leave_one_out_mean
from sparring.ops.returns import discounted_returns, trajectory_starts, trajectory_sums
from sparring.ops.standardise import over_deviation, standardise
from sparring.types import Credit, FloatArray, IntArray, TurnTable

PRESETS = {"unbiased": {"leave_one_out": True, "divide_by_std": False}}


def vpr(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    process: str = "best_action",
    baseline: Literal["turn_index", "state", "role", "none"] = "turn_index",
    leave_one_out: bool = False,
    divide_by_std: bool = True,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.0,
    outcome: Annotated[float, Field(ge=0)] = 0.0,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare the process reward of a turn with those of the same turn of the group.

    What: turn-level GRPO on a reward that an oracle gives each turn; every token of a turn gets its turn's advantage.
    When to use: with a process reward such as ``best_action`` or ``regret``, in groups of trajectories that start alike.
    Mathematics: x[i, t] = sum over k >= t of gamma^(k-t) p[i, k], p the process reward; A[i, t] = (x[i, t] - mean x) / (std x + epsilon)
    over the members of the baseline's group whose turn was judged, + outcome * A_grpo[i], the normalised rest of the trajectory's
    return. The mean is that of the other members with ``leave_one_out``; the deviation is 1 without ``divide_by_std``.
    Shapes: advantages [N]; groups per (group, role, turn_index) by default.
    Options: ``process`` names the reward component; ``baseline``: "turn_index" (the members alive at that turn, as published), "state"
    (turns of the batch with the same information state), "role" (all turns of the role), "none"; ``gamma`` 0 looks at the turn alone, 1
    at all that follow; ``outcome`` is the weight of the rest of the reward, a number or a schedule. Preset "unbiased" is
    leave-one-out without the deviation.
    Pitfalls: with gamma 0 a turn gets no credit for the positions it leads to: exactly, the expected gradient is that of each turn's own
    reward, given that the turn was reached; for ``regret`` that is right at the oracle's own play only, for ``potential`` it is one-step
    improvement on the oracle. The own reward in its own mean shrinks the gradient by (m - 1) / m among m members alive, so turns that few
    reach count for less; one alone gets 0; the deviation weighs rare rights more. With gamma > 0 and turn-index means, what is paid for
    going on is compared among those who went on. Turns the oracle abstained on get the outcome's part alone.
    Reference: arXiv 2605.10325 (VPR); with baseline "turn_index" and gamma 0 the formula of ``at_grpo`` on one component.
    Verified by: tests/credit/test_vpr.py.

    Raises:
        CreditError: a reward is not finite, or no turn has the process reward.
    """
    check(turns, "vpr")
    scored = component(turns, "vpr", process)
    rows = np.arange(len(scored)) if turns.judged is None else np.flatnonzero(turns.judged)
    values = scored if gamma == 0 else discounted_returns(scored, turns.trajectory, gamma=gamma)
    advantages = np.zeros(len(scored))
    ids, count = _groups(turns, rows, baseline)
    advantages[rows] = _relative(values[rows], ids, count, baseline == "none", leave_one_out, divide_by_std, epsilon)
    metrics = {"judged_share": len(rows) / len(scored)} if len(scored) else {}
    if outcome:
        rest = trajectory_sums(turns.reward - scored, turns.trajectory)
        groups, number = start_groups(turns)
        starts = groups[trajectory_starts(turns.trajectory)]
        advantages += outcome * spread(_relative(rest, starts, number, False, leave_one_out, divide_by_std, epsilon), turns)
    return Credit(advantages=advantages, state=dict(state), metrics=metrics)


def _groups(turns: TurnTable, rows: IntArray, baseline: str) -> tuple[IntArray, int]:
    """Return the group of each of these rows, and the number of groups."""
    keys = {
        "turn_index": (turns.group, turns.role, turns.turn_index),
        "state": (turns.game, turns.role, turns.state_key),
        "role": (turns.game, turns.role),
        "none": (turns.game, turns.role),
    }
    return group_ids(*(column[rows] for column in keys[baseline]))


def _relative(
    values: FloatArray, ids: IntArray, count: int, plain: bool, leave_one_out: bool, divide_by_std: bool, epsilon: float
) -> FloatArray:
    """Return values less their group's mean, or that of the others, over the group's deviation, as asked; ``plain`` takes no mean off."""
    if plain:
        centred = values
    elif leave_one_out:
        centred = values - leave_one_out_mean(values, ids, count)
    elif divide_by_std:
        return standardise(values, ids, count, epsilon=epsilon)
    else:
        centred = centre(values, ids, count)
    return over_deviation(centred, values, ids, count, epsilon=epsilon) if divide_by_std else centred
