"""Loss: direct preference optimisation over many turns, freed of their number."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from sparring.losses.base import LossBatch, LossTerm, Whole
from sparring.losses.minibatch import Pairs, preference_pairs, through_tokens, trajectory_sums, whole_of

NEEDS = {"whole", "reference_logprobs"}
PRESETS = {
    "dmpo": {"discount": 0.9, "length_normalised": False},
}


def trajectory_dpo(
    batch: LossBatch,
    *,
    beta: Annotated[float, Field(gt=0)] = 0.1,
    pairs: Pairs = "best_worst",
    length_normalised: bool = True,
    discount: Annotated[float, Field(gt=0, le=1)] | None = None,
) -> LossTerm:
    """Prefer the better game of a group per turn or token, not by its length.

    What: ``dpo`` whose sums over trajectories are made comparable between short and long games.
    When to use: games whose number of turns the players decide.
    Mathematics: S = sum over the trajectory's tokens of phi (log pi - log pi_ref), divided by the number of its tokens if
    ``length_normalised``; phi = discount^t (1 - discount^(T-t)) / (1 - discount^T) for turn t = 0 .. T-1 of T, and (T - t) / T for
    discount 1, and 1 without discount; L = -log sigmoid(beta (S_better - S_worse)), weighted mean over the pairs.
    Shapes: [M'] -> one number, shared out over tokens: [M], summed.
    Options: ``length_normalised`` false without ``discount`` is ``dpo``. ``discount``: DMPO's weights of turns, early ones more
    (preset ``dmpo``: 0.9, by sums). ``pairs`` as in ``dpo``.
    Pitfalls: a mean per token needs a larger ``beta`` than a sum does. Turns without tokens in the minibatch are not counted in T
    if they are the last. Groups of one or of equal outcomes give nothing.
    Metrics: pairs, accuracy, margin as ``dpo``.
    Reference: Shi et al., 2024 (DMPO); Song et al., 2024 (ETO) for preferences over trajectories. The published discounts vary
    by task; 0.9 is ours.
    Verified by: tests/losses/test_trajectory_dpo.py.
    """
    whole, _ = whole_of(batch)
    reference = whole.reference_logprobs
    assert reference is not None
    better, worse, weight = preference_pairs(whole, pairs)
    factor = _factors(whole, length_normalised, discount)

    def margins(logprobs: Tensor) -> Tensor:
        """Return beta (S_better - S_worse) of every pair."""
        gain = trajectory_sums(factor * (logprobs - reference), whole)
        return beta * (gain[better] - gain[worse])

    now = margins(whole.logprobs)
    metrics: dict[str, Tensor | float] = {
        "pairs": float(len(weight)),
        "accuracy": (weight * (now > 0)).sum(),
        "margin": (weight * now).sum(),
    }
    values = through_tokens(batch, lambda logprobs: -(weight * logsigmoid(margins(logprobs))).sum())
    return LossTerm(values=values, level="sum", metrics=metrics)


def _factors(whole: Whole, length_normalised: bool, discount: float | None) -> Tensor:
    """Return what each token's log-ratio counts, [M']."""
    factor = torch.ones_like(whole.logprobs)
    if length_normalised:
        factor = factor / trajectory_sums(factor, whole)[whole.trajectory]
    if discount is None:
        return factor
    turns = torch.zeros_like(whole.group).scatter_reduce(0, whole.trajectory, whole.turn_index + 1, "amax")[whole.trajectory]
    left = turns - whole.turn_index
    if discount == 1.0:
        return factor * left / turns
    powers = torch.full_like(factor, discount)
    return factor * powers**whole.turn_index * (1.0 - powers**left) / (1.0 - powers**turns)
