"""What a step trains towards, and a minibatch as losses see it that compare across it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sparring.config.plugins.registry import Bound
from sparring.core.records import FloatArray, IntArray, TurnTable
from sparring.core.schedule import Schedule
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.methods.losses.base import Whole


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedLoss:
    """A loss plug-in with the schedule of its weight in the sum."""

    bound: Bound
    weight: Schedule


@dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """What the tokens of a step are trained towards."""

    old: FloatArray  # [M] log-probabilities before the step
    advantages: FloatArray  # [M]
    value_targets: FloatArray | None  # [N]
    turns: (
        TurnTable | None
    )  # rows of the turns; for losses that NEED "whole" and for the reverse order
    uniform: FloatArray  # [M] or empty: numbers in [0, 1) for losses that NEED "whole"
    # [S] of a minibatch's sequences, with the reduction "agent_mean"; 0 for all others
    sequence_weight: FloatArray | None = None


def whole(
    tokens: IntArray, columns: Mapping[str, Tensor], turn_of: IntArray, targets: Targets
) -> tuple[IntArray, Whole]:
    """Return the tokens of a minibatch, sorted, and the record of it.

    Args:
        tokens: int64 [M'], the minibatch's tokens by their index in the pack.
        columns: fields of ``Whole`` that come from the network, [M'] each, in the order of
            ``tokens``.
        turn_of: int64 [M], row of the turn table of every token of the pack.
        targets: of the step.
    """
    turns = targets.turns
    assert turns is not None, 'a loss that NEEDS "whole" needs the turn table'
    order = np.argsort(tokens, kind="stable")
    tokens, like = tokens[order], columns["logprobs"]
    returns, starts = trajectory_returns(turns)
    present, trajectory = np.unique(turns.trajectory[turn_of[tokens]], return_inverse=True)
    group = start_groups(turns)[0][starts]

    def on_device(column: FloatArray | IntArray) -> Tensor:
        """Return a column as a tensor where the network's are, numbers in its precision."""
        tensor = torch.from_numpy(np.ascontiguousarray(column))
        return tensor.to(like.device, like.dtype if tensor.is_floating_point() else torch.int64)

    rows = torch.from_numpy(order).to(like.device)
    return tokens, Whole(
        old_logprobs=on_device(targets.old[tokens]),
        advantages=on_device(targets.advantages[tokens]),
        uniform=on_device(targets.uniform[tokens]),
        trajectory=on_device(trajectory.reshape(-1)),
        turn_index=on_device(turns.turn_index[turn_of[tokens]]),
        prompt=on_device(_prompts(turns)[turn_of[tokens]]),
        group=on_device(group[present]),
        outcome=on_device(returns[present]),
        **{name: column[rows] for name, column in columns.items()},
    )


def _prompts(turns: TurnTable) -> IntArray:
    """Return the number of each row's prompt, [N]; without candidates each row has its own."""
    if turns.state_group is not None:
        return turns.state_group
    return np.arange(len(turns.reward), dtype=np.int64)
