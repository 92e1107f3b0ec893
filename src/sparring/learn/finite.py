"""Nothing that is not finite reaches the weights or a checkpoint: what is checked, and what is said
of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.core.errors import DivergedError
from sparring.core.records import FloatArray
from sparring.learn.targets import WeightedLoss
from sparring.methods.losses.base import LossBatch
from sparring.models.language_model import LanguageModel
from sparring.models.prefixes import prefix_tree

PROBE = 4  # tokens of the conversation that is read before weights are saved


def finite_loss(
    loss: Tensor, batch: LossBatch, losses: Sequence[WeightedLoss], progress: float
) -> float:
    """Return the value of a minibatch's loss.

    Raises:
        DivergedError: it is not finite; the message says which term, or which of its inputs, is to
            blame.
    """
    value = float(loss.detach())
    if not math.isfinite(value):
        raise DivergedError(f"The loss is {value}: {_blame(batch, losses, progress)}")
    return value


@torch.no_grad()
def _blame(batch: LossBatch, losses: Sequence[WeightedLoss], progress: float) -> str:
    """Return in words what made a loss infinite or no number."""
    if not batch.logprobs.isfinite().all():
        return "the model's own log-probabilities are not finite; lower learner.learning_rate."
    if not batch.sampler_logprobs.isfinite().all():
        return (
            "log-probabilities of the sampler are not finite, so an action of probability 0 was "
            "played."
        )
    if not batch.advantages.isfinite().all():
        return (
            "advantages are too large for the model's precision; mend the rewards or the "
            "estimator (credit)."
        )
    for number, loss in enumerate(losses):
        where = f"losses.{number} ({loss.bound.plugin.name!r})"
        if not math.isfinite(loss.weight(progress)):
            return f"the weight of {where} is {loss.weight(progress)}."
        if not loss.bound(batch, progress=progress).values.isfinite().all():
            return f"{where} gives what is not finite; its inputs are."
    return "its terms are finite and their weighted sum is not; lower the weights of losses."


def descend(model: LanguageModel, optimizer: torch.optim.Optimizer, limit: float) -> float:
    """Scale the gradient down to a norm of at most ``limit`` and update the weights.

    Return the norm it had.

    Raises:
        DivergedError: the gradient is not finite, and nothing was changed; or the weights no longer
            are.
    """
    rate = optimizer.param_groups[0]["lr"]
    norm = clip(model.parameters(), limit)
    if not math.isfinite(norm):
        raise DivergedError(
            f"The gradient's norm is {norm} though the loss is finite, at learning rate {rate:g}; "
            "no weight was changed."
        )
    optimizer.step()
    with torch.no_grad():
        size = float(
            _whole(torch.nn.utils.get_total_norm(model.parameters()))
        )  # the usual norm, as it is the cheapest look at them all
    if not math.isfinite(size):
        raise DivergedError(
            f"An update at learning rate {rate:g} made the norm of the weights {size}; lower "
            "learner.learning_rate."
        )
    return norm


def clip(parameters: Sequence[torch.nn.Parameter], limit: float) -> float:
    """Scale a gradient down to a norm of at most ``limit``; return the norm it had.

    Where weights are split among learners each gradient is brought together for its norm, one at a
    time, so that the norm has the bits that it has where they are not.
    """
    split: list[Any] = [p.grad for p in parameters if hasattr(p.grad, "full_tensor")]
    if not split:
        return float(torch.nn.utils.clip_grad_norm_(parameters, limit))
    norms = [torch.linalg.vector_norm(gradient.full_tensor()) for gradient in split]
    norm = torch.nn.utils.get_total_norm(norms)  # puts them in the same order, by their types
    parts = [torch.nn.Parameter(gradient.to_local()) for gradient in split]
    for part, gradient in zip(parts, split, strict=True):
        part.grad = gradient.to_local()
    torch.nn.utils.clip_grads_with_norm_(parts, limit, norm)
    return float(norm)


def _whole(norm: Tensor) -> Tensor:
    """Return a norm over all learners, where weights are split among them."""
    full: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return full


def finite(tensors: Mapping[str, Tensor], what: str) -> dict[str, Tensor]:
    """Return tensors that are to be saved.

    Raises:
        DivergedError: one of them is not finite.
    """
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise DivergedError(
                f"{what} {name} is not finite and is not saved; lower learner.learning_rate."
            )
    return dict(tensors)


def finite_columns(columns: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return what models say of turns or tokens.

    Raises:
        DivergedError: something of it is not finite.
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
    """Check that a model that is to be saved still gives probabilities: weights may be finite and
    too large to be used.

    Raises:
        DivergedError: it does not.
    """
    tree = prefix_tree([tuple(range(min(PROBE, model.base.config.vocab_size)))]).to(model.device)
    if not model.logits(model.hidden(tree)).float().log_softmax(-1).isfinite().all():
        raise DivergedError(
            "The weights are so large that the model gives no probabilities; lower "
            "learner.learning_rate."
        )
