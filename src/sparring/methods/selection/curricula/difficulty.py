"""Curriculum: arms whose success rate lies in a band around a target."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import IntArray
from sparring.methods.selection.curricula.base import (
    CurriculumRequest,
    arm_shares,
    draw_arms,
    success_rate,
)

PRESETS = {"easy_to_hard": {"target": {"schedule": "linear", "start": 0.8, "end": 0.3}}}


def difficulty(
    request: CurriculumRequest,
    *,
    target: Annotated[float, Field(ge=0, le=1)] = 0.5,
    width: Annotated[float, Field(ge=0, le=1)] = 0.25,
    floor: Annotated[float, Field(ge=0, le=1)] = 0.1,
    window: Annotated[int, Field(ge=1)] = 4,
) -> IntArray:
    """Play the arms with a success rate near a target, and sometimes any arm.

    What: solved and hopeless arms are not played. The target success rate may change over the run.
    When to use: fixed initial states or games of unequal difficulty. A falling ``target`` leads
    from easy to hard.
    Mathematics: the success rate of an arm's latest ``window`` records is
        p = successes / trajectories
    With probability ``floor`` a group draws from all arms by weight. Otherwise the group draws, by
    weight too, from the arms with
        |p - target| <= width
    and from unplayed arms. If there are none, the group draws from the arms nearest to the target.
    Shapes: [A] arms -> [groups].
    Pitfalls:
        - A success is a return above 0. In zero-sum self-play about half of the trajectories
          succeed in every initial state; use ``prioritised`` there.
        - The rate of an arm outside the band is as old as the arm's last visit. With a small
          ``floor`` the rule notices late that an arm is in the band again.
    Reference: Bengio et al., 2009 (curriculum learning); Florensa et al., 2018 (goals of
    intermediate difficulty).
    Verified by: tests/methods/selection/curricula/test_curricula.py.

    Args:
        target: target success rate, in [0, 1]. A number or a schedule. Preset ``easy_to_hard``
            falls from 0.8 to 0.3.
        width: largest distance of an arm's success rate from the target, in [0, 1].
        floor: probability that a group draws from all arms, in [0, 1]. A number or a schedule. With
            0 some arms may never be played; 1 is ``by_weight``.
        window: number of an arm's latest records in its success rate, at least 1; at most 32 are
            kept.
    """
    shares = arm_shares(request.arms)
    rates = np.array([success_rate(records[-window:]) for records in request.history])
    distances = np.where(np.isnan(rates), 0.0, np.abs(rates - target))
    is_near = distances <= max(width, float(distances.min())) + 1e-12
    draws_from_all = np.array(
        [request.stream.child(group).uniform(0) < floor for group in range(request.num_groups)]
    )
    return np.where(
        draws_from_all, draw_arms(request, shares, 1), draw_arms(request, shares * is_near, 1)
    ).astype(np.int64)
