"""Selection: resample on correct (GRPO-RoC): clean successes, all kinds of failures."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import ConfigError, CreditError
from sparring.core.records import BoolArray, FloatArray, IntArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.selection.base import Trajectories, best_first, trajectories

PRESETS = {"as_released": {"negatives": "penalty", "smaller": "drop"}}


def roc_resample(
    turns: TurnTable,
    stream: Stream,
    *,
    keep: Annotated[int, Field(ge=2)] = 16,
    least: Annotated[int, Field(ge=0)] = 2,
    component: str | None = None,
    negatives: Literal["uniform", "penalty"] = "uniform",
    smaller: Literal["keep", "drop"] = "keep",
) -> BoolArray:
    """Down-sample each group to clean successes and random failures, and keep their ratio.

    What: play twice as many episodes as the update needs. The rule drops groups of equal returns,
    and reduces every other group to ``keep`` trajectories: the successes with the fewest illegal
    replies, and random failures.
    When to use: if an episode with illegal or badly formed replies can succeed, so that the reward
    alone would also teach such replies.
    Mathematics: a group has n trajectories, of which P have a return above 0. The rule keeps
        s = round(keep * P / n) successes and keep - s failures
    and at least min(``least``, number of that kind) of each kind. The penalty of a trajectory is
    its share of illegal turns, minus its mean per turn of the reward ``component``, if given.
    The successes of lowest penalty stay; a uniform draw selects the failures.
    Shapes: mask [N]; groups per (group, role).
    Pitfalls:
        - The paper draws failures uniformly; the authors' code takes failures with the lowest
          penalty.
        - The penalty of the authors' code counts errors in tool responses (0.5 if there are no
          responses) and repeated answer tags; here illegal turns replace both.
        - With both seats trained, an episode stays if one of its trajectories stays.
        - The rule drops a group of one, because its returns count as equal.
        - Preset ``as_released``: both kinds by penalty, small groups dropped.
    Reference: Shang et al., 2025 (rStar2-Agent, arXiv 2508.20722); code of microsoft/rStar,
    down_sample/roc.py.
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        keep: number of trajectories of a reduced group, at least 2.
        least: smallest number of successes, and of failures, that stay if the group has that many;
            at least 0, and at most half of ``keep``.
        component: name of a reward of the reply's form; it lowers the penalty. null (default): no
            reward.
        negatives: choice of failures: "uniform" (default, at random), or "penalty" (of lowest
            penalty, as with successes).
        smaller: treatment of groups with fewer than ``keep`` trajectories: "keep" (default) or
            "drop".

    Raises:
        ConfigError: 2 * least exceeds keep.
        CreditError: a reward is not finite, or no turn has the component.
    """
    if 2 * least > keep:
        raise ConfigError(
            f"selection 'roc_resample': least={least} of either kind do not fit into keep={keep}; "
            f"write least: {keep // 2}."
        )
    data = trajectories(turns, "roc_resample")
    penalty, draws = _penalty(data, component), data.draws(stream)
    has_different_returns, sizes = data.deviations() > 0, data.group_sizes
    mask = np.zeros(len(data.returns), dtype=bool)
    order = np.argsort(data.groups, kind="stable")
    for group, members in enumerate(np.split(order, np.cumsum(sizes)[:-1]) if len(order) else []):
        if not has_different_returns[group] or (sizes[group] < keep and smaller == "drop"):
            continue
        if sizes[group] <= keep:
            mask[members] = True
            continue
        is_success = data.returns[members] > 0
        successes, failures = members[is_success], members[~is_success]
        num_successes = _num_successes(len(successes), len(failures), keep, least)
        mask[_sort_by_penalty(successes, penalty, draws)[:num_successes]] = True
        failure_penalty = penalty * (negatives == "penalty")
        mask[_sort_by_penalty(failures, failure_penalty, draws)[: keep - num_successes]] = True
    return data.row_mask(mask)


def _penalty(data: Trajectories, component: str | None) -> FloatArray:
    penalties = data.sums((~data.turns.legal).astype(np.float64))
    if component is not None and len(penalties):
        if component not in data.turns.components:
            names = ", ".join(data.turns.components) or "none"
            raise CreditError(
                f"selection 'roc_resample': no turn has the reward component {component!r}; "
                f"write one of {names}."
            )
        penalties = penalties - data.sums(data.turns.components[component])
    return penalties / np.maximum(data.num_turns, 1)


def _num_successes(num_good: int, num_bad: int, keep: int, least: int) -> int:
    num_kept = round(keep * num_good / (num_good + num_bad))
    return min(max(num_kept, min(least, num_good)), keep - min(least, num_bad))


def _sort_by_penalty(members: IntArray, penalty: FloatArray, draws: FloatArray) -> IntArray:
    return members[best_first(-penalty[members], draws[members])]
