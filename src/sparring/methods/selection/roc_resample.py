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
    """Down-sample each group to clean successes and random failures, in the same ratio.

    Clean are the successes with the fewest slips.

    What: play twice as many games as are trained on. Groups of equal returns go first, every other
    group is cut to ``keep``.
    When to use: where a game can be won in spite of illegal or badly formed replies, and reward
    alone would teach those too.
    Mathematics: of n trajectories of a group P have a return above 0. Kept are
        round(keep * P / n)
    of them, and keep less that of the others; neither below min(least, how many there are). The
    penalty of a success is its share of turns that were not legal, minus its mean per turn of the
    reward ``component``, if one is named. The lowest are kept. Failures are drawn uniformly.
    Shapes: mask [N]; groups per (group, role).
    Pitfalls: the paper draws failures uniformly, the released code takes those of lowest penalty as
    well. The release's penalty counts errors in tool responses (0.5 without any) and repeated
    answer tags; turns that are not legal stand for both here. With both seats of a game trained, a
    game stays if one of them does. A group of one is of equal returns and goes. Preset
    ``as_released``: both kinds by penalty, small groups dropped.
    Reference: Shang et al., 2025 (rStar2-Agent, arXiv 2508.20722); code of microsoft/rStar,
    down_sample/roc.py.
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        keep: trajectories that a group is cut to, at least 2.
        least: least number of successes, and of failures, that are kept where there are as many; at
            least 0, and twice ``least`` must fit into ``keep``.
        component: name of a reward that pays for form; it lowers the penalty. null (default): none.
        negatives: which failures are kept. "uniform" (default): drawn at random. "penalty": those
            of lowest penalty, as with successes.
        smaller: what happens to groups of fewer than ``keep``. "keep" (default): they stay whole.
            "drop": they go.

    Raises:
        ConfigError: 2 * least exceeds keep.
        CreditError: a reward is not finite, or no turn has the component.
    """
    if 2 * least > keep:
        raise ConfigError(
            f"selection 'roc_resample': least={least} of either kind do not fit into keep={keep}; "
            f"write least: {keep // 2}."
        )
    found = trajectories(turns, "roc_resample")
    penalty, draws = _penalty(found, component), found.draws(stream)
    varied, sizes = found.deviations() > 0, found.counts
    kept = np.zeros(len(found.returns), dtype=bool)
    order = np.argsort(found.groups, kind="stable")
    for group, members in enumerate(np.split(order, np.cumsum(sizes)[:-1]) if len(order) else []):
        if not varied[group] or (sizes[group] < keep and smaller == "drop"):
            continue
        if sizes[group] <= keep:
            kept[members] = True
            continue
        good, bad = members[found.returns[members] > 0], members[found.returns[members] <= 0]
        first = _number(len(good), len(bad), keep, least)
        kept[_lowest(good, penalty, draws)[:first]] = True
        kept[_lowest(bad, penalty * (negatives == "penalty"), draws)[: keep - first]] = True
    return found.rows(kept)


def _penalty(found: Trajectories, component: str | None) -> FloatArray:
    """Return the penalty of every trajectory, [J]."""
    slips = found.sums((~found.turns.legal).astype(np.float64))
    if component is not None and len(slips):
        if component not in found.turns.components:
            known = ", ".join(found.turns.components) or "none"
            raise CreditError(
                f"selection 'roc_resample': no turn has the reward component {component!r}; the "
                f"turns have: {known}."
            )
        slips = slips - found.sums(found.turns.components[component])
    return slips / np.maximum(found.lengths, 1)


def _number(good: int, bad: int, keep: int, least: int) -> int:
    """Return how many successes of a group that is larger than ``keep`` stay."""
    return min(max(round(keep * good / (good + bad)), min(least, good)), keep - min(least, bad))


def _lowest(members: IntArray, penalty: FloatArray, draws: FloatArray) -> IntArray:
    """Return these trajectories by rising penalty, equal ones in the order of their draws."""
    return members[best_first(-penalty[members], draws[members])]
