"""Credit: implicit step rewards beside the episode's outcome (OPRL, iStar)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.credit.base import check, spread, start_groups, trajectory_returns
from sparring.ops.groups import leave_one_out_mean
from sparring.ops.standardise import standardise
from sparring.types import Credit, FloatArray, IntArray, TurnTable

NEEDS = {"old_logprobs", "reference_logprobs"}


def oprl(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    beta: Annotated[float, Field(gt=0)] = 0.05,
    alpha: Annotated[float, Field(ge=0)] = 1.0,
    form: Literal["rloo", "grpo"] = "rloo",
) -> Credit:
    """Add to the outcome's advantage that of a step reward read off how far training has already raised each turn's probability.

    What: the log-ratio of the policy to its reference is, up to a constant per start, the reward for which it would be optimal.
    Turns whose probability has grown more than others' of the group are credited more.
    When to use: one reward at the end of many turns, several games per start, and a run past its first updates.
    Mathematics: r_t = beta (log pi_old(turn t) - log pi_ref(turn t)), summed over the turn's tokens; A_E = R_i against the other
    trajectories of the (group, role), A_S = r_t against all other turns of the (group, role); A = A_E + alpha A_S. "against": minus the
    mean of the others ("rloo"), or (x - mean) / (sample deviation + 1e-6) ("grpo").
    Shapes: advantages [N].
    Options: ``beta`` scales step rewards ("grpo" divides it out again); ``alpha`` 0 is ``rloo`` or ``grpo``; ``form``.
    Pitfalls: this is not the published training. There a second model is trained by DPO on pairs of won and lost games, and its ratio to
    the old policy is the step reward; here the policy's own ratio to the reference takes its place, as the theory of DPO allows for
    the policy's own reward, and nothing more is trained. It starts at 0, since both are one policy; then it rewards what training
    raised, right or wrong, and pushes away from the reference: keep alpha small, or add ``kl_penalty``. A group of one, and
    a pool of equal values, give 0. A_S depends on the turn itself, so it biases the gradient.
    Reference: Liu et al., 2025 (arXiv 2509.19199); Rafailov et al., 2024 (arXiv 2404.12358) for the policy's own ratio.
    Verified by: tests/credit/test_oprl.py.

    Raises:
        CreditError: a reward or log-probability is not finite, or a column is missing.
    """
    check(turns, "oprl", columns=("old_logprob", "reference_logprob"))
    assert turns.old_logprob is not None
    assert turns.reference_logprob is not None
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    steps = beta * (turns.old_logprob - turns.reference_logprob)
    episode = spread(_against(returns, groups[starts], count, form), turns)
    metrics = {"step_reward_mean": float(steps.mean()), "step_reward_std": float(steps.std())} if len(steps) else {}
    return Credit(advantages=episode + alpha * _against(steps, groups, count, form), state=dict(state), metrics=metrics)


def _against(values: FloatArray, ids: IntArray, count: int, form: Literal["rloo", "grpo"]) -> FloatArray:
    """Return the values compared with those of their group."""
    return values - leave_one_out_mean(values, ids, count) if form == "rloo" else standardise(values, ids, count)
