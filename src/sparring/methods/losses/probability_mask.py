"""Loss modifier: only uncertain tokens (SPO's probability mask)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm

TRAINS = False


def probability_mask(batch: LossBatch, *, below: Annotated[float, Field(gt=0)] = 0.9) -> LossTerm:
    """Train only tokens whose probability was below a threshold when they were sampled.

    What: factors 0 and 1 for every policy loss.
    When to use: with credit by segment, because segments end at such tokens. Certain tokens only
    dilute their advantage.
    Mathematics:
        w_t = 1 if pi_old(a_t) < below, else 0
    Shapes: [M] -> weights [M].
    Pitfalls: the ``weight`` of this entry in the recipe has no effect. The mean of the loss still
    counts the masked tokens. A fully certain policy is no longer trained.
    Metrics: kept_fraction.
    Reference: Guo et al., 2025 (SPO, segment policy optimisation).
    Verified by: tests/methods/losses/test_weights_of_losses.py.

    Args:
        below: probability from which a token is masked, above 0. Default 0.9; a value above 1
            keeps all tokens.
    """
    mask = (batch.old_logprobs.exp() < below).to(batch.old_logprobs.dtype)
    return LossTerm(values=mask, level="weight", metrics={"kept_fraction": mask.mean()})
