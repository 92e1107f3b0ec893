"""How losses per token become one number: the only place where that is decided."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def reduce(
    per_token: Tensor,
    sequence: Tensor,
    num_sequences: int,
    how: Literal["token_mean", "sequence_mean", "constant"] = "token_mean",
    constant: float = 1.0,
) -> Tensor:
    """Return a scalar from losses per token.

    Args:
        per_token: [M].
        sequence: int64 [M], the training sequence of each token, 0..num_sequences-1.
        num_sequences: number of sequences S, those without tokens counted too.
        how: "token_mean": sum / M, every token weighs the same (DAPO). "sequence_mean": mean over
            sequences of the mean over their tokens, every game weighs the same (GRPO). "constant":
            sum / (S * constant), free of length bias (Dr. GRPO).
        constant: tokens per sequence assumed by "constant".

    Returns:
        A scalar; 0 when there are no tokens.
    """
    if not len(per_token):
        return per_token.sum()
    if how == "token_mean":
        return per_token.mean()
    if how == "constant":
        return per_token.sum() / (num_sequences * constant)
    counts = torch.bincount(sequence, minlength=num_sequences).clamp(min=1).to(per_token.dtype)
    return (per_token / counts[sequence]).sum() / num_sequences
