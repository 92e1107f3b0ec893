"""Credit: difficulty-weighted group advantages (VITAL's DGRPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sparring.credit.base import check, spread, start_groups, trajectory_returns
from sparring.errors import CreditError
from sparring.ops.groups import centre, group_mean
from sparring.ops.standardise import standardise
from sparring.types import Credit, TurnTable


def dgrpo(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    strength: Annotated[float, Field(ge=0)] = 1.0,
    worst: float = 0.0,
    best: float = 1.0,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Weigh group-relative advantages by how hard the task is.

    What: ``grpo`` times a weight that is larger the lower the group's mean return.
    When to use: tasks of mixed difficulty of which the hard ones should steer.
    Mathematics: p_g = (mean_g R - worst) / (best - worst), cut to [0, 1];
    A_i = (1 + strength * (1 - p_g)) * (R_i - mean_g R) / (std_g R + epsilon).
    Shapes: advantages [N]; groups per (group, role).
    Options: ``strength`` 0 is ``grpo``; ``worst`` and ``best`` are the returns that count as p = 0 and p = 1; ``divide_by_std``.
    Pitfalls: the abstract alone is public: the weight is a literal reading, no reproduction is claimed. In mirror zero-sum play the
    mean return per role tells who moves first, not how hard the deal is. A group of one, or of equal returns, gives 0.
    Reference: VITAL (DGRPO), abstract.
    Verified by: tests/credit/test_dgrpo.py.

    Raises:
        CreditError: a reward is not finite, or ``best`` is not above ``worst``.
    """
    check(turns, "dgrpo")
    if best <= worst:
        raise CreditError(f"credit 'dgrpo': best {best} is not above worst {worst}; write the returns of success and failure.")
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    ids = groups[starts]
    passed = np.clip((group_mean(returns, ids, count) - worst) / (best - worst), 0.0, 1.0)
    relative = standardise(returns, ids, count, epsilon=epsilon) if divide_by_std else centre(returns, ids, count)
    return Credit(advantages=spread((1.0 + strength * (1.0 - passed))[ids] * relative, turns), state=dict(state))
