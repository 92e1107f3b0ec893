"""Interface of loss plug-ins: input, output, and functions that several losses share.

Only ``reduce`` turns losses per token into one number.

Legend: M sampled tokens of a forward pass, flat; S their sequences or turns; N' turns with a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sparring.config.plugins.registry import BoundPlugin
from sparring.config.policies import Reduction
from sparring.core.errors import PluginError
from sparring.core.records import FloatArray, IntArray

BASE_NEEDS = {  # names for NEEDS, besides those of features, each with what the loss then gets
    "values": "the critic's values, to be fitted",
    "old_logprobs": "log-probabilities of the learner before its update, in place of the sampler's",
    "reference_logprobs": "log-probabilities of the initial policy",
    "whole": "the whole minibatch, to compare across it",
    "legal_replies": "the divergence from a uniformly drawn legal reply",
}
NEEDS_FROM = ("features",)
LOG_RATIO_LIMIT = 20.0  # log-ratios are clamped to this before exp


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeMinibatch:
    """The whole minibatch, without gradients, for losses that compare across forward passes.

    M' is its number of sampled tokens, G its number of trajectories (a seat's turns in an episode).
    """

    logprobs: Tensor  # [M'] under the current learner
    old_logprobs: Tensor  # [M'] under the policy before this step's updates
    advantages: Tensor  # [M']
    # [M'] numbers in [0, 1) from the run's stream, for losses that choose tokens at random
    uniform: Tensor
    trajectory: Tensor  # [M'] int64, index of the token's trajectory
    turn_index: Tensor  # [M'] int64, index of the token's turn in its trajectory, from 0
    group: Tensor  # [G] int64, equal for trajectories of one initial state and role
    outcome: Tensor  # [G] return of the trajectory
    # [M'] int64, equal only for the tokens of replies to one prompt
    prompt: Tensor | None = None
    reference_logprobs: Tensor | None = None  # [M'], with NEEDS "reference_logprobs"
    entropy: Tensor | None = None  # [M'], with NEEDS "entropy"


@dataclass(frozen=True, kw_only=True, slots=True)
class LossBatch:
    """The sampled tokens of a forward pass.

    Only ``logprobs``, ``features``, ``entropy``, ``legal`` and ``values`` carry gradients. A loss
    that reads an optional field names the field in its NEEDS.
    """

    logprobs: Tensor  # [M] under the current learner
    old_logprobs: Tensor  # [M] under the policy before this step's updates
    sampler_logprobs: Tensor  # [M] under the sampler
    advantages: Tensor  # [M]
    sequence: Tensor  # [M] int64, index of the token's training sequence
    turn: Tensor  # [M] int64, row of the turn table
    num_sequences: int
    sequence_weight: Tensor | None = None  # [S], with the reduction "agent_mean"
    entropy: Tensor | None = None  # [M] of the distribution at each token, nats
    reference_logprobs: Tensor | None = None  # [M]
    # outputs of the plug-ins of ``features`` by name, [M] each
    features: Mapping[str, Tensor] = field(default_factory=dict)
    # divergences "forward" and "reverse", [M] each, with NEEDS "legal_replies"
    legal: Mapping[str, Tensor] = field(default_factory=dict)
    whole: WholeMinibatch | None = None  # with NEEDS "whole"
    index: Tensor | None = None  # [M] int64, index of each token in ``whole``
    values: Tensor | None = None  # [N']
    value_targets: Tensor | None = None  # [N']


@dataclass(frozen=True, kw_only=True, slots=True)
class LossTerm:
    """Output of a loss: values to be reduced and weighted, and detached metrics.

    Args:
        values: losses or factors, see ``level``.
        level: "token": losses [M]. "turn": losses [N'], averaged over turns. "sum": losses that
            are summed over all forward passes of a minibatch. "weight": factors [M], without
            gradients, for every token loss with ``weighted``.
        weighted: whether the factors of level "weight" apply to this loss.
        metrics: figures to be logged, by name.
    """

    values: Tensor
    level: Literal["token", "turn", "sum", "weight"] = "token"
    weighted: bool = False
    metrics: Mapping[str, Tensor | float] = field(default_factory=dict)


def check_output(loss: BoundPlugin, term: Any, *batch: Any) -> None:
    """Check that the output of a loss is a LossTerm; called after every call of the loss.

    Raises:
        PluginError: the output is not a LossTerm.
    """
    if not isinstance(term, LossTerm):
        raise PluginError(f"The {loss} must return a LossTerm; it returned {type(term).__name__}.")


def log_ratio(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """Return logprobs - old_logprobs, clamped so that the exponential is finite."""
    return (logprobs - old_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def ratio_metrics(ratio: Tensor, log_of_ratio: Tensor) -> dict[str, Tensor]:
    """Return metrics of a probability ratio before clipping.

    Returns:
        ``ratio_mean``, ``ratio_min``, ``ratio_max``, and ``approximate_kl``: the mean of ratio - 1
        - log(ratio) (k3).
    """
    ratio, log_of_ratio = ratio.detach(), log_of_ratio.detach()
    return {
        "ratio_mean": ratio.mean(),
        "ratio_min": ratio.min(),
        "ratio_max": ratio.max(),
        "approximate_kl": (ratio - 1.0 - log_of_ratio).mean(),
    }


Unit = Literal["sequence", "turn"]


def clip_loss(
    ratio: Tensor, advantages: Tensor, low: float | Tensor, high: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Return (clipped surrogate loss, mask), [M] each; the mask is true where the clip acts.

    The loss is -min(ratio A, clip(ratio, 1 - low, 1 + high) A).

    Args:
        ratio: probability ratios, [M].
        advantages: advantages, [M].
        low: clip width below one, a number or [M].
        high: clip width above one, a number or [M].
    """
    lower, upper = (
        torch.as_tensor(edge, dtype=ratio.dtype, device=ratio.device)
        for edge in (1.0 - low, 1.0 + high)
    )
    plain_loss, clipped_loss = -ratio * advantages, -ratio.clamp(lower, upper) * advantages
    return torch.maximum(plain_loss, clipped_loss), clipped_loss > plain_loss


def apply_dual_clip(loss: Tensor, advantages: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """Return (loss with min(loss, -limit A) where A < 0, mask of the bounded tokens), [M] each."""
    bound = -limit * advantages
    is_bounded = (advantages < 0) & (loss > bound)
    return torch.where(is_bounded, bound, loss), is_bounded


def segment_indices(batch: LossBatch, level: Unit) -> Tensor:
    """Return the index, from 0, of each token's sequence or turn, int64 [M]."""
    if level == "sequence":
        return batch.sequence
    indices: Tensor = torch.unique(batch.turn, return_inverse=True)[1]
    return indices


def segment_sum(values: Tensor, segment: Tensor) -> Tensor:
    """Return the sum of values over each token's segment, broadcast to the tokens, [M]."""
    num_segments = int(segment.max()) + 1 if len(segment) else 0
    return torch.zeros(num_segments, dtype=values.dtype, device=values.device).index_add(
        0, segment, values
    )[segment]


def segment_mean(values: Tensor, segment: Tensor) -> Tensor:
    """Return the mean of values over each token's segment, broadcast to the tokens, [M]."""
    return segment_sum(values, segment) / segment_sum(torch.ones_like(values), segment)


def reduce(
    per_token: Tensor,
    sequence: Tensor,
    num_sequences: int,
    reduction: Reduction = "token_mean",
    constant: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return a scalar from losses per token.

    Args:
        per_token: losses, [M].
        sequence: int64 [M], the training sequence of each token, 0..num_sequences-1.
        num_sequences: number of sequences S, including those without tokens.
        reduction: "token_mean": sum / M, equal weight per token (DAPO). "sequence_mean": mean over
            sequences of the mean over their tokens, equal weight per conversation (GRPO).
            "agent_mean": the sequence mean with the weights of ``agent_weights``: equal weight per
            episode, per conversation of an episode, and per token of a conversation (WideSeek-R1).
            "constant": sum / (S * constant), without length bias (Dr. GRPO).
        constant: tokens per sequence assumed by "constant".
        weight: weight of each sequence, [S]; only for "agent_mean", which requires it.

    Returns:
        A scalar; 0 without tokens.
    """
    if not len(per_token):
        return per_token.sum()
    if reduction == "token_mean":
        return per_token.mean()
    if reduction == "constant":
        return per_token.sum() / (num_sequences * constant)
    counts = torch.bincount(sequence, minlength=num_sequences).clamp(min=1).to(per_token.dtype)
    means = per_token / counts[sequence]
    if reduction == "agent_mean":
        assert weight is not None, "agent_mean needs the weight of each sequence"
        means = means * weight.to(means)[sequence]
    return means.sum() / num_sequences


def agent_weights(episode: IntArray) -> FloatArray:
    """Return the weight of each of S sequences in "agent_mean", S / (E N), of mean 1, [S].

    Args:
        episode: episode of each sequence, [S]. E is the number of episodes, and N the number of
            sequences of one episode.
    """
    _, episode_ids, counts = np.unique(episode, return_inverse=True, return_counts=True)
    weights: FloatArray = len(episode) / (len(counts) * counts[episode_ids].astype(np.float64))
    return weights
