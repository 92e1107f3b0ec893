"""Loss: direct preference optimisation between episodes of one initial state."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from sparring.methods.losses.base import LossBatch, LossTerm
from sparring.methods.losses.minibatch import (
    Pairs,
    pair_metrics,
    preference_pairs,
    token_losses,
    trajectory_sums,
    whole_minibatch,
)

NEEDS = {"whole", "reference_logprobs"}


def dpo(
    batch: LossBatch,
    *,
    beta: Annotated[float, Field(gt=0)] = 0.1,
    pairs: Pairs = "best_worst",
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0,
) -> LossTerm:
    """Prefer the better of two episodes of a group, relative to a reference policy.

    What: preferences from the outcomes of episodes with the same initial state and role. The loss
    reads no advantages.
    When to use: outcomes that can be compared but not scaled; offline or replayed episodes.
    Mathematics:
        S = sum over a trajectory's tokens of log pi - log pi_ref
        L = -(1 - e) log sigmoid(beta (S_better - S_worse))
            - e log sigmoid(-beta (S_better - S_worse))
    with e = label_smoothing. The loss is the weighted mean of L over the pairs of the minibatch.
    Shapes: [M'] -> one number, shared out over tokens: [M], summed.
    Pitfalls:
        - Groups of one episode and groups of equal outcomes contribute no pair.
        - Minibatches keep the episodes of a group together.
        - The sums favour short episodes: see ``trajectory_dpo``.
        - Both episodes of a pair may become less likely.
    Metrics: pairs (their number), accuracy (weight of the pairs with S_better > S_worse), margin
    (mean beta (S_better - S_worse)).
    Reference: Rafailov et al., 2023; label smoothing: Mitchell, 2023.
    Verified by: tests/methods/losses/test_preference_losses.py.

    Args:
        beta: factor of S_better - S_worse, above 0. With a larger beta the loss saturates nearer to
            the reference policy.
        pairs: the pairs of a group. "best_worst" (default): the best with the worst; each group has
            equal weight, which its tied pairs share. "all": every pair of different outcome, with
            equal weight.
        label_smoothing: assumed probability that a preference is wrong, at least 0 and below 0.5. 0
            is plain DPO.
    """
    minibatch, _ = whole_minibatch(batch)
    reference = minibatch.reference_logprobs
    assert reference is not None
    better, worse, weight = preference_pairs(minibatch, pairs)

    def margins(logprobs: Tensor) -> Tensor:
        sums = trajectory_sums(logprobs - reference, minibatch)
        return beta * (sums[better] - sums[worse])

    def loss_of(logprobs: Tensor) -> Tensor:
        margin = margins(logprobs)
        losses = -(1.0 - label_smoothing) * logsigmoid(margin) - label_smoothing * logsigmoid(
            -margin
        )
        return (weight * losses).sum()

    metrics = pair_metrics(margins(minibatch.logprobs), weight)
    return LossTerm(values=token_losses(batch, loss_of), level="sum", metrics=metrics)
