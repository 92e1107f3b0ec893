"""Loss: Kahneman-Tversky optimisation, good and bad episodes without pairs."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from sparring.methods.losses.base import LossBatch, LossTerm
from sparring.methods.losses.minibatch import (
    group_mean,
    token_losses,
    trajectory_sums,
    whole_minibatch,
)

NEEDS = {"whole", "reference_logprobs"}

Weight = Annotated[float, Field(ge=0)]


def kto(
    batch: LossBatch,
    *,
    beta: Annotated[float, Field(gt=0)] = 0.1,
    desirable: Literal["above_group_mean", "positive"] = "above_group_mean",
    desirable_weight: Weight = 1.0,
    undesirable_weight: Weight = 1.0,
) -> LossTerm:
    """Make good episodes more likely and bad ones less likely, relative to the policy's mean drift.

    What: every episode counts alone, through a sigmoid that saturates for large gains and losses.
    The loss reads no pairs and no advantages.
    When to use: if outcomes are only good or bad, if groups have no pairs, or if one kind of
    outcome is much more frequent than the other.
    Mathematics:
        S = sum over a trajectory's tokens of log pi - log pi_ref
        z = max(0, mean of S over the minibatch), without gradient
        L = weight (1 - sigmoid(beta (S - z)))    for good trajectories
        L = weight (1 - sigmoid(beta (z - S)))    for bad trajectories
    The loss is the mean over both kinds.
    Shapes: [M'] -> one number, shared out over tokens: [M], summed.
    Pitfalls: the paper estimates z from mismatched prompts and replies; here z is the mean over
    the episodes themselves, which are the policy's own samples. Long episodes saturate the sigmoid,
    because beta multiplies a sum of many log-ratios.
    Metrics: desirable_fraction (of the trajectories that count), baseline (z, nats), margin (mean S
    of good less mean S of bad).
    Reference: Ethayarajh et al., 2024.
    Verified by: tests/methods/losses/test_preference_losses.py.

    Args:
        beta: factor of S - z in the sigmoid, above 0. A larger beta saturates the loss sooner.
        desirable: threshold on the return. "above_group_mean" (default): the mean of the group.
            "positive": 0. Trajectories above are good, those below are bad, ties do not count.
        desirable_weight: weight of good trajectories, at least 0; the two weights balance both.
        undesirable_weight: weight of bad trajectories, at least 0.
    """
    minibatch, _ = whole_minibatch(batch)
    reference = minibatch.reference_logprobs
    assert reference is not None
    threshold = torch.zeros_like(minibatch.outcome)
    if desirable == "above_group_mean":
        threshold = group_mean(minibatch.outcome, minibatch)
    # the mean of equal outcomes may differ from these outcomes by rounding
    tolerance = 1e-9 * (1.0 + minibatch.outcome.abs().max())
    is_desirable = minibatch.outcome > threshold + tolerance
    is_undesirable = minibatch.outcome < threshold - tolerance
    weight = desirable_weight * is_desirable + undesirable_weight * is_undesirable
    num_counted = (is_desirable | is_undesirable).sum().clamp(min=1)
    current_sums = trajectory_sums(minibatch.logprobs - reference, minibatch)
    baseline = current_sums.mean().clamp(min=0.0)

    def loss_of(logprobs: Tensor) -> Tensor:
        sums = trajectory_sums(logprobs - reference, minibatch)
        distance = torch.where(is_desirable, sums - baseline, baseline - sums)
        return (weight * torch.sigmoid(-beta * distance)).sum() / num_counted

    masks = is_desirable, is_undesirable
    means = [(current_sums * mask).sum() / mask.sum().clamp(min=1) for mask in masks]
    metrics: dict[str, Tensor | float] = {
        "desirable_fraction": is_desirable.sum() / num_counted,
        "baseline": baseline,
        "margin": means[0] - means[1],
    }
    return LossTerm(values=token_losses(batch, loss_of), level="sum", metrics=metrics)
