"""Feature: logit of the sampled token, less the mean logit."""

from __future__ import annotations

import torch
from torch import Tensor


def centred_logit(logits: Tensor) -> Tensor:
    """Subtract from each logit the mean of the finite logits (read by NeuRD).

    Shapes: logits [M, V]; result [M, V], 0 for entries at -inf. A feature with a column per
    vocabulary token is read at the sampled token.
    """
    possible = logits.isfinite()
    finite = torch.where(possible, logits, 0.0)
    mean = finite.sum(-1, keepdim=True) / possible.sum(-1, keepdim=True)
    return torch.where(possible, finite - mean, 0.0)
