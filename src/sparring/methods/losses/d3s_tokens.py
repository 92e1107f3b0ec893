"""Loss modifier: only the most informative tokens (D3S, token level)."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from sparring.methods.losses.base import LossBatch, LossTerm
from sparring.methods.losses.minibatch import whole_minibatch

NEEDS = {"whole", "entropy"}
TRAINS = False


def d3s_tokens(batch: LossBatch, *, keep: Annotated[float, Field(gt=0, le=1)] = 0.5) -> LossTerm:
    """Train only the share of tokens with the largest advantage times entropy.

    What: factors 0 and 1 for every policy loss.
    When to use: long replies in which most tokens are certain and teach nothing.
    Mathematics:
        score_t = |A_t| H_t
        w_t = 1 if score_t is among the ceil(keep M') largest of the minibatch, else 0
    Shapes: [M] -> weights [M].
    Pitfalls:
        - The ``weight`` of this entry in the recipe has no effect.
        - The mean of the loss still counts the masked tokens, so the step is smaller.
        - All tokens that tie with the threshold stay: if no token has an advantage, all stay.
        - This loss selects tokens only; the selection rule ``d3s_downsample`` selects episodes.
    Metrics: kept_fraction, score_mean (of the minibatch).
    Reference: D3S (notes).
    Verified by: tests/methods/losses/test_minibatch_losses.py.

    Args:
        keep: share of the minibatch's tokens that keep their policy loss, above 0 and at most 1; 1
            keeps all. A number or a schedule, linear over training in D3S. The default 0.5 is ours,
            because we do not know the paper's numbers.
    """
    minibatch, index = whole_minibatch(batch)
    assert minibatch.entropy is not None
    scores = minibatch.advantages.abs() * minibatch.entropy
    num_kept = min(math.ceil(keep * len(scores) - 1e-9), len(scores))
    mask = (scores >= scores.sort(descending=True).values[num_kept - 1])[index].to(scores.dtype)
    return LossTerm(
        values=mask,
        level="weight",
        metrics={"kept_fraction": mask.mean(), "score_mean": scores.mean()},
    )
