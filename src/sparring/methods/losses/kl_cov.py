"""Loss: KL-Cov, a penalty on changes of the tokens that drive the entropy down."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio, ratio_metrics
from sparring.methods.losses.minibatch import covariance_terms, whole_minibatch

NEEDS = {"whole"}
CORRECTS = True


def kl_cov(
    batch: LossBatch,
    *,
    share: Annotated[float, Field(ge=0, le=1)] = 2e-4,
    coefficient: Annotated[float, Field(ge=0)] = 1.0,
) -> LossTerm:
    """Keep the tokens of highest covariance of log-probability and advantage near the old policy.

    What: the surrogate without clip, with a penalty on the tokens of highest covariance.
    When to use: when the entropy collapses early, and a random mask (``clip_cov``) is too coarse.
    Mathematics:
        cov_t = (A_t - mean A)(log pi_t - mean log pi)
        L_t = -rho A
        L_t = -rho A + coefficient |log rho|    for the chosen tokens
    with means over the minibatch. The chosen tokens are the max(1, floor(share M')) tokens of
    highest positive covariance.
    Shapes: [M] -> [M].
    Pitfalls:
        - At the first update of a step all ratios are one and the penalty's gradient is 0.
        - Nothing else bounds the ratio.
        - Tokens of covariance 0 or less are never chosen here; the authors' code does choose them.
    Metrics: ratio_mean, ratio_min, ratio_max, approximate_kl, chosen_fraction, covariance_max (over
    the minibatch).
    Reference: Cui et al., 2025 (the entropy mechanism).
    Verified by: tests/methods/losses/test_minibatch_losses.py.

    Args:
        share: share of the minibatch's tokens that are penalised, in [0, 1]. Above 0, at least one
            token of positive covariance is penalised. 0 leaves the unclipped surrogate.
        coefficient: weight of the penalty, per nat of log-ratio, at least 0. 0 leaves the unclipped
            surrogate. The default 1 is that of the paper and the authors' code; the authors'
            configuration has 0.1.
    """
    minibatch, index = whole_minibatch(batch)
    covariances = covariance_terms(minibatch)
    num_chosen = max(1, int(share * len(covariances))) if share else 0
    top_tokens = covariances.argsort(descending=True, stable=True)[:num_chosen]
    is_chosen = (
        torch.zeros_like(covariances, dtype=torch.bool).index_fill(0, top_tokens, True)
        & (covariances > 0)
    )[index]
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio = log_of_ratio.exp()
    values = -ratio * batch.advantages + coefficient * is_chosen * log_of_ratio.abs()
    metrics = {"chosen_fraction": is_chosen.float().mean(), "covariance_max": covariances.max()}
    return LossTerm(
        values=values, weighted=True, metrics={**ratio_metrics(ratio, log_of_ratio), **metrics}
    )
