"""Credit: agent- and turn-wise groups (AT-GRPO, Step-GRPO)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import CreditError
from sparring.core.records import Credit, IntArray, TurnTable
from sparring.methods.credit.base import component, require_column, turn_keys
from sparring.ops.groups import centre, discounted_returns, group_ids, standardise

PRESETS = {"step_grpo": {"value": "reward", "scale": "std", "same_state": False}}
NEEDS_BY = {"candidates": {True: {"state_group", "committed"}}}
GROUP_RELATIVE = {"candidates": {False}}
REQUIRES = {"components": {"team", "local"}}  # options that name components


def at_grpo(
    turns: TurnTable,
    *,
    value: Literal["reward", "return"] = "reward",
    scale: Literal["std", "none"] = "std",
    same_state: bool = False,
    candidates: bool = False,
    team: str | None = None,
    local: str | None = None,
    alpha: Annotated[float, Field(ge=0)] = 1.0,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare a turn with the same turn of the same role in the group.

    What: Turns with the same initial state, role and turn index form a group. Each turn is judged
    by its own reward.
    When to use: tasks in which the reward of every turn is informative. If the turns of a group are
    in exactly the same state, set ``same_state``. Preset "step_grpo" is the single-agent method
    with the same formula.
    Mathematics:
        A[i, p, t] = (x[i, p, t] - mean) / F
    over the members of the group that took turn t in role p. x is the turn's reward r[i, p, t], or
    its return
        sum over k >= t of gamma^(k-t) r[i, p, k]
    F is std + epsilon (sample deviation), or 1. If ``team`` or ``local`` names a component, r has
    only these components:
        r[i, p, t] = alpha * r_team[i, p, t] + r_local[i, p, t]
    With ``candidates`` the members of a group are the replies to one prompt.
    Shapes: advantages [N]; groups per (group, role, turn_index[, state]), or per prompt.
    Pitfalls:
        - With "reward" a turn gets no credit for later turns. The expected gradient is that of each
          turn's reward, given that the turn is reached.
        - Never sum these centred rewards over later turns. If the policy decides whether to
          continue, the baselines of later turns act as a hidden penalty of E[later reward].
        - "return" has no such penalty. But the advantages of a turn that m members reach shrink by
          (m - 1) / m, and are 0 for m = 1.
        - The paper samples several replies to every prompt and continues with the best one. Use
          ``rollout.candidates`` and ``candidates: true`` for this.
        - A reply that was not played has no later turns and no payoff of the game. So candidates
          are compared only by named components, which every reply must have.
        - With ``rollout.plan`` "tree" several actions of one prompt are each played to the end.
    Reference: Zhao et al., 2025 (AT-GRPO, "Stronger-MAS"); R1-Router (Step-GRPO, our reading of
    its abstract); volcengine/verl issue 7244 on the hidden penalty.
    Verified by: tests/methods/credit/test_at_grpo.py.

    Args:
        value: what a turn is judged by: "reward" (default), the turn's own reward, or "return", the
            discounted sum of rewards from this turn on.
        scale: "std" (default) divides by the group's sample deviation. "none" only subtracts the
            mean.
        same_state: true puts only turns with equal information states in one group, as when
            candidates are sampled from one prompt. False (default) requires only equal initial
            state, role and turn index.
        candidates: true compares the replies to one prompt, where ``rollout.candidates`` asks for
            several, by ``team`` and ``local``. False (default) compares turns of episodes.
        team: name of a reward component that all seats of a team get, such as an oracle's
            ``best_action``; null (default): none.
        local: name of the reward component of the seat's own reply, such as ``format_bonus``; null
            (default): none.
        alpha: factor of the team's component, at least 0; 1 (default), as in the authors' code.
            Unused without ``team``.
        gamma: discount per turn of the return, in [0, 1]; the default 1 does not discount. Unused
            with ``value`` "reward".
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny. Unused with ``scale`` "none".

    Raises:
        CreditError: no turn has a named component, or candidates are compared by returns or
            without a component.
    """
    if candidates:
        _check_candidates(value, team, local)
    reward = turns.reward
    if team is not None:
        reward = alpha * component(turns, "at_grpo", team)
    if local is not None:
        local_reward = component(turns, "at_grpo", local)
        reward = local_reward if team is None else reward + local_reward
    values = (
        reward if value == "reward" else discounted_returns(reward, turns.trajectory, gamma=gamma)
    )
    keys: tuple[IntArray, ...] = turn_keys(turns)
    if candidates:
        keys = (require_column(turns, "at_grpo", "state_group"),)
    elif same_state:
        keys = (*keys, turns.game, turns.state_key)
    ids, num_groups = group_ids(*keys)
    advantages = centre(values, ids, num_groups)
    if scale == "std":
        advantages = standardise(values, ids, num_groups, epsilon=epsilon)
    return Credit(advantages=advantages)


def _check_candidates(value: str, team: str | None, local: str | None) -> None:
    if value == "return":
        raise CreditError(
            "credit 'at_grpo': value='return' counts later turns, which candidates that were not "
            "played do not have; write value: reward."
        )
    if team is None and local is None:
        raise CreditError(
            "credit 'at_grpo': candidates are compared by a reward that reads one turn; write "
            "team: best_action or local: format_bonus."
        )
