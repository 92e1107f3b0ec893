"""Loss: direct preference optimisation over many turns, normalised for their number."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from sparring.methods.losses.base import LossBatch, LossTerm, WholeMinibatch
from sparring.methods.losses.minibatch import (
    Pairs,
    pair_metrics,
    preference_pairs,
    token_losses,
    trajectory_sums,
    whole_minibatch,
)

NEEDS = {"whole", "reference_logprobs"}
PRESETS = {"dmpo": {"discount": 0.9, "length_normalised": False}}


def trajectory_dpo(
    batch: LossBatch,
    *,
    beta: Annotated[float, Field(gt=0)] = 0.1,
    pairs: Pairs = "best_worst",
    length_normalised: bool = True,
    discount: Annotated[float, Field(gt=0, le=1)] | None = None,
) -> LossTerm:
    """Prefer the better of two episodes of a group, without an effect of their lengths.

    What: ``dpo`` with sums over trajectories that are comparable between short and long episodes.
    When to use: environments in which the players decide the number of turns.
    Mathematics:
        S = sum over the trajectory's tokens of phi (log pi - log pi_ref)
        L = -log sigmoid(beta (S_better - S_worse))
    S is divided by the number of the trajectory's tokens if ``length_normalised``. For turn t = 0
    .. T-1 of T
        phi = discount^t (1 - discount^(T-t)) / (1 - discount^T)
        phi = (T - t) / T    for discount 1
        phi = 1              without discount
    The loss is the weighted mean of L over the pairs.
    Shapes: [M'] -> one number, shared out over tokens: [M], summed.
    Pitfalls:
        - A mean per token needs a larger ``beta`` than a sum.
        - T does not count last turns that have no tokens in the minibatch.
        - Groups of one episode and groups of equal outcomes contribute no pair.
        - With ``length_normalised`` false and no ``discount`` this is ``dpo``.
    Metrics: pairs, accuracy, margin as ``dpo``.
    Reference: Shi et al., 2024 (DMPO); Song et al., 2024 (ETO) for preferences over trajectories.
    The published discounts vary by task; we chose 0.9.
    Verified by: tests/methods/losses/test_preference_losses.py.

    Args:
        beta: factor of S_better - S_worse, above 0. With a larger beta the loss saturates nearer to
            the reference policy.
        pairs: the pairs of a group. "best_worst" (default): the best with the worst; each group has
            equal weight, which its tied pairs share. "all": every pair of different outcome, with
            equal weight.
        length_normalised: true (default): S is a mean per token. false: S is a sum.
        discount: base of DMPO's weights of turns, above 0 and at most 1; early turns count more.
            null (default): all turns count equally. Preset ``dmpo`` has 0.9, with sums.
    """
    minibatch, _ = whole_minibatch(batch)
    reference = minibatch.reference_logprobs
    assert reference is not None
    better, worse, weight = preference_pairs(minibatch, pairs)
    factor = _factors(minibatch, length_normalised, discount)

    def margins(logprobs: Tensor) -> Tensor:
        sums = trajectory_sums(factor * (logprobs - reference), minibatch)
        return beta * (sums[better] - sums[worse])

    metrics = pair_metrics(margins(minibatch.logprobs), weight)
    values = token_losses(batch, lambda logprobs: -(weight * logsigmoid(margins(logprobs))).sum())
    return LossTerm(values=values, level="sum", metrics=metrics)


def _factors(minibatch: WholeMinibatch, length_normalised: bool, discount: float | None) -> Tensor:
    """Return the factor of each token's log-ratio, [M']."""
    factor = torch.ones_like(minibatch.logprobs)
    if length_normalised:
        factor = factor / trajectory_sums(factor, minibatch)[minibatch.trajectory]
    if discount is None:
        return factor
    num_turns = torch.zeros_like(minibatch.group).scatter_reduce(
        0, minibatch.trajectory, minibatch.turn_index + 1, "amax"
    )[minibatch.trajectory]
    remaining = num_turns - minibatch.turn_index
    if discount == 1.0:
        return factor * remaining / num_turns
    base = torch.full_like(factor, discount)
    return factor * base**minibatch.turn_index * (1.0 - base**remaining) / (1.0 - base**num_turns)
