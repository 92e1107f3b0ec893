"""Loss: KL-Cov, a penalty on the move of the tokens that drive the entropy down."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from sparring.losses.base import LossBatch, LossTerm, log_ratio, ratio_metrics
from sparring.losses.minibatch import covariance, whole_of

NEEDS = {"whole"}


def kl_cov(
    batch: LossBatch, *, share: Annotated[float, Field(ge=0, le=1)] = 2e-4, coefficient: Annotated[float, Field(ge=0)] = 1.0
) -> LossTerm:
    """Hold the few tokens whose log-probability and advantage vary together most near the old policy.

    What: the surrogate without clip, with a penalty on the tokens of highest covariance.
    When to use: when entropy collapses early, and a random mask (``clip_cov``) is too coarse.
    Mathematics: cov_t = (A_t - mean A)(log pi_t - mean log pi), means over the minibatch; L_t = -rho A, and for the
    max(1, floor(share M')) tokens of highest positive covariance + coefficient |log rho|.
    Shapes: [M] -> [M].
    Options: ``share`` or ``coefficient`` 0 leave the unclipped surrogate.
    Pitfalls: at the first update of a step all ratios are one and the penalty's gradient is 0. Nothing else bounds the ratio. The
    released configuration has coefficient 0.1, the released code's default and the paper 1. Tokens of covariance 0 or less are
    never chosen here; the released code fills up with them.
    Metrics: ratio_mean, ratio_min, ratio_max, approximate_kl, chosen_fraction, covariance_max (over the minibatch).
    Reference: Cui et al., 2025 (the entropy mechanism).
    Verified by: tests/losses/test_kl_cov.py.
    """
    whole, index = whole_of(batch)
    scores = covariance(whole)
    number = max(1, int(share * len(scores))) if share else 0
    top = scores.argsort(descending=True, stable=True)[:number]
    chosen = (torch.zeros_like(scores, dtype=torch.bool).index_fill(0, top, True) & (scores > 0))[index]
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio = log_of_ratio.exp()
    values = -ratio * batch.advantages + coefficient * chosen * log_of_ratio.abs()
    metrics = {"chosen_fraction": chosen.float().mean(), "covariance_max": scores.max()}
    return LossTerm(values=values, weighted=True, metrics={**ratio_metrics(ratio, log_of_ratio), **metrics})
