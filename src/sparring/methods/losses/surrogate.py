"""What losses with a clipped probability ratio share.

Legend: M sampled tokens of a forward pass, flat; S segments of them (sequences or turns).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sparring.methods.losses.base import LossBatch

Level = Literal["sequence", "turn"]


def clipped(
    ratio: Tensor, advantages: Tensor, low: float | Tensor, high: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Return the clipped surrogate loss, and whose gradient the clip cuts, [M] each.

    The loss is -min(ratio A, clip(ratio, 1 - low, 1 + high) A).

    Args:
        ratio: [M].
        advantages: [M].
        low: width below one, a number or [M].
        high: width above one, a number or [M].
    """
    lower, upper = (
        torch.as_tensor(edge, dtype=ratio.dtype, device=ratio.device)
        for edge in (1.0 - low, 1.0 + high)
    )
    plain, held = -ratio * advantages, -ratio.clamp(lower, upper) * advantages
    return torch.maximum(plain, held), held > plain


def dual_clipped(loss: Tensor, advantages: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """Return min(loss, -limit A) where A < 0 and the loss elsewhere.

    Whose gradient that cuts comes with it, [M] each.
    """
    bound = -limit * advantages
    too_large = (advantages < 0) & (loss > bound)
    return torch.where(too_large, bound, loss), too_large


def segments(batch: LossBatch, level: Level) -> Tensor:
    """Return which sequence or turn each token belongs to, int64 [M], numbers from 0."""
    if level == "sequence":
        return batch.sequence
    numbers: Tensor = torch.unique(batch.turn, return_inverse=True)[1]
    return numbers


def segment_sum(values: Tensor, segment: Tensor) -> Tensor:
    """Return the sum of values over each token's segment, laid out over the tokens, [M]."""
    size = int(segment.max()) + 1 if len(segment) else 0
    return torch.zeros(size, dtype=values.dtype, device=values.device).index_add(
        0, segment, values
    )[segment]


def segment_mean(values: Tensor, segment: Tensor) -> Tensor:
    """Return the mean of values over each token's segment, laid out over the tokens, [M]."""
    return segment_sum(values, segment) / segment_sum(torch.ones_like(values), segment)
