"""Loss: self-imitation of replies with positive advantage (SIL, SPEAR)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, clip_loss, log_ratio

PRESETS = {"spear": {"clip_high": 0.2}}


def self_imitation(
    batch: LossBatch, *, clip_high: Annotated[float, Field(ge=0)] | None = None
) -> LossTerm:
    """Raise the probability of tokens with a positive advantage only.

    What: the policy gradient of positive advantages only.
    When to use: rare successes, above all replayed ones, early in training. With a schedule as
    ``weight``, the loss can begin at 0 and grow.
    Mathematics:
        L_t = -max(A_t, 0) log pi
    With ``clip_high`` the loss is the clipped surrogate
        L_t = -min(rho, 1 + clip_high) max(A_t, 0)
    Shapes: [M] -> [M].
    Pitfalls:
        - Without another loss, this one lowers the entropy without bound. SPEAR masks tokens of
          high covariance (``clip_cov``, preset ``spear``).
        - SPEAR's weight grows as (1 - cos(pi step / 200)) / 2: write a cosine schedule from 0 to 1.
        - This loss reads the batch's advantages unchanged. SPEAR's buffer and its recalibrated
          advantages are not part of this loss.
    Metrics: imitated_fraction (tokens with a positive advantage), ratio_max.
    Reference: Oh et al., 2018 (SIL); SPEAR, 2025.
    Verified by: tests/methods/losses/test_policy_losses.py.

    Args:
        clip_high: width of the clip above ratio 1, at least 0, as in SPEAR (preset ``spear``: 0.2).
            null (default): no ratio, as in SIL; the samples may be much older than the policy.
    """
    positive_advantages = batch.advantages.clamp(min=0.0)
    ratio = log_ratio(batch.logprobs, batch.old_logprobs).exp()
    if clip_high is None:
        values = -positive_advantages * batch.logprobs
    else:
        values = clip_loss(ratio, positive_advantages, 1.0, clip_high)[0]
    imitated_fraction = (positive_advantages > 0).float().mean()
    metrics = {"imitated_fraction": imitated_fraction, "ratio_max": ratio.detach().max()}
    return LossTerm(values=values, weighted=True, metrics=metrics)
