"""Loss: direct preference optimisation between replies to one prompt."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from sparring.methods.losses.base import LossBatch, LossTerm
from sparring.methods.losses.minibatch import (
    Pairs,
    pair_metrics,
    pairs_within,
    token_losses,
    turns_of,
    whole_minibatch,
)

NEEDS = {"whole"}
NEEDS_BY = {"reference": {"start": {"reference_logprobs"}}}
PRESETS = {"lspo": {"labels": "soft", "beta": 1.0, "pairs": "all", "reference": "step"}}


def turn_dpo(
    batch: LossBatch,
    *,
    beta: Annotated[float, Field(gt=0)] = 0.1,
    labels: Literal["hard", "soft"] = "hard",
    pairs: Pairs = "best_worst",
    reference: Literal["start", "step"] = "start",
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0,
) -> LossTerm:
    """Prefer the better of two replies to a prompt, relative to a reference policy.

    What: preferences between the candidates of a turn, by their advantages. The loss compares no
    replies across prompts, so that a baseline per prompt has no effect.
    When to use: ``rollout.candidates``, with credit that has a row for every candidate;
    ``candidate_value`` uses the candidates' scores unchanged.
    Mathematics: with A the advantage of a reply,

        S = sum over the reply's tokens of log pi - log pi_ref
        m = beta (S_better - S_worse)
        L = -(1 - p) log sigmoid(-m) - p log sigmoid(m)

        labels "hard":   p = 1 - label_smoothing
        labels "soft":   p = sigmoid(beta (A_better - A_worse))

    The loss is the weighted mean of L over the pairs of the minibatch. Hard labels compare only
    replies of different advantage, and have no minimum at a finite margin. Soft labels compare all
    replies, and L is smallest if every margin is beta times the difference in advantage:

        pi(a) = pi_ref(a) exp(A(a)) / sum over replies b of pi_ref(b) exp(A(b))

    With advantages log(target / pi_ref) the policy becomes the target, which may be mixed.
    Shapes: [M'] -> one number, shared out over tokens: [M], summed.
    Pitfalls:
        - Prompts with one reply contribute no pair.
        - With hard labels, replies of equal advantage contribute no pair. So hard labels cannot
          teach a mixed policy.
        - The preferred reply itself may become less likely.
        - With ``reference: step`` all updates of a step refer to the policy before the first one.
    Metrics: pairs (their number), accuracy (weight of the pairs with S_better > S_worse), margin
    (mean beta (S_better - S_worse)).
    Reference: Rafailov et al., 2023; for turns with three candidates: Xu et al., 2025 (LSPO,
    arXiv:2502.04686), with hard labels, beta 0.1 and the model before the iteration as reference.
    Soft labels and preset ``lspo`` are ours.
    Verified by: tests/methods/losses/test_turn_dpo.py.

    Args:
        beta: factor of S_better - S_worse, above 0. With hard labels a larger beta saturates nearer
            to the reference; with soft labels it gives large differences more weight.
        labels: "hard" (default): the better reply is preferred. "soft": the better reply is
            preferred with probability sigmoid(beta (A_better - A_worse)).
        pairs: the pairs of a prompt. "best_worst" (default): the best with the worst; each prompt
            has equal weight, which its tied pairs share. "all": every pair, with equal weight.
        reference: "start" (default): the run's initial policy, after its warm-up if there is one.
            "step": the policy before the step's updates.
        label_smoothing: with hard labels, assumed probability that a preference is wrong, at least
            0 and below 0.5.
    """
    minibatch, _ = whole_minibatch(batch)
    reference_logprobs = (
        minibatch.old_logprobs if reference == "step" else minibatch.reference_logprobs
    )
    assert reference_logprobs is not None
    turn, prompt, advantage = turns_of(minibatch)
    is_soft = labels == "soft"
    better, worse, weight = pairs_within(prompt, advantage, pairs, ties=is_soft)
    preference = torch.full_like(weight, 1.0 - label_smoothing)
    if is_soft:
        preference = torch.sigmoid(beta * (advantage[better] - advantage[worse]))

    def margins(logprobs: Tensor) -> Tensor:
        sums = advantage.new_zeros(len(prompt)).index_add(0, turn, logprobs - reference_logprobs)
        return beta * (sums[better] - sums[worse])

    def loss_of(logprobs: Tensor) -> Tensor:
        margin = margins(logprobs)
        losses = -preference * logsigmoid(margin) - (1.0 - preference) * logsigmoid(-margin)
        return (weight * losses).sum()

    is_unequal = advantage[better] != advantage[worse]
    metrics = pair_metrics(margins(minibatch.logprobs), weight, is_unequal)
    return LossTerm(values=token_losses(batch, loss_of), level="sum", metrics=metrics)
