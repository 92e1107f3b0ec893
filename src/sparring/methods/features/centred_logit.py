"""Feature: logit of the sampled token, less the mean of all."""

from __future__ import annotations

import torch
from torch import Tensor


def centred_logit(logits: Tensor) -> Tensor:
    """How far each token's logit lies above the mean logit (NeuRD reads it).

    Each logit less the mean of the finite ones, [M, V], of logits [M, V]; 0 for entries at -inf.

    A feature with a column per token is read at the token that was sampled.
    """
    possible = logits.isfinite()
    finite = torch.where(possible, logits, 0.0)
    mean = finite.sum(-1, keepdim=True) / possible.sum(-1, keepdim=True)
    return torch.where(possible, finite - mean, 0.0)
