"""Loss: squared error of the critic."""

from __future__ import annotations

from sparring.methods.losses.base import LossBatch, LossTerm

NEEDS = {"values"}
TRAINS = False


def value_loss(batch: LossBatch) -> LossTerm:
    """Train the critic by half the squared difference between its value and the target.

    What: fits the value head where the estimator reads it: before each turn (``gae``), after each
    turn (``spa``), or before each token (``bi_level_gae``).
    When to use: together with an estimator that has a critic, such as ``credit: gae``.
    Mathematics:
        L = (V(s) - target)^2 / 2
    averaged over turns, or over tokens for a critic per token.
    Shapes: [N'] -> [N'].
    Pitfalls: gradients reach the whole network. With a weight above 1 the critic's gradient can
    outweigh the policy's.
    Metrics: error (mean absolute), explained_variance (1 - var(target - V) / var(target)).
    Reference: Schulman et al., 2017.
    Verified by: tests/methods/losses/test_penalties.py.
    """
    assert batch.values is not None and batch.value_targets is not None
    difference = batch.values - batch.value_targets
    error, target = difference.detach(), batch.value_targets
    target_variance = target.var(unbiased=False).clamp(min=1e-12)
    metrics = {
        "error": error.abs().mean(),
        "explained_variance": 1.0 - error.var(unbiased=False) / target_variance,
    }
    return LossTerm(values=0.5 * difference.square(), level="turn", metrics=metrics)
