"""What losses share that look at a whole minibatch.

Scores, shares of tokens, pairs of trajectories.

Legend: M sampled tokens of a forward pass; M' of the whole minibatch; G its trajectories; P pairs
of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from sparring.methods.losses.base import LossBatch, Whole

Pairs = Literal["best_worst", "all"]


def whole_of(batch: LossBatch) -> tuple[Whole, Tensor]:
    """Return the whole minibatch and where this forward pass's tokens are in it, [M]."""
    assert batch.whole is not None and batch.index is not None, (
        'a loss that reads batch.whole declares NEEDS = {"whole"}'
    )
    return batch.whole, batch.index


def covariance(whole: Whole) -> Tensor:
    """Return (A - mean A)(log pi - mean log pi) of every token of the minibatch, [M']."""
    return (whole.advantages - whole.advantages.mean()) * (whole.logprobs - whole.logprobs.mean())


def standardised(values: Tensor) -> Tensor:
    """Return values less their mean, over their standard deviation; 0 where they are all equal."""
    centred = values - values.mean()
    deviation = centred.square().mean().sqrt()
    return (
        centred / deviation
        if deviation > 1e-12 * (1.0 + values.abs().max())
        else torch.zeros_like(values)
    )


def group_mean(values: Tensor, whole: Whole) -> Tensor:
    """Return the mean over each trajectory's group, laid out over the trajectories, [G]."""
    _, group, counts = torch.unique(whole.group, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), dtype=values.dtype, device=values.device).index_add(
        0, group, values
    )
    mean: Tensor = (sums / counts)[group]
    return mean


def trajectory_sums(values: Tensor, whole: Whole) -> Tensor:
    """Return the sum of a number per token over each trajectory, [M'] -> [G]."""
    return torch.zeros(len(whole.outcome), dtype=values.dtype, device=values.device).index_add(
        0, whole.trajectory, values
    )


def preference_pairs(whole: Whole, which: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Return pairs of trajectories of one group with different outcomes; see ``pairs_within``."""
    return pairs_within(whole.group, whole.outcome, which)


def pairs_within(
    group: Tensor, value: Tensor, which: Pairs, *, ties: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return pairs of rows of one group that differ in value.

    The better, the worse, and weights of sum 1, [P] each.

    "all": every such pair, all of one weight. "best_worst": those of a best with a worst row; every
    group that has them weighs the same, so that ties for best or worst count once in sum.

    Args:
        group: int64 [G], of each row.
        value: [G].
        which: see above.
        ties: have pairs of equal value too, the first row as the worse.
    """
    order = torch.argsort(group, stable=True)
    _, number, counts = torch.unique(group, return_inverse=True, return_counts=True)
    first, second = [], []
    for shift in range(1, int(counts.max()) if len(counts) else 0):
        same = number[order[:-shift]] == number[order[shift:]]
        first.append(order[:-shift][same])
        second.append(order[shift:][same])
    a, b = (torch.cat(rows) if rows else order[:0] for rows in (first, second))
    a_wins = value[a] > value[b]
    kept = torch.ones_like(a_wins) if ties else value[a] != value[b]
    better, worse = torch.where(a_wins, a, b)[kept], torch.where(a_wins, b, a)[kept]
    weight = torch.ones_like(value[better])
    if which == "best_worst":
        empty = value.new_zeros(len(counts))
        best = empty.scatter_reduce(0, number, value, "amax", include_self=False)
        worst = empty.scatter_reduce(0, number, value, "amin", include_self=False)
        extreme = (value[better] == best[number[better]]) & (value[worse] == worst[number[worse]])
        better, worse = better[extreme], worse[extreme]
        shared = torch.bincount(number[better], minlength=len(counts))[number[better]]
        weight = 1.0 / shared.to(value.dtype)
    return better, worse, weight / weight.sum() if len(weight) else weight


def pair_metrics(
    margins: Tensor, weight: Tensor, apart: Tensor | None = None
) -> dict[str, Tensor | float]:
    """Return the figures of preferences: pairs, accuracy and margin.

    Args:
        margins: by how much the better is ahead of the worse, [P].
        weight: of the pairs, [P].
        apart: which pairs have a better one, [P]: accuracy is of these alone. None: all.
    """
    told = weight if apart is None else weight * apart
    return {
        "pairs": float(len(weight)),
        "accuracy": (told * (margins > 0)).sum() / told.sum().clamp(min=1e-12),
        "margin": (weight * margins).sum(),
    }


def turns_of(whole: Whole) -> tuple[Tensor, Tensor, Tensor]:
    """Return the turns of a minibatch: replies to prompts, T of them.

    The turn of each token [M'], and of each turn its prompt and the mean of its advantages, [T].
    """
    assert whole.prompt is not None, "the learner numbers the prompts"
    pairs = torch.stack((whole.trajectory, whole.turn_index), dim=1)
    _, turn, counts = torch.unique(pairs, dim=0, return_inverse=True, return_counts=True)
    prompt = torch.zeros_like(counts).scatter_(0, turn, whole.prompt)
    sums = whole.advantages.new_zeros(len(counts)).index_add(0, turn, whole.advantages)
    return turn, prompt, sums / counts


def through_tokens(batch: LossBatch, loss_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return losses [M] of level "sum" that stand for a loss of the whole minibatch.

    Over all forward passes their value and gradient are that loss's.

    Args:
        batch: of this forward pass.
        loss_of: log-probabilities [M'] now -> scalar. It is differentiated here; each token then
            carries its share of the gradient, and an equal share of the value.
    """
    whole, index = whole_of(batch)
    with torch.enable_grad():
        free = whole.logprobs.detach().requires_grad_(True)
        loss = loss_of(free) + 0.0 * free.sum()
        (gradient,) = torch.autograd.grad(loss, free)
    return gradient[index] * (batch.logprobs - batch.logprobs.detach()) + loss.detach() / len(free)
