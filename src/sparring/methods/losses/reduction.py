"""How losses per token become one number: the only place where that is decided."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sparring.config.learning import Reduction
from sparring.core.records import FloatArray, IntArray


def reduce(
    per_token: Tensor,
    sequence: Tensor,
    num_sequences: int,
    how: Reduction = "token_mean",
    constant: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return a scalar from losses per token.

    Args:
        per_token: [M].
        sequence: int64 [M], the training sequence of each token, 0..num_sequences-1.
        num_sequences: number of sequences S, those without tokens counted too.
        how: "token_mean": sum / M, every token weighs the same (DAPO). "sequence_mean": mean over
            sequences of the mean over their tokens, every conversation weighs the same (GRPO).
            "agent_mean": every play weighs the same, in it every conversation, and in it every
            token (WideSeek-R1): the sequence mean with the weights of ``agent_weights``.
            "constant": sum / (S * constant), free of length bias (Dr. GRPO).
        constant: tokens per sequence assumed by "constant".
        weight: [S], of each sequence; of "agent_mean" alone, which needs it.

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
    means = per_token / counts[sequence]
    if how == "agent_mean":
        assert weight is not None, "agent_mean weighs sequences"
        means = means * weight.to(means)[sequence]
    return means.sum() / num_sequences


def agent_weights(episode: IntArray) -> FloatArray:
    """Return what each of S sequences weighs in "agent_mean": S / (E N), of mean 1, [S].

    E is the number of plays, and N how many of the sequences are of the sequence's play.

    Args:
        episode: play of each sequence, [S].
    """
    _, play, counts = np.unique(episode, return_inverse=True, return_counts=True)
    weights: FloatArray = len(episode) / (len(counts) * counts[play].astype(np.float64))
    return weights
