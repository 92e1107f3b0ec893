"""Feature: logit of the sampled token, minus the mean logit."""

from __future__ import annotations

import torch
from torch import Tensor


def centred_logit(logits: Tensor) -> Tensor:
    """Subtract from each logit the mean of the finite logits; the loss ``neurd`` reads the result.

    Shapes: logits [M, V]; result [M, V], 0 for entries at -inf. The result has one column per token
    of the vocabulary; the loss reads the column of the sampled token.
    """
    is_finite = logits.isfinite()
    finite_logits = torch.where(is_finite, logits, 0.0)
    mean = finite_logits.sum(-1, keepdim=True) / is_finite.sum(-1, keepdim=True)
    return torch.where(is_finite, finite_logits - mean, 0.0)
