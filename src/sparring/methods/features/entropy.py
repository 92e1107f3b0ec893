"""Feature: entropy of the next-token distribution."""

from __future__ import annotations

from torch import Tensor


def entropy(logits: Tensor) -> Tensor:
    """Measure the entropy of the next-token distribution at each sampled token, in nats.

    H = -sum over v of p_v log p_v, [M], of logits [M, V]; entries at -inf count as probability 0.
    """
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p.clamp(min=-1e9)).sum(-1)
