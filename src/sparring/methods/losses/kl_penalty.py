"""Loss: divergence from a reference policy."""

from __future__ import annotations

from typing import Literal

from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio

NEEDS = {"reference_logprobs"}


def kl_penalty(batch: LossBatch, *, estimator: Literal["k1", "k2", "k3"] = "k3") -> LossTerm:
    """Estimate the divergence from the reference policy at each sampled token.

    What: the reference is the run's initial policy, after its warm-up if there is one. The loss's
    weight is the penalty's coefficient.
    When to use: with a model that can already play or talk, to keep its abilities.
    Mathematics:
        d = log pi_ref - log pi
        k1 = -d
        k2 = d^2 / 2
        k3 = exp(d) - d - 1
    On samples of pi, k1 and the unclamped k3 estimate KL(pi || pi_ref) without bias.
    Shapes: [M] -> [M].
    Pitfalls:
        - As losses on samples of pi, the three have different gradients: k1 has mean 0 and only
          adds noise, k2 has the gradient of KL(pi || pi_ref), k3 that of KL(pi_ref || pi).
        - To first order in d the gradients of k2 and k3 are equal.
        - d is clamped to +-20 and k3 to +-10. Beyond these limits a token has no gradient. So k3
          does not pull back a token that is 14 times less likely under the policy than under the
          reference (d above 2.6), and the mean of k3 is then below the divergence.
    Metrics: kl (mean of the chosen estimate, nats).
    Reference: Schulman, 2020 (approximating KL divergence); verl's low-variance KL for the clamps.
    Verified by: tests/methods/losses/test_penalties.py.

    Args:
        estimator: which estimate is the loss: "k1", "k2" or "k3" (default). As a loss use "k2" or
            "k3": the gradient of "k1" is only noise.
    """
    assert batch.reference_logprobs is not None
    difference = log_ratio(batch.reference_logprobs, batch.logprobs)
    if estimator == "k1":
        values = -difference
    elif estimator == "k2":
        values = 0.5 * difference.square()
    else:
        values = (difference.exp() - difference - 1.0).clamp(-10.0, 10.0)
    return LossTerm(values=values, metrics={"kl": values.detach().mean()})
