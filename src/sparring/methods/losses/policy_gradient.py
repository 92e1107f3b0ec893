"""Loss: the plain policy gradient."""

from __future__ import annotations

from sparring.methods.losses.base import LossBatch, LossTerm


def policy_gradient(batch: LossBatch) -> LossTerm:
    """Raise the log-probability of each sampled token in proportion to its advantage.

    What: REINFORCE's surrogate, without ratio or clipping.
    When to use: strictly on-policy, one update per step.
    Mathematics:
        L_t = -A_t log pi(a_t | s_t)
    Shapes: [M] -> [M].
    Pitfalls: a second update on the same data is off-policy; use ``ppo_clip`` there.
    Reference: Williams, 1992.
    Verified by: tests/methods/losses/test_policy_losses.py.
    """
    return LossTerm(values=-batch.advantages * batch.logprobs, weighted=True)
