"""Credit: V-trace at the level of turns, for stale episodes."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import Cut, cut_turns, require_column, with_bootstrap
from sparring.ops.groups import backward_recurrence, next_values

NEEDS = {"value", "old_logprob"}
REQUIRES = {"losses": {"value_loss"}}
LOG_RATIO_LIMIT = 20.0


def vtrace(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    lam: Annotated[float, Field(ge=0, le=1)] = 1.0,
    rho_bar: Annotated[float, Field(gt=0)] = 1.0,
    c_bar: Annotated[float, Field(gt=0)] = 1.0,
    weigh_policy: bool = True,
    cut: Cut = "bootstrap",
) -> Credit:
    """Compare rewards with the critic, and weigh turns by their likelihood under the learner.

    What: Turn-level temporal differences with weights. A weight is a truncated ratio: the learner's
    probability of the turn, divided by that of the policy that played the turn.
    When to use: stale episodes (replay, asynchronous rollouts) with a critic. Add the loss
    ``value_loss``.
    Mathematics:
        w_t = exp(old_logprob_t - logprob_t)
        rho_t = min(rho_bar, w_t)
        c_t = lam min(c_bar, w_t)
        delta_t = rho_t (r_t + gamma V_{t+1} - V_t)
        v_t = V_t + delta_t + gamma c_t (v_{t+1} - V_{t+1})
        A_t = rho_t (r_t + gamma v_{t+1} - V_t)
    with V and v 0 after the last turn. The critic's target is v_t.
    Shapes: advantages and value_targets [N].
    Pitfalls:
        - A turn's ratio is the product over its tokens. So for long replies it is truncated or goes
          to 0 after small changes of the policy; log-ratios are clamped to 20.
        - With unchanged weights all ratios are 1, and with lam = 1 this is ``gae`` with lam = 1.
        - As in ``gae``, a reward of other seats' turns belongs to the seat's turn before. The
          ratios do not correct for the policies of other seats.
    Reference: Espeholt et al., 2018 (arXiv 1802.01561), with turns as actions.
    Verified by: tests/methods/credit/test_critics.py.

    Args:
        gamma: discount per turn, in [0, 1]; 1 (default) does not discount.
        lam: decay of the corrections from later turns, in [0, 1]. 1 (default) keeps them all, 0
            uses the one-step difference for the targets.
        rho_bar: upper bound of the ratio rho_t, above 0. A larger bound moves the learnt value
            towards that of the learner's policy; the default 1 never raises the weight of a turn.
        c_bar: upper bound of the ratio in c_t, above 0. A larger bound propagates corrections from
            later turns further back; the default is 1.
        weigh_policy: true (default) keeps rho_t in A_t. False leaves it out, for losses that weigh
            by the ratio themselves (``truncated_is``, ``ppo_clip`` with stale log-probabilities).
            Do not weigh twice.
        cut: "bootstrap" (default): an episode truncated by ``rollout.max_turns`` has not ended. The
            seat's next prompt is unknown, so V replaces r + gamma V_next of its last turn. That
            turn has advantage 0, and earlier turns bootstrap from its V. "zero": the episode counts
            as ended.

    Raises:
        CreditError: a reward, value or log-probability is not finite, or a column is missing.
    """
    value, old_logprobs = turns.column("value"), turns.column("old_logprob")
    log_ratio = old_logprobs - require_column(turns, "vtrace", "logprob")
    ratio = np.exp(np.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    rho, trace_weights = np.minimum(rho_bar, ratio), lam * np.minimum(c_bar, ratio)
    reward = with_bootstrap(turns.reward, value, cut_turns(turns, cut))
    delta = rho * (reward + gamma * next_values(value, turns.trajectory) - value)
    targets = value + backward_recurrence(delta, gamma * trace_weights, turns.trajectory)
    advantages = reward + gamma * next_values(targets, turns.trajectory) - value
    if weigh_policy:
        advantages = rho * advantages
    metrics = {}
    if len(ratio):
        metrics["ratio_mean"] = float(ratio.mean())
        metrics["truncated_share"] = float((ratio > rho_bar).mean())
    return Credit(advantages=advantages, value_targets=targets, metrics=metrics)
