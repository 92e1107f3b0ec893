"""Loss: GSPO, the clipped surrogate with one ratio per sequence or turn."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import (
    LOG_RATIO_LIMIT,
    LossBatch,
    LossTerm,
    Unit,
    clip_loss,
    log_ratio,
    ratio_metrics,
    segment_indices,
    segment_mean,
    segment_sum,
)

CORRECTS = True
PRESETS = {
    "seeupo": {"level": "turn", "length_normalised": False, "clip_low": 0.2, "clip_high": 0.2}
}

Width = Annotated[float, Field(ge=0)]


def gspo(
    batch: LossBatch,
    *,
    level: Unit = "sequence",
    length_normalised: bool = True,
    clip_low: Width = 3e-4,
    clip_high: Width = 4e-4,
) -> LossTerm:
    """Use and clip the probability ratio of a whole sequence or turn, not of a token.

    What: PPO's clip with one ratio per unit of reward, a sequence or a turn. Preset ``seeupo`` has
    the summed ratio of a turn; with learner.order reverse_turns it is SeeUPO's update.
    When to use: long replies and mixture-of-experts models, where token ratios are noise;
    ``level: turn`` for credit per turn.
    Mathematics:
        s = exp(mean over the segment's tokens of log pi - log pi_old)
        s_t = s, with the gradient of sg(s) pi_t / sg(pi_t)
        L_t = -min(s_t A_t, clip(s_t, 1 - clip_low, 1 + clip_high) A_t)
    s_t is the token form; sg stops the gradient. The sum over a segment with one A has the gradient
    of s A, multiplied by the number of tokens if ``length_normalised``.
    Shapes: [M] -> [M].
    Pitfalls: intended for learner.reduction sequence_mean; other reductions give long sequences
    more weight. A trajectory that is split into samples has one sequence per sample.
    Metrics: of the segment ratio: as ``ppo_clip``.
    Reference: Zheng et al., 2025 (GSPO); SeeUPO, 2026 (abstract and notes) for the preset.
    Verified by: tests/methods/losses/test_clipped_losses.py.

    Args:
        level: unit of a ratio. "sequence" (default): a training sequence. "turn": a turn.
        length_normalised: true (default): the exponent is the mean of the log-ratios. false: the
            exponent is their sum, and s is the segment's true ratio.
        clip_low: width of the clip below ratio 1, at least 0. The default 0.0003 fits mean
            log-ratios of long sequences; widen it for replies of a few tokens.
        clip_high: width of the clip above ratio 1, at least 0; widen it like ``clip_low``.
    """
    segment = segment_indices(batch, level)
    mean_or_sum = segment_mean if length_normalised else segment_sum
    token_log_ratios = log_ratio(batch.logprobs, batch.old_logprobs).detach()
    log_ratios = mean_or_sum(token_log_ratios, segment).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio = (batch.logprobs - batch.logprobs.detach() + log_ratios).exp()
    loss, is_clipped = clip_loss(ratio, batch.advantages, clip_low, clip_high)
    metrics = {**ratio_metrics(ratio, log_ratios), "clip_fraction": is_clipped.float().mean()}
    return LossTerm(values=loss, weighted=True, metrics=metrics)
