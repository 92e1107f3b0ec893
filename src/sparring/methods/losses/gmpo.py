"""Loss: GMPO, the geometric mean of clipped token ratios."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from sparring.methods.losses.base import (
    LossBatch,
    LossTerm,
    Unit,
    log_ratio,
    ratio_metrics,
    segment_indices,
    segment_mean,
)

CORRECTS = True

Width = Annotated[float, Field(ge=0)]


def gmpo(
    batch: LossBatch, *, level: Unit = "sequence", clip_low: Width = 0.4, clip_high: Width = 0.4
) -> LossTerm:
    """Clip each token's ratio and weigh the segment by their geometric mean.

    What: a geometric mean replaces GRPO's arithmetic mean of token ratios. Outliers change it less.
    When to use: if extreme ratios of single tokens disturb training; with a clip per token.
    Mathematics:
        l_t = log pi - log pi_old
        c_t = sign(A) min(sign(A) l_t, sign(A) clip(l_t, -clip_low, clip_high))
        L = -mean(A) exp(mean(c))
    with means over the segment. L is the same for each token of the segment.
    Shapes: [M] -> [M].
    Pitfalls:
        - The widths are of log-ratios, not of ratios.
        - Advantages that differ within a segment are averaged.
        - With learner.reduction sequence_mean every sequence has equal weight, as in the paper.
        - A token without advantage does not change the ratio of its segment.
    Metrics: of the token ratios: as ``ppo_clip``.
    Reference: Zhao et al., 2025 (GMPO).
    Verified by: tests/methods/losses/test_clipped_losses.py.

    Args:
        level: unit of a segment. "sequence" (default): a training sequence. "turn": a turn, for
            advantages that differ by turn.
        clip_low: clip width of a token's log-ratio below 0, in nats, at least 0.
        clip_high: clip width of a token's log-ratio above 0, in nats, at least 0.
    """
    segment = segment_indices(batch, level)
    log_of_ratio, sign = log_ratio(batch.logprobs, batch.old_logprobs), batch.advantages.sign()
    clipped_log_ratio = sign * torch.minimum(
        sign * log_of_ratio, sign * log_of_ratio.clamp(-clip_low, clip_high)
    )
    loss = -segment_mean(batch.advantages, segment) * segment_mean(clipped_log_ratio, segment).exp()
    is_clipped = (clipped_log_ratio != log_of_ratio) & (sign != 0)
    metrics = {
        **ratio_metrics(log_of_ratio.exp(), log_of_ratio),
        "clip_fraction": is_clipped.float().mean(),
    }
    return LossTerm(values=loss, weighted=True, metrics=metrics)
