"""Adds the gradients of a minibatch, makes the optimiser's step, and averages metrics.

Floating-point sums depend on their order. A minibatch is therefore split into ``learner.leaves``
leaves, groups of distinct sequences, and their gradients are added along a fixed binary tree:

    g = ((g[0] + g[1]) + (g[2] + g[3])) + ((g[4] + g[5]) + (g[6] + g[7]))

The sum is exactly the same on any number of ranks. With one leaf, nothing is split or added.
Numbers that are not finite never reach the weights or a checkpoint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sparring.core.errors import DivergedError
from sparring.core.records import FloatArray, IntArray
from sparring.learn.pack import Pack, WeightedLoss
from sparring.methods.losses.base import LOG_RATIO_LIMIT, LossBatch
from sparring.models.attention import prefix_tree, shared_lengths
from sparring.models.language_model import LanguageModel


class Means:
    """Weighted means of metrics over the parts of a step."""

    def __init__(self) -> None:
        self.parts: list[Means] = []  # ``result`` adds them up in this order
        self._sums: dict[str, float] = {}
        self._weights: dict[str, float] = {}
        self._maxima: dict[str, float] = {}
        self.log_ratios: list[FloatArray] = []  # absolute values, [M] in parts

    def add_part(self) -> Means:
        """Add a new part, which ``result`` includes, and return it."""
        self.parts.append(Means())
        return self.parts[-1]

    def add(self, values: Mapping[str, float], weight: float) -> None:
        """Add values of metrics, each with this weight."""
        for name, value in values.items():
            self.add_value(name, value, weight)

    def add_value(self, name: str, value: float, weight: float) -> None:
        """Add one value of a metric with this weight."""
        self._sums[name] = self._sums.get(name, 0.0) + value * weight
        self._weights[name] = self._weights.get(name, 0.0) + weight

    def update_maximum(self, name: str, value: float) -> None:
        """Update the maximum of a metric."""
        self._maxima[name] = max(value, self._maxima.get(name, value))

    def add_ratios(self, learner: Tensor, sampler: Tensor, share: float, *, is_first: bool) -> None:
        """Count the differences between log-probabilities of learner and sampler.

        Args:
            learner: log-probabilities by the learner, [M].
            sampler: log-probabilities by the sampler, [M].
            share: share of these tokens in the minibatch.
            is_first: whether learner and sampler have equal weights, as in the first update.
        """
        difference = (learner.detach() - sampler).abs()
        self.log_ratios.append(difference.double().cpu().numpy())
        if is_first:
            self.add_value("logprob_difference_mean", float(difference.mean()), share)
            self.update_maximum("logprob_difference_max", float(difference.max()))

    def mean(self, name: str) -> float:
        """Return the mean of a metric so far, without the parts."""
        return self._sums[name] / self._weights[name]

    def to_bytes(self) -> bytes:
        """Return these means without their parts, to send them to another process."""
        lengths = [len(ratios) for ratios in self.log_ratios]
        header = [self._sums, self._weights, self._maxima, lengths]
        arrays = (ratios.tobytes() for ratios in self.log_ratios)
        return json.dumps(header).encode() + b"\n" + b"".join(arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Means:
        """Return the means that ``to_bytes`` wrote."""
        header, _, payload = data.partition(b"\n")
        means = cls()
        means._sums, means._weights, means._maxima, lengths = json.loads(header)
        offset = 0
        for length in lengths:
            means.log_ratios.append(np.frombuffer(payload, np.float64, length, offset))
            offset += 8 * length
        return means

    def _add_parts(self) -> None:
        for part in self.parts:
            for name, total in part._sums.items():
                self._sums[name] = self._sums.get(name, 0.0) + total
                self._weights[name] = self._weights.get(name, 0.0) + part._weights[name]
            for name, value in part._maxima.items():
                self.update_maximum(name, value)
            self.log_ratios += part.log_ratios
        self.parts = []

    def result(self) -> dict[str, float]:
        """Return the means, the maxima and the tails of the ratios."""
        self._add_parts()
        tails = ratio_tails(np.concatenate(self.log_ratios)) if self.log_ratios else {}
        return {
            **{name: total / self._weights[name] for name, total in self._sums.items()},
            **self._maxima,
            **tails,
        }


def ratio_tails(log_ratios: FloatArray) -> dict[str, float]:
    """Return ``ratio_tail`` and ``ratio_p99`` of a non-empty array of absolute log-ratios, [M]."""
    percentile_99 = min(float(np.quantile(log_ratios, 0.99)), LOG_RATIO_LIMIT)
    return {
        "ratio_tail": float((log_ratios > math.log(2.0)).mean()),
        "ratio_p99": math.exp(percentile_99),
    }


class RankGroup(Protocol):
    """The learner processes (*ranks*) that share every minibatch, as one of them sees them."""

    @property
    def rank(self) -> int:
        """Index of this rank, from 0."""

    @property
    def num_ranks(self) -> int:
        """Number of ranks, a power of 2."""

    def sum_over_ranks(self, total: Tensor) -> Tensor:
        """Return the sum of all ranks' totals along the tree, given this rank's total."""

    def collect_means(self, means: Means) -> None:
        """Add the parts of the other ranks to this rank's means, in the order of the leaves."""


def split_into_leaves(data: Pack, sequences: IntArray, num_leaves: int) -> list[IntArray]:
    """Split the given sequences into leaves with about equal numbers of distinct prefixes.

    Sequences are sorted, so that equal sequences are in one leaf and similar sequences share
    prefixes. If there are fewer distinct sequences than leaves, some leaves are empty.

    Args:
        data: the pack.
        sequences: int64, indices of sequences of the pack.
        num_leaves: number of leaves.
    """
    if num_leaves == 1:
        return [sequences]
    rows = np.unique(data.distinct[sequences]).tolist()
    order = sorted(rows, key=data.sequences.__getitem__)
    ids = [data.sequences[row] for row in order]
    num_new = np.array([len(sequence) for sequence in ids]) - shared_lengths(ids)
    middle = np.cumsum(num_new) - num_new / 2  # index of the middle of each sequence's new prefixes
    leaf_of = np.full(len(data.sequences), -1)
    fraction = middle / max(num_new.sum(), 1)
    leaf_of[order] = np.minimum(fraction * num_leaves, num_leaves - 1).astype(np.int64)
    leaf_of_sequence = leaf_of[data.distinct[sequences]]
    return [sequences[leaf_of_sequence == leaf] for leaf in range(num_leaves)]


class GradientTree:
    """Adds the gradients of leaves; see the top of this file.

    Args:
        parameters: the trained parameters.
        count: number of leaves, a power of 2.
        ranks: the ranks that share the leaves; each has the same number of consecutive leaves.
            None: one learner has all leaves.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        count: int = 1,
        ranks: RankGroup | None = None,
    ) -> None:
        self.parameters, self.count, self.ranks = tuple(parameters), count, ranks
        rank, num_ranks = (0, 1) if ranks is None else (ranks.rank, ranks.num_ranks)
        num_leaves = count // num_ranks
        self.own_leaves = range(rank * num_leaves, (rank + 1) * num_leaves)
        # (number of leaves, sum) of subtrees, largest first
        self._sums: list[tuple[int, Tensor]] = []

    def leaves(self, data: Pack, sequences: IntArray) -> Iterator[IntArray]:
        """Yield the leaves of this rank, in order; see ``split_into_leaves``."""
        self._sums.clear()
        all_leaves = split_into_leaves(data, sequences, self.count)
        yield from (all_leaves[leaf] for leaf in self.own_leaves)

    def passes(self, data: Pack) -> int:
        """Return the number of passes of every rank for this leaf; 0: ranks may differ."""
        return 0

    def prepare_pass(self, *, last: bool) -> None:
        """Prepare the next pass; ``last``: whether it is the last pass of a leaf on all ranks."""

    def select_rows(self, data: Pack, sequences: IntArray) -> IntArray:
        """Return this rank's share of the given sequences for an update without leaves."""
        return sequences

    def add(self) -> None:
        """Move the gradients of the next leaf from the parameters into the sums."""
        if self.count == 1:
            return
        num_leaves, total = 1, self._take_gradients()
        while self._sums and self._sums[-1][0] == num_leaves:
            total = self._sums.pop()[1] + total
            num_leaves *= 2
        self._sums.append((num_leaves, total))

    def finish(self) -> None:
        """Set the minibatch's gradients; parameters without a gradient in any leaf get None."""
        if self.count == 1:
            return
        ((_, total),) = self._sums
        self._sums.clear()
        if self.ranks is not None:
            total = self.ranks.sum_over_ranks(total)
        sizes = [parameter.numel() for parameter in self.parameters]
        *parts, num_leaves = torch.split(total, [*sizes, len(sizes)])
        for parameter, part, count in zip(self.parameters, parts, num_leaves.tolist(), strict=True):
            gradient = part.view_as(parameter).to(parameter.dtype)
            parameter.grad = gradient if count else None

    def _take_gradients(self) -> Tensor:
        """Return a float32 vector of all gradients, then 1 or 0 per parameter: whether it has one.

        Afterwards the parameters have no gradients.
        """
        gradients = [
            torch.zeros(parameter.numel(), device=parameter.device)
            if parameter.grad is None
            else parameter.grad.reshape(-1).float()
            for parameter in self.parameters
        ]
        has_gradient = [float(parameter.grad is not None) for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return torch.cat([*gradients, torch.tensor(has_gradient, device=gradients[0].device)])


PROBE_TOKENS = 4  # length in tokens of the conversation that checks weights before they are saved


def finite_loss(
    loss: Tensor, batch: LossBatch, losses: Sequence[WeightedLoss], progress: float
) -> float:
    """Return the value of a minibatch's loss.

    Raises:
        DivergedError: the loss is not finite; the message names the term or input at fault.
    """
    value = float(loss.detach())
    if not math.isfinite(value):
        raise DivergedError(f"The loss is {value}: {_find_fault(batch, losses, progress)}")
    return value


@torch.no_grad()
def _find_fault(batch: LossBatch, losses: Sequence[WeightedLoss], progress: float) -> str:
    if not batch.logprobs.isfinite().all():
        return "the model's own log-probabilities are not finite; lower learner.learning_rate."
    if not batch.sampler_logprobs.isfinite().all():
        return (
            "log-probabilities of the sampler are not finite: it played an action of probability 0."
        )
    if not batch.advantages.isfinite().all():
        return (
            "advantages are too large for the model's precision; use smaller rewards, or another "
            "estimator (credit)."
        )
    for index, loss in enumerate(losses):
        key = f"losses.{index} ({loss.bound.plugin.name!r})"
        if not math.isfinite(loss.weight(progress)):
            return f"the weight of {key} is {loss.weight(progress)}."
        if not loss.bound(batch, progress=progress).values.isfinite().all():
            return f"{key} returns values that are not finite for finite inputs."
    return "its terms are finite but their weighted sum is not; lower the weights of losses."


def descend(model: LanguageModel, optimizer: torch.optim.Optimizer, limit: float) -> float:
    """Clip the gradient to a norm of at most ``limit``, and update the weights.

    Returns:
        The gradient's norm before clipping.

    Raises:
        DivergedError: the gradient is not finite, and no weight was changed; or the weights are not
            finite after the update.
    """
    rate = optimizer.param_groups[0]["lr"]
    norm = clip(model.parameters(), limit)
    if not math.isfinite(norm):
        raise DivergedError(
            f"The gradient's norm is {norm} although the loss is finite, at learning rate "
            f"{rate:g}; no weight was changed."
        )
    optimizer.step()
    with torch.no_grad():
        # computing the norm is the fastest check of all weights
        norm_after = float(_full_norm(torch.nn.utils.get_total_norm(model.parameters())))
    if not math.isfinite(norm_after):
        raise DivergedError(
            f"An update at learning rate {rate:g} made the norm of the weights {norm_after}; lower "
            "learner.learning_rate."
        )
    return norm


def clip(parameters: Sequence[torch.nn.Parameter], limit: float) -> float:
    """Scale a gradient down to a norm of at most ``limit``; return the norm before scaling.

    If weights are split among learners, the gradients are gathered one at a time for their norms,
    so that the norm is exactly the same as without splitting.
    """
    split_gradients: list[Any] = [p.grad for p in parameters if hasattr(p.grad, "full_tensor")]
    if not split_gradients:
        return float(torch.nn.utils.clip_grad_norm_(parameters, limit))
    norms = [torch.linalg.vector_norm(gradient.full_tensor()) for gradient in split_gradients]
    norm = torch.nn.utils.get_total_norm(norms)  # grouped by types, in the same order
    parts = [torch.nn.Parameter(gradient.to_local()) for gradient in split_gradients]
    for part, gradient in zip(parts, split_gradients, strict=True):
        part.grad = gradient.to_local()
    torch.nn.utils.clip_grads_with_norm_(parts, limit, norm)
    return float(norm)


def _full_norm(norm: Tensor) -> Tensor:
    full_norm: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return full_norm


def require_finite(tensors: Mapping[str, Tensor], subject: str) -> dict[str, Tensor]:
    """Return tensors unchanged if all numbers in them are finite, before they are saved.

    Raises:
        DivergedError: a tensor is not finite.
    """
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise DivergedError(
                f"{subject} {name} is not finite and is not saved; lower learner.learning_rate."
            )
    return dict(tensors)


def require_finite_columns(columns: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return columns of turns or tokens unchanged if all numbers in them are finite.

    Raises:
        DivergedError: a column is not finite.
    """
    for name, column in columns.items():
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            raise DivergedError(
                f"The model gives no finite {name}: its weights have grown too large; lower "
                "learner.learning_rate."
            )
    return dict(columns)


@torch.no_grad()
def check_output(model: LanguageModel) -> None:
    """Check that a model still gives probabilities; finite weights may be too large for that.

    Raises:
        DivergedError: the model gives no probabilities.
    """
    tree = prefix_tree([tuple(range(min(PROBE_TOKENS, model.base.config.vocab_size)))]).to(
        model.device
    )
    if not model.logits(model.hidden(tree)).float().log_softmax(-1).isfinite().all():
        raise DivergedError(
            "The weights are so large that the model gives no probabilities; lower "
            "learner.learning_rate."
        )
