"""Loss modifier: truncated importance sampling for a sampler that is not the learner."""

from __future__ import annotations

from sparring.core.errors import ConfigError
from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio

NEEDS = {"old_logprobs"}
TRAINS = False
CORRECTS = True


def truncated_is(batch: LossBatch, *, cap: float = 2.0) -> LossTerm:
    """Weigh each token's policy loss by its probability ratio of learner to sampler, up to a cap.

    What: corrects for replies sampled by other kernels, other precision or stale weights.
    When to use: with an external engine or stale samples. With a sampler in the same process
    the weights are one, up to rounding.
    Mathematics:
        w_t = min(pi_old(a_t) / pi_sampler(a_t), cap)
    without gradient. w multiplies every policy loss.
    Shapes: [M] -> weights [M].
    Pitfalls: the ``weight`` of this entry in the recipe has no effect.
    Metrics: weight_mean, weight_max (raw, before the cap), capped_fraction.
    Reference: Ionides, 2008; as a token correction in verl and SkyRL (cap 2).
    Verified by: tests/methods/losses/test_weights_of_losses.py.

    Args:
        cap: largest weight of a token, above 0. A low cap biases the gradient towards the sampler.
            The default 2 is that of verl and SkyRL.

    Raises:
        ConfigError: cap is not positive.
    """
    if cap <= 0:
        raise ConfigError(f"truncated_is: cap={cap} must be positive; write cap: 2.0.")
    ratio = log_ratio(batch.old_logprobs, batch.sampler_logprobs).detach().exp()
    metrics = {
        "weight_mean": ratio.mean(),
        "weight_max": ratio.max(),
        "capped_fraction": (ratio > cap).float().mean(),
    }
    return LossTerm(values=ratio.clamp(max=cap), level="weight", metrics=metrics)
