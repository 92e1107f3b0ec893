"""Loss: divergence from uniform play over the legal replies."""

from __future__ import annotations

from typing import Literal

from sparring.methods.losses.base import LossBatch, LossTerm

NEEDS = {"legal_replies"}


def legal_magnet(
    batch: LossBatch, *, divergence: Literal["forward", "reverse"] = "forward"
) -> LossTerm:
    """Penalise the divergence of the policy from a uniform legal reply, at each sampled token.

    What: a pull towards a mixed strategy of legal replies. The gradient does not vanish.
    When to use: in self-play in place of ``entropy_bonus``, with an annealed weight. An entropy
    bonus over the whole vocabulary pays for illegal replies. The gradients of the bonus and of the
    return go to 0 with the probability of an action, so the policy cannot relearn that action. This
    loss lets the policy relearn the action.
    Mathematics: u is the next token of a uniformly drawn legal reply, given the tokens of the reply
    so far.

        forward:  L_t = KL(u || pi)    = sum over v of u_v (log u_v - log pi_v)
        reverse:  L_t = KL(pi_L || u)  = sum over v of pi_L,v (log pi_L,v - log u_v)

    pi_L is pi renormalised over the tokens with u_v > 0. On logits z the forward gradient is

        dL_t / dz_v = pi_v - u_v

    which is -u_v where pi_v = 0. The reverse gradient is that of minus the entropy among legal
    replies; it goes to 0 with pi_v. If one of two actions is better by D, the forward form keeps
    the worse action at a probability of about weight / (2 D).
    Shapes: [M] -> [M].
    Pitfalls:
        - Requires a finite list of legal actions and replies without thoughts.
        - The loss is 0 where the tokens so far are not the beginning of a legal reply.
        - With top-p or top-k the loss uses the whole distribution, before truncation.
        - While the weight is above 0, the equilibrium of the regularised game differs from the
          game's: in Kuhn poker the forward form with weight 0.1, 0.05 and 0.02 has NashConv 0.076,
          0.041 and 0.018, the reverse form with 0.1 has 0.038.
    Metrics: divergence (mean, nats).
    Reference: Sokota et al., 2023 (magnets); the forward form is the log barrier of Wei and Luo,
    2018.
    Verified by: tests/methods/losses/test_penalties.py.

    Args:
        divergence: direction of the divergence. "forward" (default), KL(u || pi): every action
            stays possible. "reverse", KL(pi_L || u): an entropy bonus among legal replies.
    """
    values = batch.legal[divergence]
    return LossTerm(values=values, metrics={"divergence": values.detach().mean()})
