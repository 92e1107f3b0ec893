"""Loss: PPO's clipped surrogate with an elastic trust region (ETR)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, clip_loss, log_ratio, ratio_metrics
from sparring.methods.losses.minibatch import group_mean, whole_minibatch

NEEDS = {"whole"}
CORRECTS = True

Width = Annotated[float, Field(ge=0)]


def etr(
    batch: LossBatch,
    *,
    clip_low: Width = 0.2,
    clip_high: Width = 0.2,
    advantage_gain: Annotated[float, Field(ge=0)] = 0.5,
    group_gain: Annotated[float, Field(ge=0)] = 0.5,
    success_above: float = 0.0,
) -> LossTerm:
    """Clip the ratio less for large advantages and for groups with mixed outcomes.

    What: PPO's clip with widths that are scaled per token.
    When to use: groups of very different difficulty, where one width for all groups clips the
    informative groups too much.
    Mathematics: both widths are multiplied by
        (1 + advantage_gain min(|A|, 1)) (1 + group_gain 4 p (1 - p))
    with p the share of successes in the trajectory's group. Then the loss is that of ``ppo_clip``.
    Shapes: [M] -> [M].
    Pitfalls:
        - This is our reading of the abstract, which allows any two non-decreasing functions;
          it is not a reproduction.
        - If advantages are not standardised, the first factor may always or never be at its limit.
        - p counts the minibatch's trajectories only.
        - With both gains 0 the loss is ``ppo_clip``.
    Metrics: as ``ppo_clip``, and width_mean (mean factor of the widths).
    Reference: ETR (abstract only).
    Verified by: tests/methods/losses/test_minibatch_losses.py.

    Args:
        clip_low: width of the clip below ratio 1 before it is scaled, at least 0.
        clip_high: width of the clip above ratio 1 before it is scaled, at least 0.
        advantage_gain: how much the widths grow, as a share, where |A| is 1 or more; at least 0. 0
            ignores the advantage.
        group_gain: how much the widths grow, as a share, where half of the group succeeds; at least
            0. 0 ignores the group.
        success_above: return above which a trajectory is a success, in units of returns.
    """
    minibatch, index = whole_minibatch(batch)
    success_rate = group_mean(
        (minibatch.outcome > success_above).to(minibatch.outcome.dtype), minibatch
    )[minibatch.trajectory[index]]
    factor = (1.0 + advantage_gain * batch.advantages.abs().clamp(max=1.0)) * (
        1.0 + group_gain * 4.0 * success_rate * (1.0 - success_rate)
    )
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio = log_of_ratio.exp()
    loss, is_clipped = clip_loss(ratio, batch.advantages, clip_low * factor, clip_high * factor)
    metrics = {
        **ratio_metrics(ratio, log_of_ratio),
        "clip_fraction": is_clipped.float().mean(),
        "width_mean": factor.mean(),
    }
    return LossTerm(values=loss, weighted=True, metrics=metrics)
