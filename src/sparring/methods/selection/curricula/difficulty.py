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
    """Play the arms that succeed about as often as wanted, and now and then any arm.

    What: neither what is solved nor what is hopeless is played. The target success rate may move
    over the run.
    When to use: fixed starts or games of unequal difficulty. A falling ``target`` leads from easy
    to hard.
    Mathematics: the success rate of an arm's latest ``window`` records is
        p = successes / trajectories
    With probability ``floor`` a group draws from all arms by their weight. Else it draws, by weight
    too, from the arms with
        |p - target| <= width
    and those never played. If there is none, it draws from the arms nearest to the target.
    Shapes: [A] arms -> [groups].
    Pitfalls: a success is a return above 0. In zero-sum self-play about half succeed whatever the
    start; use ``prioritised`` there. The rate of an arm outside the band is as old as its last
    visit: with a small ``floor`` it takes long to notice that the arm is within the band again.
    Reference: Bengio et al., 2009 (curriculum learning); Florensa et al., 2018 (goals of
    intermediate difficulty).
    Verified by: tests/methods/selection/curricula/test_curricula.py.

    Args:
        target: wanted success rate, in [0, 1]. A number or a schedule. Preset ``easy_to_hard``: it
            falls from 0.8 to 0.3.
        width: how far an arm's success rate may be from the target, in [0, 1].
        floor: probability that a group draws from all arms, in [0, 1]. A number or a schedule. With
            0 some arms may never be played; 1 is ``by_weight``.
        window: number of an arm's latest records that its success rate is taken over, at least 1;
            at most 32 are kept.
    """
    shares = arm_shares(request.arms)
    rates = np.array([success_rate(records[-window:]) for records in request.history])
    distance = np.where(np.isnan(rates), 0.0, np.abs(rates - target))
    near = distance <= max(width, float(distance.min())) + 1e-12
    anyhow = np.array(
        [request.stream.child(group).uniform(0) < floor for group in range(request.groups)]
    )
    return np.where(
        anyhow, draw_arms(request, shares, 1), draw_arms(request, shares * near, 1)
    ).astype(np.int64)
