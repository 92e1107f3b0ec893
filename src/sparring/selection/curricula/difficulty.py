"""Curriculum: arms whose success rate lies in a band around a target."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.selection.curricula.base import CurriculumRequest
from sparring.selection.curricula.scores import arm_shares, draw_arms, success_rate
from sparring.types import IntArray

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

    What: neither what is solved nor what is hopeless; the wanted success rate may move over the run.
    When to use: fixed starts or games of unequal difficulty. A falling ``target`` leads from easy to hard.
    Mathematics: p = successes / trajectories of an arm's latest ``window`` records. With probability ``floor`` a group draws from
    all arms by their weight; else from the arms with |p - target| <= width, those never played among them, by weight too. If
    there is none, from the arms nearest to the target.
    Shapes: [A] arms -> [groups].
    Options: ``target`` and ``floor`` take schedules; ``floor`` 0 lets arms starve, 1 is ``by_weight``. Preset ``easy_to_hard``:
    the target falls from 0.8 to 0.3.
    Pitfalls: a success is a return above 0: in zero-sum games against oneself about half succeed whatever the start; use
    ``prioritised`` there. The rate of an arm outside the band is as old as its last visit: a small ``floor`` finds out late that
    it has come into reach.
    Reference: Bengio et al., 2009 (curriculum learning); Florensa et al., 2018 (goals of intermediate difficulty).
    Verified by: tests/selection/curricula/test_difficulty.py.
    """
    shares = arm_shares(request.arms)
    rates = np.array([success_rate(records[-window:]) for records in request.history])
    distance = np.where(np.isnan(rates), 0.0, np.abs(rates - target))
    near = distance <= max(width, float(distance.min())) + 1e-12
    anyhow = np.array([request.stream.child(group).uniform(0) < floor for group in range(request.groups)])
    return np.where(anyhow, draw_arms(request, shares, 1), draw_arms(request, shares * near, 1)).astype(np.int64)
