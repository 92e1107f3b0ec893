"""Loss: HAPO's clip, asymmetric by each token's entropy."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from sparring.methods.losses.base import (
    LossBatch,
    LossTerm,
    apply_dual_clip,
    clip_loss,
    log_ratio,
    ratio_metrics,
)
from sparring.methods.losses.minibatch import whole_minibatch

NEEDS = {"whole", "entropy"}
CORRECTS = True

Width = Annotated[float, Field(ge=0)]
EntropyEffect = Annotated[float, Field(ge=0, le=1)]


def hapo_clip(
    batch: LossBatch,
    *,
    clip_low: Width = 0.2,
    clip_high: Width = 0.2,
    alpha: EntropyEffect = 1.0,
    beta: EntropyEffect = 1.0,
    pivot: Annotated[float, Field(ge=0, le=1)] = 0.8,
    dual_clip: Annotated[float, Field(gt=1)] | None = 10.0,
) -> LossTerm:
    """Widen the clip upwards for uncertain tokens, and downwards for certain tokens.

    What: PPO's clip and advantage, both changed by the token's entropy relative to the minibatch's.
    When to use: long replies in which a few tokens decide and the others follow from them.
    Mathematics:
        e = log H - quantile(log H, pivot)
        h = e / max e above the pivot and e / |min e| below it, in [-1, 1]
    One width of the clip changes with h:
        h > 0:    clip_high (1 + alpha h)
        h <= 0:   clip_low (1 - alpha h)
    With these widths, the advantage A is multiplied by 1 + beta h where h > 0 and the ratio is
    outside, or h <= 0 and the ratio is inside
        (1 - clip_low / 2, 1 + clip_high / 2)
    The loss is ``ppo_clip`` with ``dual_clip``.
    Shapes: [M] -> [M].
    Pitfalls:
        - The authors' code divides by the negative minimum, so its h is never negative; this loss
          follows the paper.
        - The paper's temperature per token and its group mean at token level are not losses, and
          are not included.
        - With ``alpha`` and ``beta`` 0 this is ``ppo_clip``.
    Metrics: as ``ppo_clip``, and uncertain_fraction (tokens with h > 0).
    Reference: HAPO (heterogeneous adaptive policy optimisation), 2025. The defaults are those of
    the authors' code.
    Verified by: tests/methods/losses/test_minibatch_losses.py.

    Args:
        clip_low: width of the clip below ratio 1, at least 0. For tokens with h < 0 the width is up
            to 1 + alpha times as large.
        clip_high: width of the clip above ratio 1, at least 0. For tokens with h > 0 the width is
            up to 1 + alpha times as large.
        alpha: effect of entropy on the widths, in [0, 1]. 0 leaves them unchanged.
        beta: effect of entropy on the advantage, in [0, 1]. 0 leaves it unchanged. 1 (default)
            gives the most certain token the advantage 0.
        pivot: quantile of the minibatch's log-entropies above which a token counts as uncertain, in
            [0, 1]. The default 0.8 is the top fifth.
        dual_clip: bound on the loss of a token with a negative advantage, as in ``ppo_clip``; above
            1. null switches it off.
    """
    minibatch, index = whole_minibatch(batch)
    assert minibatch.entropy is not None
    h = _relative_entropy(minibatch.entropy, pivot)[index]
    low = clip_low * (1.0 - alpha * h.clamp(max=0.0))
    high = clip_high * (1.0 + alpha * h.clamp(min=0.0))
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio = log_of_ratio.exp()
    is_inside = ((ratio > 1.0 - low / 2.0) & (ratio < 1.0 + high / 2.0)).detach()
    scaled_advantages = batch.advantages * (1.0 + beta * h)
    advantages = torch.where((h > 0) ^ is_inside, scaled_advantages, batch.advantages)
    loss, is_clipped = clip_loss(ratio, advantages, low, high)
    if dual_clip is not None:
        loss, is_bounded = apply_dual_clip(loss, advantages, dual_clip)
        is_clipped = is_clipped | is_bounded
    metrics = {
        **ratio_metrics(ratio, log_of_ratio),
        "clip_fraction": is_clipped.float().mean(),
        "uncertain_fraction": (h > 0).float().mean(),
    }
    return LossTerm(values=loss, weighted=True, metrics=metrics)


def _relative_entropy(entropy: Tensor, pivot: float) -> Tensor:
    """Return h of every token of the minibatch, [M'] in [-1, 1]; 0 if all entropies are equal."""
    log_entropy = entropy.clamp(min=1e-8).log()
    rank = round(pivot * (len(log_entropy) - 1))
    distance = log_entropy - log_entropy.sort().values[rank]
    largest_above, largest_below = distance.max().clamp(min=1e-8), (-distance.min()).clamp(min=1e-8)
    return torch.where(distance > 0, distance / largest_above, distance / largest_below)
