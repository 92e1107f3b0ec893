"""Loss: PPO's clipped surrogate."""

from __future__ import annotations

from sparring.core.errors import ConfigError
from sparring.methods.losses.base import (
    LossBatch,
    LossTerm,
    apply_dual_clip,
    clip_loss,
    log_ratio,
    ratio_metrics,
)

CORRECTS = True
PRESETS = {
    "dapo": {"clip_low": 0.2, "clip_high": 0.28},
    "dual_clip": {"dual_clip": 3.0},
    "loop": {"clip_low": 1.0 - 1.0 / 1.1, "clip_high": 0.1},
}


def ppo_clip(
    batch: LossBatch,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> LossTerm:
    """Policy gradient with the probability ratio clipped near one.

    What: the pessimistic minimum of the plain and the clipped surrogate, per token.
    When to use: the default; the clip keeps several updates per step stable.
    Mathematics:
        rho = pi / pi_old
        L_t = -min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)
    With ``dual_clip`` = c, for A < 0 also
        L_t = min(L_t, -c A)
    so that a very large ratio cannot dominate.
    Shapes: [M] -> [M].
    Pitfalls: at the first update of a step the ratio is one and nothing is clipped, so the gradient
    is that of ``policy_gradient``.
    Metrics: ratio_mean, ratio_min, ratio_max (raw), approximate_kl (k3, nats), clip_fraction
    (tokens without gradient).
    Reference: Schulman et al., 2017; Yu et al., 2025 (DAPO); Ye et al., 2020 (dual clip); Chen et
    al., 2025 (LOOP).
    Verified by: tests/methods/losses/test_clipped_losses.py.

    Args:
        clip_low: width of the clip below ratio 1, at least 0. Preset ``loop`` clips between 1 / 1.1
            and 1.1: equal widths in the logarithm.
        clip_high: width of the clip above ratio 1, at least 0. A value above ``clip_low`` is
            DAPO's clip-higher (preset ``dapo``: 0.28).
        dual_clip: bound c on the loss of a token with a negative advantage, above 1 (preset
            ``dual_clip``: 3). null (default): no bound.

    Raises:
        ConfigError: a clip width is negative, or dual_clip is not above 1.
    """
    if clip_low < 0 or clip_high < 0 or (dual_clip is not None and dual_clip <= 1):
        raise ConfigError(
            f"ppo_clip: clip_low={clip_low}, clip_high={clip_high} must be >= 0 and "
            f"dual_clip={dual_clip} > 1 or null."
        )
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio, advantages = log_of_ratio.exp(), batch.advantages
    loss, is_clipped = clip_loss(ratio, advantages, clip_low, clip_high)
    if dual_clip is not None:
        loss, is_dual_clipped = apply_dual_clip(loss, advantages, dual_clip)
        is_clipped = is_clipped | is_dual_clipped
    clip_fraction = is_clipped.detach().float().mean()
    metrics = {**ratio_metrics(ratio, log_of_ratio), "clip_fraction": clip_fraction}
    return LossTerm(values=loss, weighted=True, metrics=metrics)
