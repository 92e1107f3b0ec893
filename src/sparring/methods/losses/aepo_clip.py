"""Loss: AEPO's entropy-balanced clip, which keeps a gradient above the upper bound."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio, ratio_metrics
from sparring.methods.losses.minibatch import standardise, whole_minibatch

NEEDS = {"whole", "entropy"}
CORRECTS = True

Width = Annotated[float, Field(ge=0)]


def aepo_clip(
    batch: LossBatch,
    *,
    clip_low: Width = 0.2,
    clip_high: Width = 0.2,
    entropy_gain: Annotated[float, Field(ge=0)] = 0.1,
) -> LossTerm:
    """Bound the ratio of good tokens but keep their gradient, and favour uncertain tokens.

    What: ``ppo_clip`` whose upper clip does not remove a token's gradient, but bounds its size.
    When to use: agents with tools, if a clip stops learning from uncertain tokens too early.
    Mathematics:
        A' = A max(0, 1 + entropy_gain z(H))
    z(H) is the token's entropy, standardised over the minibatch. With rho = pi / pi_old the loss is
        A' > 0 and rho > 1 + clip_high:   L = -(1 + clip_high) rho / sg(rho) A'
        A' < 0 and rho < 1 - clip_low:    no gradient
        else:                             L = -rho A'
    sg stops the gradient, so in the first case the factor of the gradient is 1 + clip_high.
    Shapes: [M] -> [M].
    Pitfalls: the loss never limits the ratio of a good token. With many updates per step watch
    approximate_kl.
    Metrics: as ``ppo_clip`` (clip_fraction: tokens without gradient), and bounded_fraction (tokens
    whose gradient is bounded).
    Reference: AEPO (agentic entropy-balanced policy optimisation), 2025, from notes.
    Verified by: tests/methods/losses/test_minibatch_losses.py.

    Args:
        clip_low: width of the clip below ratio 1, at least 0. A token with a negative advantage and
            a ratio under 1 - clip_low has no gradient.
        clip_high: width of the clip above ratio 1, at least 0. For a token with a positive
            advantage the factor of the gradient never exceeds 1 + clip_high.
        entropy_gain: how much the advantage grows per standard deviation of entropy, at least 0. 0
            leaves the advantage unchanged. The default 0.1 is ours, because we do not know the
            paper's number.
    """
    minibatch, index = whole_minibatch(batch)
    assert minibatch.entropy is not None
    factor = 1.0 + entropy_gain * standardise(minibatch.entropy)[index]
    advantages = batch.advantages * factor.clamp(min=0.0)
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio = log_of_ratio.exp()
    is_bounded = (advantages > 0) & (ratio > 1.0 + clip_high)
    is_clipped = (advantages < 0) & (ratio < 1.0 - clip_low)
    # exp of a zero difference: rho / sg(rho) with a gradient that survives the clamp of log-ratios
    surrogate = torch.where(
        is_bounded, (1.0 + clip_high) * (batch.logprobs - batch.logprobs.detach()).exp(), ratio
    )
    surrogate = torch.where(is_clipped, torch.full_like(ratio, 1.0 - clip_low), surrogate)
    clip_fraction, bounded_fraction = is_clipped.float().mean(), is_bounded.float().mean()
    fractions = {"clip_fraction": clip_fraction, "bounded_fraction": bounded_fraction}
    return LossTerm(
        values=-surrogate * advantages,
        weighted=True,
        metrics={**ratio_metrics(ratio, log_of_ratio), **fractions},
    )
