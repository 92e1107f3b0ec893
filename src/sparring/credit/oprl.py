"""Credit: implicit step rewards beside the episode's outcome (OPRL, iStar)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.credit.base import check, spread, start_groups, trajectory_returns
from sparring.errors import CreditError
from sparring.ops.groups import leave_one_out_mean
from sparring.ops.standardise import standardise
from sparring.types import Credit, FloatArray, IntArray, TurnTable

NEEDS = {"old_logprobs"}
NEEDS_BY = {"model": {"process": {"process_logprobs"}, "policy": {"reference_logprobs"}}}
PRESETS = {
    "policy": {"model": "policy"},
}


def oprl(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    model: Literal["process", "policy"] = "process",
    beta: Annotated[float, Field(gt=0)] = 0.05,
    alpha: Annotated[float, Field(ge=0)] = 1.0,
    form: Literal["rloo", "grpo"] = "rloo",
) -> Credit:
    """Add to the outcome's advantage that of a step reward, which a second model learns from pairs of won and lost games.

    What: a process model, at first a copy of the policy, is trained at every step, before credit, to tell the better of two games of
    one start and role from the worse; how much likelier than the policy it finds a turn is then the turn's reward.
    When to use: one reward at the end of many turns, and several games per start.
    Mathematics: r_t = beta (log pi_phi(turn t) - log pi_old(turn t)), summed over the turn's tokens; pi_phi minimises the mean of
    -log sigmoid(Q_better - Q_worse) over pairs of games, Q the mean of r_t over the game's turns, pi_old the policy before its
    update. A_E = R_i against the other trajectories of the (group, role), A_S = r_t against all other turns of the (group, role);
    A = A_E + alpha A_S. "against": minus the mean of the others ("rloo"), or (x - mean) / (sample deviation + 1e-6) ("grpo").
    Shapes: advantages [N].
    Options: ``model`` "process" is the published one; its step size, updates and pairs are the recipe's section ``process``.
    "policy" (preset ``policy``) trains nothing more: r_t = beta (log pi_old - log pi_ref), the policy's own ratio to the one the run
    was made from. ``beta`` scales step rewards and is the beta of the process model's loss ("grpo" divides the scale out
    again); ``alpha`` 0 is ``rloo`` or ``grpo``; ``form``.
    Pitfalls: the process model doubles the memory of what is trained; with adapters that is little. Better is the higher return, ties
    give no pair: in games of graded payoffs too, best with worst, second best with second worst. A start whose games all end alike
    teaches it nothing, and groups of one never do. It learns from whole games: turns after the decisive one take a share of its credit,
    the more the longer it is trained, and most of it where replies that are never played can take up the probability that the worse
    games lose: warm up first. At beta 0.05, published for a step size of 1e-6, the loss hardly leaves log 2 and the model keeps moving
    away: tiny models, with larger steps, want a beta near 1. As the policy moves away from what the process model was, r_t has a part
    that no pair taught. A group of one, and a pool of equal values, give 0. A_S depends on the turn itself, so it biases the gradient.
    The paper gives 1e-6 as the process model's step size and 5e-7 as the policy's; here both are the same unless
    ``process.learning_rate`` says otherwise. The released code says that pairs are one to one and takes every pair: that is
    ``process.pairs: all``. With "policy" r_t starts at 0 and then rewards what training raised, right or wrong: keep alpha small. Only
    a run trains a process model: in the lab, verl and TRL take "policy".
    Reference: Liu et al., 2025 (arXiv 2509.19199); Rafailov et al., 2024 (arXiv 2404.12358) for the policy's own ratio.
    Verified by: tests/credit/test_oprl.py, tests/learn/test_process.py.

    Raises:
        CreditError: a reward or log-probability is not finite, or a column is missing.
    """
    check(turns, "oprl", columns=("old_logprob",))
    if model == "process" and turns.process_logprob is None:
        raise CreditError(
            "credit 'oprl' needs the column 'process_logprob' of the turn table, of a process model, which only a run trains; "
            "where there is none write preset policy (in the lab oprl:policy)."
        )
    newer, older = ("process_logprob", "old_logprob") if model == "process" else ("old_logprob", "reference_logprob")
    check(turns, "oprl", columns=(newer, older))
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    steps = beta * (getattr(turns, newer) - getattr(turns, older))
    episode = spread(_against(returns, groups[starts], count, form), turns)
    metrics = {"step_reward_mean": float(steps.mean()), "step_reward_std": float(steps.std())} if len(steps) else {}
    return Credit(advantages=episode + alpha * _against(steps, groups, count, form), state=dict(state), metrics=metrics)


def _against(values: FloatArray, ids: IntArray, count: int, form: Literal["rloo", "grpo"]) -> FloatArray:
    """Return the values compared with those of their group."""
    return values - leave_one_out_mean(values, ids, count) if form == "rloo" else standardise(values, ids, count)
