"""Credit: return batch normalisation (GEM's ReBN)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sparring.credit.base import check, role_groups
from sparring.ops.returns import discounted_returns
from sparring.ops.standardise import standardise
from sparring.types import Credit, TurnTable


def rebn(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    by_role: bool = False,
    epsilon: Annotated[float, Field(ge=0)] = 1e-9,
) -> Credit:
    """Standardise what each turn still earned over all turns of the batch.

    What: the return from each turn on, minus the batch's mean, over the batch's deviation; no groups, no critic.
    When to use: one task with one role and many turns, where repeated starts are not at hand. In self-play with roles set
    ``by_role`` or use ``mars``: the mean over both sides of a zero-sum game is 0 and explains nothing.
    Mathematics: G[i, t] = sum over k >= t of gamma^(k-t) r[i, k]; A[i, t] = (G[i, t] - mean G) / (std G + epsilon), with mean and
    sample deviation over all turns of the batch.
    Shapes: advantages [N].
    Options: ``gamma`` discounts later turns; ``by_role`` takes the statistics per (game, role) instead of over the whole batch
    (the default is the published formula, which knows no roles).
    Pitfalls: the mean over turns weighs long games more (the bias measured for ``mars``, times one over the deviation); games
    whose rewards have different sizes share one scale unless ``by_role`` keeps them apart. Equal returns give 0.
    Reference: Liu et al., 2025 (GEM, arXiv 2510.01051).
    Verified by: tests/credit/test_rebn.py, tests/credit/test_bias.py.

    Raises:
        CreditError: a reward is not finite.
    """
    check(turns, "rebn")
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    groups, count = role_groups(turns) if by_role else (np.zeros(len(returns), dtype=np.int64), 1)
    return Credit(advantages=standardise(returns, groups, count, epsilon=epsilon), state=dict(state))
