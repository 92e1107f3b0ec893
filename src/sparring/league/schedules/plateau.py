"""Schedule: a snapshot when the learner stops improving."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.league.schedules.base import ScheduleRequest

NEEDS = {"returns"}


def plateau(
    request: ScheduleRequest,
    *,
    gain: Annotated[float, Field(ge=0)] = 0.0,
    window: Annotated[int, Field(ge=2)] = 10,
    longest: Annotated[float, Field(ge=1)] = 4.0,
) -> bool:
    """Take a snapshot when the learner's mean return has stopped rising.

    What: from ``league.every`` steps after the last snapshot on, a snapshot is due when the mean
    return of the last ``window`` steps exceeds the mean of the previous ``window`` steps by at most
    ``gain``, and in any case when the last snapshot is ``longest`` times ``league.every`` steps
    old.
    When to use: best responses that take longer against some opponents than against others, as in
    pipeline PSRO, where a fixed time freezes too early or too late.
    Mathematics: with a the steps since the last snapshot, r_t the learner's mean return in step t,
    and w the window,

        rise = mean(r_{a-w+1}, ..., r_a) - mean(r_{a-2w+1}, ..., r_{a-w})
        due  = a >= every  and  (rise <= gain  or  a >= longest * every)

    Pitfalls: returns of few episodes are noisy, so with a short window a snapshot may come by
    chance. If the learner also plays itself, those episodes have mean return 0 and hide the rise.
    With fewer than two windows of steps no snapshot is due.
    Reference: McAleer et al., 2020 (pipeline PSRO, arXiv 2006.08555) freezes the lowest policy
    when it stops improving.
    Verified by: tests/league/schedules/test_plateau.py.

    Args:
        gain: largest rise of the mean return that counts as no rise, in the environment's units, at
            least 0. Default 0.
        window: steps of each of the two means, at least 2. Default 10.
        longest: multiple of ``league.every`` after which a snapshot is due in any case, at least 1.
            Default 4.
    """
    if request.age < request.every:
        return False
    if request.age >= longest * request.every:
        return True
    if len(request.returns) < 2 * window:
        return False
    returns = np.asarray(request.returns[-2 * window :], dtype=np.float64).reshape(2, window)
    return bool(returns[1].mean() - returns[0].mean() <= gain)
