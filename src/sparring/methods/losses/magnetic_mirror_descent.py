"""Loss: magnetic mirror descent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm, log_ratio, ratio_metrics

NEEDS = {"reference_logprobs"}
CORRECTS = True

Strength = Annotated[float, Field(ge=0)]


def magnetic_mirror_descent(
    batch: LossBatch, *, magnet: Strength = 0.05, proximity: Strength = 1.0
) -> LossTerm:
    """Improve the policy with divergences from a magnet and from the last policy, without a clip.

    What: the proximal step of a regularised game. The last iterate converges in two-player zero-sum
    games in which plain gradients cycle.
    When to use: self-play in games of hidden information. Lower ``magnet`` over training by a
    schedule to approach an equilibrium.
    Mathematics: maximise
        E[A] - magnet KL(pi || pi_ref) - proximity KL(pi || pi_old)
    with proximity = 1 / step size. On samples of pi_old, with rho = pi / pi_old, the loss is
        L_t = -rho A + magnet (rho log(pi / pi_ref) - rho + pi_ref / pi_old)
              + proximity (rho log rho - rho + 1)
    Both estimates are unbiased, in value and gradient, and never negative.
    Shapes: [M] -> [M].
    Pitfalls:
        - The reference is the initial policy; the published magnets are uniform, or follow the
          policy slowly.
        - The guarantee is for exact action values.
        - At the first update of a step only the magnet acts; proximity acts from the second on.
        - With ``magnet`` and ``proximity`` 0 the loss is the unclipped surrogate.
    Metrics: as ``ppo_clip`` without clip_fraction, and magnet_kl, old_kl (estimates, nats).
    Reference: Sokota et al., 2023 (a unified approach to RL, quantal response equilibria and
    two-player zero-sum games).
    Verified by: tests/methods/losses/test_policy_losses.py.

    Args:
        magnet: weight of the divergence from the reference policy, at least 0. For a uniform magnet
            set it to 0 and add ``entropy_bonus`` with that weight: the two differ by a constant.
        proximity: weight of the divergence from the policy before the step, at least 0.
    """
    assert batch.reference_logprobs is not None
    log_of_ratio = log_ratio(batch.logprobs, batch.old_logprobs)
    ratio = log_of_ratio.exp()
    magnet_kl = ratio * log_ratio(batch.logprobs, batch.reference_logprobs) - ratio
    magnet_kl = magnet_kl + log_ratio(batch.reference_logprobs, batch.old_logprobs).exp()
    old_kl = ratio * log_of_ratio - ratio + 1.0
    metrics = {
        **ratio_metrics(ratio, log_of_ratio),
        "magnet_kl": magnet_kl.detach().mean(),
        "old_kl": old_kl.detach().mean(),
    }
    return LossTerm(
        values=-ratio * batch.advantages + magnet * magnet_kl + proximity * old_kl,
        weighted=True,
        metrics=metrics,
    )
