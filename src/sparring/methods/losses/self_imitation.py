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
    When to use: rare successes, above all replayed ones, early in training. A schedule as
    ``weight`` fades the loss in.
    Mathematics:
        L_t = -max(A_t, 0) log pi
    With ``clip_high`` the loss is the clipped surrogate
        L_t = -min(rho, 1 + clip_high) max(A_t, 0)
    Shapes: [M] -> [M].
    Pitfalls:
        - Without another loss, this one lowers the entropy without bound. SPEAR masks tokens of
          high covariance (``clip_cov``, preset ``spear``).
        - SPEAR's weight grows as (1 - cos(pi step / 200)) / 2: write a cosine schedule from 0 to 1.
        - SPEAR's buffer belongs to selection, and its recalibrated advantages to credit; this loss
          reads the batch's advantages unchanged.
    Metrics: imitated_fraction (tokens with a positive advantage), ratio_max.
    Reference: Oh et al., 2018 (SIL); SPEAR, 2025.
    Verified by: tests/methods/losses/test_policy_losses.py.

    Args:
        clip_high: width of the clip above ratio 1, at least 0, as in SPEAR (preset ``spear``: 0.2).
            null (default): no ratio, as in SIL, whose samples may be of any age.
    """
    gains = batch.advantages.clamp(min=0.0)
    ratio = log_ratio(batch.logprobs, batch.old_logprobs).exp()
    values = (
        -gains * batch.logprobs if clip_high is None else clip_loss(ratio, gains, 1.0, clip_high)[0]
    )
    metrics = {"imitated_fraction": (gains > 0).float().mean(), "ratio_max": ratio.detach().max()}
    return LossTerm(values=values, weighted=True, metrics=metrics)
