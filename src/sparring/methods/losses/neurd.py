"""Loss: neural replicator dynamics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm

NEEDS = {"centred_logit"}
CORRECTS = True


def neurd(
    batch: LossBatch,
    *,
    threshold: Annotated[float, Field(gt=0)] = 2.0,
    importance_cap: Annotated[float, Field(ge=1)] = 10.0,
) -> LossTerm:
    """Update the logit of the sampled token, not its log-probability.

    What: replicator dynamics for networks. The update omits the slope of the softmax, which
    vanishes near certainty. So a rare action recovers as fast as a common action declines.
    When to use: self-play in games of hidden information, where the best action changes and the
    policy must reverse.
    Mathematics:
        y = logit less the mean logit
        w = min(1 / pi_old, importance_cap)
        L_t = -w A y_t
    w A is set to 0 if it would push y_t beyond the threshold: A > 0 and y_t >= threshold, or A < 0
    and y_t <= -threshold. Without cap and threshold the expectation over samples is the sum over
    all actions of A times the gradient of y: the all-action rule.
    Shapes: [M] -> [M].
    Pitfalls:
        - Logits are after the division by the sampling temperature.
        - The mean is over every token that may be sampled; in large vocabularies most of these are
          never used.
        - The published weight has no cap and a very large variance.
    Metrics: held_fraction (tokens whose push was set to 0), weight_mean, centred_logit_max (of the
    absolute value).
    Reference: Hennes et al., 2020; for the threshold: Perolat et al., 2022 (DeepNash).
    Verified by: tests/methods/losses/test_policy_losses.py.

    Args:
        threshold: absolute centred logit beyond which no update pushes further out, above 0.
        importance_cap: largest importance weight 1 / pi_old, at least 1. 1 gives every sample
            equal weight: the rule weighted by the policy, with less variance.
    """
    logit, advantages = batch.features["centred_logit"], batch.advantages
    weight = (-batch.old_logprobs).clamp(min=0.0, max=50.0).exp().clamp(max=importance_cap)
    is_held = ((advantages > 0) & (logit >= threshold)) | ((advantages < 0) & (logit <= -threshold))
    weighted_advantages = (weight * advantages).masked_fill(is_held, 0.0)
    largest = logit.detach().abs().max()
    metrics = {
        "held_fraction": is_held.float().mean(),
        "weight_mean": weight.mean(),
        "centred_logit_max": largest,
    }
    return LossTerm(values=-weighted_advantages * logit, weighted=True, metrics=metrics)
