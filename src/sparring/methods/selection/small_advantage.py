"""Selection: drop the trajectories that did about as well as the others of their group (LOOP)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.selection.base import best_first, trajectories
from sparring.ops.groups import leave_one_out_mean


def small_advantage(
    turns: TurnTable,
    stream: Stream,
    *,
    threshold: Annotated[float, Field(ge=0)] = 0.01,
    multiple: Annotated[int, Field(ge=1)] = 1,
) -> BoolArray:
    """Drop trajectories whose return is close to the mean of the others that started alike.

    Close is within a threshold.

    What: what teaches little is not trained on. A group of equal returns goes as a whole.
    When to use: long tasks, where every trajectory of the update costs; with ``credit: loop`` or
    ``rloo``.
    Mathematics:
        A_i = R_i - mean over j != i of R_j
    A trajectory is kept where |A_i| >= threshold. The number kept is rounded up to a ``multiple``
    with the largest |A| of the rest.
    Shapes: mask [N]; groups per (group, role).
    Pitfalls: an estimator that sees only what is left computes its baseline without the dropped
    ones. ``loop`` drops by itself with the full baseline, and its gradient is the paper's; here
    mean and deviation of the group are those of the extremes. A group of one counts as A = 0 and is
    dropped. With both seats of a game trained, a game stays if one of them does.
    Reference: Chen et al., 2025 (arXiv 2502.01600); code of apple/ml-loop, train.py (rounds up to
    the number of its workers).
    Verified by: tests/methods/selection/test_filters.py.

    Args:
        threshold: least size of A that is kept, in units of returns, at least 0. 0 keeps all.
        multiple: the number kept is a multiple of this, at least 1, as far as there are
            trajectories. 1 (default) rounds nothing.

    Raises:
        CreditError: a reward is not finite.
    """
    found = trajectories(turns, "small_advantage")
    differs = found.deviations()[found.groups] > 0
    size = np.where(
        differs,
        np.abs(found.returns - leave_one_out_mean(found.returns, found.groups, found.num_groups)),
        0.0,
    )
    number = -(-int((size >= threshold).sum()) // multiple) * multiple
    kept = np.zeros(len(size), dtype=bool)
    kept[best_first(size, found.draws(stream))[:number]] = True
    return found.rows(kept)
