"""Top-k and top-p truncation, and the sets they keep, so that a learner can replay them.

Legend: B rows, M sampled tokens, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor


def truncate(logits: Tensor, *, top_p: float = 1.0, top_k: int = 0) -> Tensor:
    """Return log-probabilities [B, V] renormalised over what truncation keeps; -inf elsewhere.

    ``top_k`` keeps the k largest (0: all); ``top_p`` then keeps the smallest set of most probable
    tokens whose mass reaches p (1: all), always at least one.
    """
    if 0 < top_k < logits.shape[-1]:
        threshold = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < threshold, -torch.inf)
    if top_p < 1.0:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        mass_before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        drop = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, mass_before >= top_p)
        logits = logits.masked_fill(drop, -torch.inf)
    return logits.log_softmax(-1)


def kept_sets(log_p: Tensor) -> list[tuple[int, ...]]:
    """Return for each row of [B, V] the ids that truncation kept."""
    return [tuple(torch.nonzero(row > -torch.inf).squeeze(1).tolist()) for row in log_p]


def restrict(logits: Tensor, kept: list[tuple[int, ...]]) -> Tensor:
    """Return logits [M, V] with everything outside the kept sets at -inf.

    An empty set keeps all.
    """
    drop = torch.zeros_like(logits, dtype=torch.bool)
    for row, ids in enumerate(kept):
        if ids:
            drop[row] = True
            drop[row, list(ids)] = False
    return logits.masked_fill(drop, -torch.inf)
