"""Loss modifier: no loss for tokens with very different sampler and learner probabilities."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio

NEEDS = {"old_logprobs"}
TRAINS = False
CORRECTS = True
PRESETS = {"icepop": {"low": 0.5, "high": 5.0, "keep_ratio": True}}

Bound = Annotated[float, Field(ge=0)]


def masked_is(
    batch: LossBatch, *, low: Bound = 0.5, high: Bound = 2.0, keep_ratio: bool = False
) -> LossTerm:
    """Drop tokens whose probability under the learner is too far from the sampler's.

    What: factors 0 and 1 for every policy loss; ``truncated_is`` caps the ratio instead.
    When to use: with an external engine or stale samples, if the two probabilities of some tokens
    differ strongly; alone or combined with ``truncated_is``.
    Mathematics:
        r_t = pi_old(a_t) / pi_sampler(a_t)
        w_t = 1 if low <= r_t <= high, else 0
    without gradient. With ``keep_ratio``, w_t = r_t within the bounds.
    Shapes: [M] -> weights [M].
    Pitfalls: the ``weight`` of this entry in the recipe has no effect. ``keep_ratio`` together with
    ``truncated_is`` applies the ratio twice.
    Metrics: masked_fraction, weight_min and weight_max (raw ratios).
    Reference: Ling team, 2025 (IcePop); masked importance sampling in verl.
    Verified by: tests/methods/losses/test_weights_of_losses.py.

    Args:
        low: least ratio of a token that keeps its loss, at least 0. Default 0.5.
        high: largest ratio of a token that keeps its loss, at least 0. Default 2; preset ``icepop``
            has 5.
        keep_ratio: weight of tokens within the bounds: 1 (false, default) or their ratio (true, as
            in preset ``icepop``).
    """
    ratio = log_ratio(batch.old_logprobs, batch.sampler_logprobs).detach().exp()
    mask = ((ratio >= low) & (ratio <= high)).to(ratio.dtype)
    metrics = {
        "masked_fraction": 1.0 - mask.mean(),
        "weight_min": ratio.min(),
        "weight_max": ratio.max(),
    }
    return LossTerm(values=mask * ratio if keep_ratio else mask, level="weight", metrics=metrics)
