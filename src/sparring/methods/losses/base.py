"""What losses are given and what they give back.

Legend: M sampled tokens of the batch, flat; N' turns of the batch that have a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from sparring.config.plugins.registry import Bound
from sparring.core.errors import PluginError

GIVEN = {  # what NEEDS may name, besides features
    "values": "the critic's values, to be fitted",
    "old_logprobs": "log-probabilities of the learner before its update, in place of the sampler's",
    "reference_logprobs": "log-probabilities of the policy before the first step",
    "whole": "the whole minibatch, to compare across it",
    "legal_replies": "the divergence from what legal replies would say",
}
NEEDS_FROM = ("features",)
LOG_RATIO_LIMIT = 20.0  # log-ratios are clamped to this before exp


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """The whole minibatch before it is cut into forward passes, without gradients.

    For losses that compare across it.

    M' its sampled tokens, G its trajectories (a seat's turns in one game).
    """

    logprobs: Tensor  # [M'] of the learner, now
    old_logprobs: Tensor  # [M'] of the policy before this step's updates
    advantages: Tensor  # [M']
    # [M'] numbers in [0, 1) from the run's own stream, for losses that choose tokens at random
    uniform: Tensor
    trajectory: Tensor  # [M'] int64, number of the token's trajectory
    turn_index: Tensor  # [M'] int64, which of its seat's turns the token is in, from 0
    group: Tensor  # [G] int64, equal for trajectories of one start and role
    outcome: Tensor  # [G] return of the trajectory
    # [M'] int64, equal exactly for the tokens of replies to one prompt
    prompt: Tensor | None = None
    reference_logprobs: Tensor | None = None  # [M'], with NEEDS "reference_logprobs"
    entropy: Tensor | None = None  # [M'], with NEEDS "entropy"


@dataclass(frozen=True, kw_only=True, slots=True)
class LossBatch:
    """The sampled tokens of a batch.

    Only ``logprobs``, ``features``, ``entropy``, ``legal`` and ``values`` carry gradients.

    A loss that wants one of the optional fields names it in its NEEDS.
    """

    logprobs: Tensor  # [M] of the learner, now
    old_logprobs: Tensor  # [M] of the policy before this step's updates
    sampler_logprobs: Tensor  # [M] as sampled
    advantages: Tensor  # [M]
    sequence: Tensor  # [M] int64, number of the token's training sequence
    turn: Tensor  # [M] int64, row of the turn table
    num_sequences: int
    sequence_weight: Tensor | None = None  # [S], with the reduction "agent_mean"
    entropy: Tensor | None = None  # [M] of the distribution at each token, nats
    reference_logprobs: Tensor | None = None  # [M]
    # [M] each, of the slot ``features``, by name
    features: Mapping[str, Tensor] = field(default_factory=dict)
    # [M] each: "forward" and "reverse", with NEEDS "legal_replies"
    legal: Mapping[str, Tensor] = field(default_factory=dict)
    whole: Whole | None = None  # with NEEDS "whole"
    index: Tensor | None = None  # [M] int64, where the tokens are in ``whole``
    values: Tensor | None = None  # [N']
    value_targets: Tensor | None = None  # [N']


@dataclass(frozen=True, kw_only=True, slots=True)
class LossTerm:
    """What a loss gives: values to be reduced and weighted, and detached figures to be logged.

    ``level`` "token": [M] losses. "turn": [N'] losses, averaged over turns. "sum": losses that are
    summed as they are, over all forward passes of a minibatch. "weight": no loss of its own but
    factors [M]
    for every token loss that lets itself be weighted (``weighted``); they must not carry gradients.
    """

    values: Tensor
    level: Literal["token", "turn", "sum", "weight"] = "token"
    weighted: bool = False
    metrics: Mapping[str, Tensor | float] = field(default_factory=dict)


def check_output(loss: Bound, term: Any, *batch: Any) -> None:
    """Check that a loss has given a term; every call of one ends here.

    Raises:
        PluginError: it gave something else.
    """
    if not isinstance(term, LossTerm):
        raise PluginError(f"The {loss} must return a LossTerm; it returned {type(term).__name__}.")


def log_ratio(new: Tensor, old: Tensor) -> Tensor:
    """Return new - old, clamped so that its exponential is finite."""
    return (new - old).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def ratio_metrics(ratio: Tensor, log_of_ratio: Tensor) -> dict[str, Tensor]:
    """Return raw figures of a probability ratio, before any clipping.

    ``ratio_mean``, ``ratio_min``, ``ratio_max``, and ``approximate_kl``: mean of ratio - 1 -
    log(ratio) (k3).
    """
    ratio, log_of_ratio = ratio.detach(), log_of_ratio.detach()
    return {
        "ratio_mean": ratio.mean(),
        "ratio_min": ratio.min(),
        "ratio_max": ratio.max(),
        "approximate_kl": (ratio - 1.0 - log_of_ratio).mean(),
    }
