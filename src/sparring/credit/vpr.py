"""Credit: process rewards normalised at each turn over the group (VPR)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.credit.base import check, spread, start_groups, turn_places
from sparring.credit.components import component
from sparring.errors import CreditError
from sparring.ops.groups import centre, group_ids, leave_one_out_mean
from sparring.ops.returns import discounted_returns, trajectory_starts, trajectory_sums
from sparring.ops.standardise import over_deviation, standardise
from sparring.types import Credit, FloatArray, IntArray, TurnTable

PRESETS = {"unbiased": {"leave_one_out": True, "divide_by_std": False}}

NEEDS_BY = {"baseline": {"candidates": {"state_group", "committed"}}}
REQUIRES = {"components": {"process"}}  # options that name components


def vpr(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    process: str = "best_action",
    baseline: Literal["turn_index", "state", "role", "candidates", "none"] = "turn_index",
    leave_one_out: bool = False,
    divide_by_std: bool = True,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.0,
    outcome: Annotated[float, Field(ge=0)] = 0.0,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare the process reward of a turn with those of the same turn of the group.

    What: Turn-level GRPO on a reward that an oracle gives each turn. Every token of a turn gets its
    turn's advantage.
    When to use: with a process reward such as ``best_action`` or ``regret``, in groups of
    trajectories with the same initial state.
    Mathematics:
        x[i, t] = sum over k >= t of gamma^(k-t) p[i, k]
        A[i, t] = (x[i, t] - mean x) / (std x + epsilon) + outcome * A_grpo[i]
    p is the process reward. Mean and deviation are over the members of the baseline's group whose
    turn was judged. A_grpo is the normalised rest of the trajectory's return. The mean is that of
    the other members with ``leave_one_out``; the deviation is 1 without ``divide_by_std``.
    Shapes: advantages [N]; groups per (group, role, turn_index) by default, per prompt with
    ``candidates``.
    Pitfalls: With gamma 0 a turn gets no credit for the positions it leads to. Exactly, the
    expected gradient is that of each turn's own reward, given that the turn was reached. For
    ``regret`` this is right only at the oracle's own play; for ``potential`` it is one step of
    improvement on the oracle. A reward that is part of its own mean shrinks the gradient by
    (m - 1) / m among the m members that reach the turn. So turns that few members reach count for
    less, and one alone gets 0. The deviation gives rare right turns more weight. With gamma > 0 and
    turn-index means, rewards after continuing are compared only among the members that continued.
    With ``candidates`` a reply that was not played has no later turns: gamma must be 0, and the
    outcome's part goes to what was played alone. The turns are then those that choosing led to, and
    not those that the policy itself would meet.
    Turns on which the oracle abstained get the outcome's part alone. Preset "unbiased" is
    leave-one-out without the deviation.
    Reference: arXiv 2605.10325 (VPR); with baseline "turn_index" and gamma 0 the formula of
    ``at_grpo`` on one component.
    Verified by: tests/credit/test_vpr.py.

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
        gamma: discount per turn of process rewards, in [0, 1]. 0 (default) looks at the turn alone,
            1 at all that follow.
        outcome: weight of A_grpo, the rest of the trajectory's return compared within its (group,
            role), a number of at least 0 or a schedule; 0 (default) leaves it out. It uses
            ``leave_one_out`` and ``divide_by_std`` too.
        epsilon: added to the deviations, in reward units, at least 0. The default matters only
            where a deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: a reward is not finite, no turn has the process reward, or candidates are
            compared with a gamma above 0.
    """
    check(turns, "vpr")
    if baseline == "candidates" and gamma:
        raise CreditError(
            f"credit 'vpr': gamma={gamma} counts later turns, which candidates that were not "
            "played have not; write gamma: 0, or another baseline."
        )
    scored = component(turns, "vpr", process)
    rows = np.arange(len(scored)) if turns.judged is None else np.flatnonzero(turns.judged)
    values = scored if gamma == 0 else discounted_returns(scored, turns.trajectory, gamma=gamma)
    advantages = np.zeros(len(scored))
    ids, count = _groups(turns, rows, baseline)
    advantages[rows] = _relative(
        values[rows], ids, count, baseline == "none", leave_one_out, divide_by_std, epsilon
    )
    metrics = {"judged_share": len(rows) / len(scored)} if len(scored) else {}
    if outcome:
        rest = trajectory_sums(turns.reward - scored, turns.trajectory)
        groups, number = start_groups(turns)
        first = trajectory_starts(turns.trajectory)
        played = np.ones(len(first), dtype=bool)
        if turns.committed is not None:
            played = turns.committed[first]
        relative = np.zeros(len(first))
        relative[played] = _relative(
            rest[played],
            groups[first[played]],
            number,
            False,
            leave_one_out,
            divide_by_std,
            epsilon,
        )
        advantages += outcome * spread(relative, turns)
    return Credit(advantages=advantages, state=dict(state), metrics=metrics)


def _groups(turns: TurnTable, rows: IntArray, baseline: str) -> tuple[IntArray, int]:
    """Return the group of each of these rows, and the number of groups."""
    if baseline == "candidates":
        if turns.state_group is None:
            raise CreditError(
                "credit 'vpr': baseline 'candidates' needs a table with a row for every reply to "
                "a prompt; write turn_table(episodes, candidates=True)."
            )
        return group_ids(turns.state_group[rows])
    keys = {
        "turn_index": turn_places(turns),
        "state": (turns.game, turns.role, turns.state_key),
        "role": (turns.game, turns.role),
        "none": (turns.game, turns.role),
    }
    return group_ids(*(column[rows] for column in keys[baseline]))


def _relative(
    values: FloatArray,
    ids: IntArray,
    count: int,
    plain: bool,
    leave_one_out: bool,
    divide_by_std: bool,
    epsilon: float,
) -> FloatArray:
    """Return values less their group's mean, or that of the others.

    They are divided by the group's deviation, as asked; ``plain`` takes no mean off.
    """
    if plain:
        centred = values
    elif leave_one_out:
        centred = values - leave_one_out_mean(values, ids, count)
    elif divide_by_std:
        return standardise(values, ids, count, epsilon=epsilon)
    else:
        centred = centre(values, ids, count)
    return (
        over_deviation(centred, values, ids, count, epsilon=epsilon) if divide_by_std else centred
    )
