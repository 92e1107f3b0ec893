"""Loss: CISPO, the policy gradient with a clipped importance weight."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio, ratio_metrics

CORRECTS = True


def cispo(
    batch: LossBatch,
    *,
    clip_low: Annotated[float, Field(ge=0, le=1)] = 1.0,
    clip_high: Annotated[float, Field(ge=0)] = 0.2,
) -> LossTerm:
    """Clip the importance weight, not the update, so that every token keeps a gradient.

    What: REINFORCE weighted by the clipped ratio. The weight carries no gradient.
    When to use: several updates per step, if a clip must not drop rare but decisive tokens.
    Mathematics:
        L_t = -sg(clip(rho, 1 - clip_low, 1 + clip_high)) A log pi
    with rho = pi / pi_old; sg stops the gradient.
    Shapes: [M] -> [M].
    Pitfalls: no term pulls a ratio back into the range, so the policy drifts with many updates per
    step. The value of the loss is not a surrogate and need not fall.
    Metrics: as ``ppo_clip``; clip_fraction is the share of weights that are clipped.
    Reference: MiniMax, 2025 (MiniMax-M1).
    Verified by: tests/methods/losses/test_clipped_losses.py.

    Args:
        clip_low: how far the weight may fall below 1, in [0, 1]. The default 1 is no lower bound,
            as in the paper.
        clip_high: how far the weight may rise above 1, at least 0. The paper names no number; the
            default 0.2 is verl's. With clip_low 1, a very large value gives the exact off-policy
            gradient.
    """
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs).detach()
    ratio = log_of_ratio.exp()
    weight = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    metrics = {
        **ratio_metrics(ratio, log_of_ratio),
        "clip_fraction": (weight != ratio).float().mean(),
    }
    return LossTerm(
        values=-weight * batch.advantages * batch.logprobs, weighted=True, metrics=metrics
    )
