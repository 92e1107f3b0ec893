"""Curriculum: arms whose latest results are bad (Signals)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import IntArray
from sparring.methods.selection.curricula.base import (
    ArmRecord,
    CurriculumRequest,
    arm_shares,
    draw_arms,
)


def signals_triage(
    request: CurriculumRequest,
    *,
    failure: Annotated[float, Field(ge=0)] = 1.0,
    stagnation: Annotated[float, Field(ge=0)] = 1.0,
    decline: Annotated[float, Field(ge=0)] = 1.0,
    floor: Annotated[float, Field(gt=0)] = 0.1,
    window: Annotated[int, Field(ge=2)] = 4,
) -> IntArray:
    """Play arms that fail, stagnate or decline more often.

    What: simple tests of an arm's records raise the weight of arms with bad results. The tests need
    no model.
    When to use: if the policy does well from most initial states and badly from a few, for example
    after a change of the policy.
    Mathematics: p is the success rate of the latest record, q the mean rate of the earlier records
    within ``window``. The signals of an arm are
        F = 1 - p
        S = 1 if p < 1 and all records of the window (at least two) have the same rate, else 0
        D = max(q - p, 0)
    and its weight is
        its share by game * (floor + failure * F + stagnation * S + decline * D)
    Unplayed arms count as failing.
    Shapes: [A] arms -> [groups].
    Pitfalls:
        - A hopeless initial state always fails and stagnates, and is played most; ``difficulty``
          and ``vade`` avoid such states.
        - A success is a return above 0.
        - The paper's detectors read conversations and tool logs (misalignment, loops, exhaustion).
          This rule applies the idea to success rates, and does not reproduce the paper.
    Reference: Signals (trajectory triage by model-free signals), from its abstract.
    Verified by: tests/methods/selection/curricula/test_curricula.py.

    Args:
        failure: weight of the failure rate F, at least 0.
        stagnation: weight of a constant success rate, S, at least 0.
        decline: weight of a falling success rate, D, at least 0.
        floor: weight of an arm without signals, above 0, so that every arm can be drawn.
        window: number of an arm's latest records that count, at least 2; at most 32 are kept.
    """
    signals = np.array([_signals(records[-window:]) for records in request.history])
    return draw_arms(
        request,
        arm_shares(request.arms) * (floor + signals @ np.array([failure, stagnation, decline])),
    )


def _signals(records: Sequence[ArmRecord]) -> tuple[float, float, float]:
    rates = [record.successes / record.size for record in records]
    if not rates:
        return 1.0, 0.0, 0.0
    *earlier_rates, latest_rate = rates
    if not earlier_rates:
        return 1.0 - latest_rate, 0.0, 0.0
    is_constant = latest_rate < 1.0 and min(rates) == max(rates)
    decline = max(sum(earlier_rates) / len(earlier_rates) - latest_rate, 0.0)
    return 1.0 - latest_rate, float(is_constant), decline
