"""Functions for losses over a whole minibatch: scores of tokens, and pairs of trajectories.

Legend: M sampled tokens of a forward pass; M' sampled tokens of the whole minibatch; G trajectories
and T turns of the minibatch; P pairs of trajectories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from sparring.methods.losses.base import LossBatch, WholeMinibatch

Pairs = Literal["best_worst", "all"]


def whole_minibatch(batch: LossBatch) -> tuple[WholeMinibatch, Tensor]:
    """Return (whole minibatch, index in it of each token of this forward pass, [M])."""
    assert batch.whole is not None and batch.index is not None, (
        'a loss that reads batch.whole must declare NEEDS = {"whole"}'
    )
    return batch.whole, batch.index


def covariance_terms(minibatch: WholeMinibatch) -> Tensor:
    """Return (A - mean A)(log pi - mean log pi) of every token of the minibatch, [M']."""
    advantages, logprobs = minibatch.advantages, minibatch.logprobs
    return (advantages - advantages.mean()) * (logprobs - logprobs.mean())


def standardise(values: Tensor) -> Tensor:
    """Return values less their mean, over their standard deviation; 0 if all are equal."""
    centred = values - values.mean()
    deviation = centred.square().mean().sqrt()
    if deviation > 1e-12 * (1.0 + values.abs().max()):
        return centred / deviation
    return torch.zeros_like(values)


def group_mean(values: Tensor, minibatch: WholeMinibatch) -> Tensor:
    """Return the mean over each trajectory's group, broadcast to the trajectories, [G]."""
    _, group, counts = torch.unique(minibatch.group, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), dtype=values.dtype, device=values.device).index_add(
        0, group, values
    )
    mean: Tensor = (sums / counts)[group]
    return mean


def trajectory_sums(values: Tensor, minibatch: WholeMinibatch) -> Tensor:
    """Return the sum of a number per token over each trajectory, [M'] -> [G]."""
    return torch.zeros(len(minibatch.outcome), dtype=values.dtype, device=values.device).index_add(
        0, minibatch.trajectory, values
    )


def preference_pairs(minibatch: WholeMinibatch, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Return pairs of trajectories of one group with different outcomes; see ``pairs_within``."""
    return pairs_within(minibatch.group, minibatch.outcome, pairs)


def pairs_within(
    group: Tensor, value: Tensor, pairs: Pairs, *, ties: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return pairs of rows of one group that differ in value.

    Args:
        group: group of each row, int64 [G].
        value: value of each row, [G].
        pairs: "all": every such pair, with equal weight. "best_worst": pairs of a best with a worst
            row, with equal weight per group; ties for best or worst share the group's weight.
        ties: whether to include pairs of equal value, with the first row as the worse.

    Returns:
        (better rows, worse rows, weights of sum 1), [P] each.
    """
    order = torch.argsort(group, stable=True)
    _, group_of, counts = torch.unique(group, return_inverse=True, return_counts=True)
    first_rows, second_rows = [], []
    for shift in range(1, int(counts.max()) if len(counts) else 0):
        is_same_group = group_of[order[:-shift]] == group_of[order[shift:]]
        first_rows.append(order[:-shift][is_same_group])
        second_rows.append(order[shift:][is_same_group])
    a, b = (torch.cat(rows) if rows else order[:0] for rows in (first_rows, second_rows))
    is_a_better = value[a] > value[b]
    is_pair = torch.ones_like(is_a_better) if ties else value[a] != value[b]
    better, worse = torch.where(is_a_better, a, b)[is_pair], torch.where(is_a_better, b, a)[is_pair]
    weight = torch.ones_like(value[better])
    if pairs == "best_worst":
        zeros = value.new_zeros(len(counts))
        best = zeros.scatter_reduce(0, group_of, value, "amax", include_self=False)
        worst = zeros.scatter_reduce(0, group_of, value, "amin", include_self=False)
        is_best, is_worst = value == best[group_of], value == worst[group_of]
        is_extreme = is_best[better] & is_worst[worse]
        better, worse = better[is_extreme], worse[is_extreme]
        num_pairs = torch.bincount(group_of[better], minlength=len(counts))
        weight = 1.0 / num_pairs[group_of[better]].to(value.dtype)
    return better, worse, weight / weight.sum() if len(weight) else weight


def pair_metrics(
    margins: Tensor, weight: Tensor, has_different_values: Tensor | None = None
) -> dict[str, Tensor | float]:
    """Return the metrics of preferences: pairs, accuracy and margin.

    Args:
        margins: margin of the better over the worse, [P].
        weight: weight of each pair, [P].
        has_different_values: mask of the pairs that count in accuracy, [P]; None: all.
    """
    counted_weight = weight if has_different_values is None else weight * has_different_values
    return {
        "pairs": float(len(weight)),
        "accuracy": (counted_weight * (margins > 0)).sum() / counted_weight.sum().clamp(min=1e-12),
        "margin": (weight * margins).sum(),
    }


def turns_of(minibatch: WholeMinibatch) -> tuple[Tensor, Tensor, Tensor]:
    """Return (turn of each token [M'], prompt of each turn [T], its mean advantage [T])."""
    assert minibatch.prompt is not None, "the learner must set minibatch.prompt"
    turn_keys = torch.stack((minibatch.trajectory, minibatch.turn_index), dim=1)
    _, turn, counts = torch.unique(turn_keys, dim=0, return_inverse=True, return_counts=True)
    prompt = torch.zeros_like(counts).scatter_(0, turn, minibatch.prompt)
    sums = minibatch.advantages.new_zeros(len(counts)).index_add(0, turn, minibatch.advantages)
    return turn, prompt, sums / counts


def token_losses(batch: LossBatch, loss_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a loss of the whole minibatch as losses [M] of level "sum".

    The sum over all forward passes has the value and the gradient of the loss. Each token has its
    share of the gradient, and an equal share of the value.

    Args:
        batch: the tokens of this forward pass.
        loss_of: current log-probabilities [M'] -> scalar; differentiated here.
    """
    minibatch, index = whole_minibatch(batch)
    with torch.enable_grad():
        logprobs = minibatch.logprobs.detach().requires_grad_(True)
        # the added 0 gives a gradient to a loss that does not depend on logprobs
        loss = loss_of(logprobs) + 0.0 * logprobs.sum()
        (gradient,) = torch.autograd.grad(loss, logprobs)
    share = loss.detach() / len(logprobs)
    return gradient[index] * (batch.logprobs - batch.logprobs.detach()) + share
