"""Loss: SAPO, a soft gate in place of the clip."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio, ratio_metrics

CORRECTS = True

Temperature = Annotated[float, Field(gt=0)]


def sapo(
    batch: LossBatch,
    *,
    temperature_positive: Temperature = 1.0,
    temperature_negative: Temperature = 1.05,
) -> LossTerm:
    """Reduce a token's gradient smoothly as its ratio moves away from one.

    What: a sigmoid of the ratio replaces PPO's clip.
    When to use: if the hard edge of a clip wastes tokens or makes training unstable.
    Mathematics:
        f(rho) = sigmoid(tau (rho - 1)) 4 / tau
        L_t = -f(rho) A
    with tau = temperature_positive for A > 0 and temperature_negative otherwise. f'(1) = 1: at
    ratio one the gradient is the policy gradient.
    Shapes: [M] -> [M].
    Pitfalls: unlike a clip, the gate also reduces the gradient of tokens that should come back to
    ratio one. The value at ratio one is -2 A / tau, not -A.
    Metrics: ratio_mean, ratio_min, ratio_max, approximate_kl, and gate_mean (mean gradient factor,
    1 at ratio one).
    Reference: Qwen team, 2025 (soft adaptive policy optimisation).
    Verified by: tests/methods/losses/test_clipped_losses.py.

    Args:
        temperature_positive: tau of tokens with a positive advantage, above 0. A higher value fades
            the gradient faster.
        temperature_negative: tau of all other tokens, above 0. The default 1.05 is a little higher
            than the other, because these updates also change every other token of the vocabulary.
    """
    log_of_ratio, advantages = log_ratio(batch.logprobs, batch.old_logprobs), batch.advantages
    ratio = log_of_ratio.exp()
    temperature = (
        torch.full_like(ratio, temperature_negative)
        .detach()
        .masked_fill(advantages > 0, temperature_positive)
    )
    gate = torch.sigmoid(temperature * (ratio - 1.0))
    factor = 4.0 * gate * (1.0 - gate) * ratio
    metrics = {**ratio_metrics(ratio, log_of_ratio), "gate_mean": factor.detach().mean()}
    return LossTerm(values=-gate * (4.0 / temperature) * advantages, weighted=True, metrics=metrics)
