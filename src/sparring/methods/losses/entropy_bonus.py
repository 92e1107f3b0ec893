"""Loss: bonus on the entropy of the next-token distribution."""

from __future__ import annotations

from sparring.methods.losses.base import LossBatch, LossTerm

NEEDS = {"entropy"}


def entropy_bonus(batch: LossBatch) -> LossTerm:
    """Compute minus the entropy of the distribution at each sampled token; the weight is the bonus.

    What: pulls the policy towards the uniform one. In games this favours mixed strategies.
    When to use: in self-play almost always, with an annealed weight. Without a bonus the policy
    narrows and oscillates.
    Mathematics:
        L_t = -H(pi(. | s_t)) = sum over v of pi_v log pi_v
    Shapes: [M] -> [M].
    Pitfalls: the entropy is over the whole vocabulary, so a large weight also rewards illegal
    replies. While the weight is above 0, the equilibrium of the regularised game differs from the
    game's.
    Metrics: entropy (mean, nats).
    Reference: Williams and Peng, 1991; as a magnet: Sokota et al., 2023.
    Verified by: tests/methods/losses/test_penalties.py.
    """
    assert batch.entropy is not None
    return LossTerm(values=-batch.entropy, metrics={"entropy": batch.entropy.detach().mean()})
