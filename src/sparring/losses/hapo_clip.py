"""Loss: HAPO's clip, asymmetric by each token's entropy."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from sparring.losses.base import LossBatch, LossTerm, log_ratio, ratio_metrics
from sparring.losses.minibatch import whole_of
from sparring.losses.surrogate import clipped, dual_clipped

NEEDS = {"whole", "entropy"}

Width = Annotated[float, Field(ge=0)]
Gain = Annotated[float, Field(ge=0, le=1)]


def hapo_clip(
    batch: LossBatch,
    *,
    clip_low: Width = 0.2,
    clip_high: Width = 0.2,
    alpha: Gain = 1.0,
    beta: Gain = 1.0,
    pivot: Annotated[float, Field(ge=0, le=1)] = 0.8,
    dual_clip: Annotated[float, Field(gt=1)] | None = 10.0,
) -> LossTerm:
    """Let uncertain tokens rise further and certain tokens fall further than the usual clip.

    What: PPO's clip and advantage, both changed by how the token's entropy compares with the minibatch's.
    When to use: long replies in which few tokens decide and many follow of themselves.
    Mathematics: e = log H - quantile(log H, pivot); h = e / max e above the pivot and e / |min e| below it, in [-1, 1]. h > 0:
    clip_high (1 + alpha h); h <= 0: clip_low (1 - alpha h). A (1 + beta h), for h > 0 only where the ratio is outside
    (1 - clip_low / 2, 1 + clip_high / 2), for h <= 0 only inside, with the widths just found. Then ``ppo_clip`` with ``dual_clip``.
    Shapes: [M] -> [M].
    Options: ``alpha`` and ``beta`` 0 give ``ppo_clip``; ``dual_clip`` null switches it off.
    Pitfalls: the released code divides by the negative minimum, so that its h is never negative; this follows the paper. The
    paper's temperature by token and token-level group mean are not losses and not here. beta 1 silences the most certain token.
    Metrics: as ``ppo_clip``, and uncertain_fraction (tokens with h > 0).
    Reference: HAPO (heterogeneous adaptive policy optimisation), 2025, and its released code for the numbers.
    Verified by: tests/losses/test_hapo_clip.py.
    """
    whole, index = whole_of(batch)
    assert whole.entropy is not None
    h = _relative_entropy(whole.entropy, pivot)[index]
    low, high = clip_low * (1.0 - alpha * h.clamp(max=0.0)), clip_high * (1.0 + alpha * h.clamp(min=0.0))
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio = log_of_ratio.exp()
    inside = ((ratio > 1.0 - low / 2.0) & (ratio < 1.0 + high / 2.0)).detach()
    advantages = torch.where((h > 0) ^ inside, batch.advantages * (1.0 + beta * h), batch.advantages)
    loss, cut = clipped(ratio, advantages, low, high)
    if dual_clip is not None:
        loss, too_large = dual_clipped(loss, advantages, dual_clip)
        cut = cut | too_large
    metrics = {**ratio_metrics(ratio, log_of_ratio), "clip_fraction": cut.float().mean(), "uncertain_fraction": (h > 0).float().mean()}
    return LossTerm(values=loss, weighted=True, metrics=metrics)


def _relative_entropy(entropy: Tensor, pivot: float) -> Tensor:
    """Return h of every token of the minibatch, [M'] in [-1, 1]; 0 where all entropies are equal."""
    log_entropy = entropy.clamp(min=1e-8).log()
    rank = round(pivot * (len(log_entropy) - 1))
    distance = log_entropy - log_entropy.sort().values[rank]
    above, below = distance.max().clamp(min=1e-8), (-distance.min()).clamp(min=1e-8)
    return torch.where(distance > 0, distance / above, distance / below)
