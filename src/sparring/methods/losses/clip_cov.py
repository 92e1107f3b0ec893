"""Loss: Clip-Cov, no gradient for a few tokens that drive the entropy down."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, clip_loss, log_ratio, ratio_metrics
from sparring.methods.losses.minibatch import covariance_terms, whole_minibatch

NEEDS = {"whole"}
CORRECTS = True
PRESETS = {"spear": {"share": 0.02, "lower": 1.0, "upper": 40.0}}

Width = Annotated[float, Field(ge=0)]


def clip_cov(
    batch: LossBatch,
    *,
    share: Annotated[float, Field(ge=0, le=1)] = 2e-4,
    lower: float = 1.0,
    upper: float = 5.0,
    clip_low: Width = 0.2,
    clip_high: Width = 0.2,
) -> LossTerm:
    """Mask the gradient of a few random tokens of high covariance of log-probability and advantage.

    What: ``ppo_clip`` with a random mask over tokens of high covariance. Updates on those tokens
    lower the entropy most.
    When to use: when the entropy collapses early and training then stops making progress.
    Mathematics:
        cov_t = (A_t - mean A)(log pi_t - mean log pi)
    with means over the minibatch. Candidates are the tokens with lower < cov < upper whose ratio
    PPO's clip leaves unchanged. The loss is 0 for
        max(1, floor(share M'))
    random candidates.
    Shapes: [M] -> [M].
    Pitfalls: ``lower`` and ``upper`` are compared with unscaled covariances. With small advantages
    no covariance reaches 1, and the loss is ``ppo_clip``; watch chosen_fraction. The mean of the
    loss still counts the masked tokens.
    Metrics: as ``ppo_clip``, chosen_fraction (masked tokens), covariance_max (in the minibatch).
    Reference: Cui et al., 2025 (the entropy mechanism); SPEAR, 2025, for the preset.
    Verified by: tests/methods/losses/test_minibatch_losses.py.

    Args:
        share: share of the minibatch's tokens that lose their gradient, in [0, 1]. Above 0, at
            least one candidate loses it. 0 is ``ppo_clip``. Preset ``spear`` has 0.02.
        lower: only tokens with a covariance above this are candidates. The unit is that of an
            advantage times nats.
        upper: only tokens with a covariance below this are candidates. Preset ``spear`` has 40.
        clip_low: width of PPO's clip below ratio 1, at least 0.
        clip_high: width of PPO's clip above ratio 1, at least 0.
    """
    minibatch, index = whole_minibatch(batch)
    covariances = covariance_terms(minibatch)
    minibatch_ratio = log_ratio(minibatch.logprobs, minibatch.old_logprobs).exp()
    is_clipped_by_ppo = clip_loss(minibatch_ratio, minibatch.advantages, clip_low, clip_high)[1]
    is_candidate = (covariances > lower) & (covariances < upper) & ~is_clipped_by_ppo
    num_chosen = max(1, int(share * len(covariances))) if share else 0
    order = torch.where(is_candidate, minibatch.uniform, 2.0).argsort(stable=True)
    is_chosen = torch.zeros_like(is_candidate).index_fill(0, order[:num_chosen], True)
    is_chosen &= is_candidate
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio = log_of_ratio.exp()
    loss, is_clipped = clip_loss(ratio, batch.advantages, clip_low, clip_high)
    is_masked = is_chosen[index]
    metrics = {
        **ratio_metrics(ratio, log_of_ratio),
        "clip_fraction": is_clipped.float().mean(),
        "chosen_fraction": is_masked.float().mean(),
        "covariance_max": covariances.max(),
    }
    return LossTerm(values=loss.masked_fill(is_masked, 0.0), weighted=True, metrics=metrics)
