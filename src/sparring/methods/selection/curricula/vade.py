"""Curriculum: Thompson samples of success rates, by the variance of the outcome (VADE)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import FloatArray, IntArray
from sparring.methods.selection.curricula.base import ArmRecord, CurriculumRequest


def vade(
    request: CurriculumRequest,
    *,
    prior: Annotated[float, Field(gt=0)] = 1.0,
    visit_decay: Annotated[float, Field(gt=0, le=1)] = 0.9,
    step_decay: Annotated[float, Field(gt=0, le=1)] = 0.99,
) -> IntArray:
    """Play the arms with the most uncertain outcome, by Thompson samples of success rates.

    What: a Beta posterior per arm from its records. Old evidence counts less, because the policy
    has changed since then.
    When to use: many fixed initial states of unequal difficulty (``rollout.starts``), outcomes of
    success and failure.
    Mathematics: over the arm's records r
        a = prior + sum of w_r * successes_r
        b = prior + sum of w_r * failures_r
        w_r = visit_decay^(records since r) * step_decay^(steps since r)
        p ~ Beta(a, b)
    The arms of the largest p * (1 - p) are played. With at least as many arms as groups, the groups
    get different arms; otherwise each group samples all arms again.
    Shapes: [A] arms -> [groups].
    Pitfalls:
        - A success is a return above 0. In zero-sum self-play about half of the trajectories
          succeed in every initial state, which has no information; use ``prioritised`` there.
        - Weights of games have no effect.
        - Only the newest 32 records per arm count.
        - The source describes the sampler in words only; the form of the decays is our choice.
    Reference: VADE (variance-aware dynamic sampling), from its abstract; Thompson, 1933.
    Verified by: tests/methods/selection/curricula/test_curricula.py.

    Args:
        prior: pseudo-count of successes, and of failures, before any record; above 0. The default 1
            is the uniform prior.
        visit_decay: factor on a record for each later record of the arm, above 0 and at most 1. 1:
            no decay.
        step_decay: factor on a record for each later step, above 0 and at most 1. 1: no decay.
    """
    posteriors = np.array(
        [
            _posterior(records, request.step, prior, visit_decay, step_decay)
            for records in request.history
        ]
    )
    if request.num_groups <= len(request.arms):
        variances = _variances(posteriors, request, 0)
        return np.argsort(-variances, kind="stable")[: request.num_groups].astype(np.int64)
    return np.array(
        [np.argmax(_variances(posteriors, request, group)) for group in range(request.num_groups)],
        dtype=np.int64,
    )


def _posterior(
    records: Sequence[ArmRecord], step: int, prior: float, visit_decay: float, step_decay: float
) -> tuple[float, float]:
    successes = failures = prior
    for age, record in enumerate(reversed(records)):
        weight = visit_decay**age * step_decay ** max(step - record.step, 0)
        successes += weight * record.successes
        failures += weight * (record.size - record.successes)
    return successes, failures


def _variances(posteriors: FloatArray, request: CurriculumRequest, group: int) -> FloatArray:
    generator = request.stream.child(group).child("thompson").generator()
    rates = generator.beta(posteriors[:, 0], posteriors[:, 1])
    variances: FloatArray = rates * (1.0 - rates)
    return variances
