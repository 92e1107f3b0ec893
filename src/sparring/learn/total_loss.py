"""The loss terms of a run as one number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparring.config.learning import UpdateConfig
from sparring.learn.targets import WeightedLoss
from sparring.losses.base import LossBatch
from sparring.losses.reduction import reduce


def total_loss(
    losses: Sequence[WeightedLoss],
    config: UpdateConfig,
    batch: LossBatch,
    progress: float,
    *,
    share: float,
    turn_share: float,
) -> tuple[Tensor, dict[str, float]]:
    """Return the weighted sum of the loss terms, reduced, and their metrics.

    Args:
        losses: the terms.
        config: how token losses become one number.
        batch: a slice of a minibatch.
        progress: share of the run that is done, in [0, 1]; resolves weights.
        share: of the minibatch's loss that the slice is.
        turn_share: of the minibatch's turns that it is.
    """
    terms = [(loss, loss.bound(batch, progress=progress)) for loss in losses]
    named = {
        f"{loss.bound.plugin.name}/{key}": float(value)
        for loss, term in terms
        for key, value in term.metrics.items()
    }
    factors = [term.values for _, term in terms if term.level == "weight"]
    total = torch.zeros((), dtype=batch.logprobs.dtype, device=batch.logprobs.device)
    for loss, term in terms:
        if term.level == "weight":
            continue
        values = term.values
        for factor in factors if term.weighted else ():
            values = values * factor
        reduced = (
            values.mean() * (turn_share / share)
            if term.level == "turn"
            else values.sum() / share
            if term.level == "sum"
            else reduce(
                values,
                batch.sequence,
                batch.num_sequences,
                config.reduction,
                config.reduction_constant,
                batch.sequence_weight,
            )
        )
        total = total + loss.weight(progress) * reduced
    return total, named
