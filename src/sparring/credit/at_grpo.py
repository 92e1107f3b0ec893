"""Credit: agent- and turn-wise groups (AT-GRPO, Step-GRPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.credit.base import check, turn_places
from sparring.ops.groups import centre, group_ids
from sparring.ops.returns import discounted_returns
from sparring.ops.standardise import standardise
from sparring.types import Credit, TurnTable

PRESETS = {"step_grpo": {"value": "reward", "scale": "std", "same_state": False}}


def at_grpo(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    value: Literal["reward", "return"] = "reward",
    scale: Literal["std", "none"] = "std",
    same_state: bool = False,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare a turn with the same turn of the same role in the group.

    What: A group is all turns with the same initial state, role and turn index. Each turn is judged
    by its own reward.
    When to use: tasks in which the reward of every turn is informative. It fits best when the
    members of a group chose from exactly the same position; then set ``same_state``. Preset
    "step_grpo" names the single-agent method with the same formula.
    Mathematics:
        A[i, p, t] = (x[i, p, t] - mean) / F
    over the members of the group that took turn t in role p. x is the turn's reward r[i, p, t], or
    its return
        sum over k >= t of gamma^(k-t) r[i, p, k]
    F is std + epsilon (sample deviation), or 1.
    Shapes: advantages [N]; groups per (group, role, turn_index[, state]).
    Pitfalls: With "reward" a turn gets no credit for later turns. Exactly, the expected gradient is
    that of each turn's own reward, given that the turn was reached. Never sum these centred rewards
    over later turns: when the policy decides whether to continue, the baselines of later turns act
    as a hidden penalty of E[later reward] on continuing. With "return" this penalty is absent. But
    turns that few members reach shrink by (m - 1) / m, and a turn reached by one member gets 0. The
    paper samples candidates at every turn and continues with the best one; here ``vpr`` compares
    these (baseline ``candidates``). With ``rollout.plan`` "tree" several actions of one prompt are
    each played to their ends.
    Reference: Zhao et al., 2025 (AT-GRPO, "Stronger-MAS"); R1-Router (Step-GRPO, literal reading of
    its abstract); volcengine/verl issue 7244 on the fine.
    Verified by: tests/credit/test_at_grpo.py.

    Args:
        value: what a turn is judged by: "reward" (default), the turn's own reward, or "return", the
            discounted sum of rewards from this turn on.
        scale: "std" (default) divides by the group's sample deviation. "none" only subtracts the
            mean.
        same_state: true puts only turns with equal information states in one group, as when
            candidates are sampled from one prompt. False (default) requires only equal initial
            state, role and turn index.
        gamma: discount per turn of the return, in [0, 1]; the default 1 does not discount. Unused
            with ``value`` "reward".
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny. Unused with ``scale`` "none".

    Raises:
        CreditError: a reward is not finite.
    """
    check(turns, "at_grpo")
    values = (
        turns.reward
        if value == "reward"
        else discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    )
    keys = turn_places(turns)
    ids, count = group_ids(*keys, turns.game, turns.state_key) if same_state else group_ids(*keys)
    advantages = (
        standardise(values, ids, count, epsilon=epsilon)
        if scale == "std"
        else centre(values, ids, count)
    )
    return Credit(advantages=advantages, state=dict(state))
