"""Credit: a public baseline per functional team (AdvEvo-MARL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from sparring.core.errors import CreditError
from sparring.core.records import Credit, IntArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, trajectory_returns
from sparring.ops.groups import centre, group_ids

GROUP_RELATIVE = {"over": {"group"}}


def adv_evo(
    turns: TurnTable,
    *,
    teams: Mapping[str, str] | None = None,
    over: Literal["batch", "group"] = "batch",
    whiten: bool = False,
) -> Credit:
    """Compare an agent's return with the mean over all agents with the same function.

    What: Agents with the same function (attackers, defenders) form a team. The baseline is the mean
    return of the team, so each agent is compared with its team mates.
    When to use: several agents per side, each with its own payoff; teams that learn against each
    other.
    Mathematics:
        A_i = R_i - mean of R over all trajectories of the same game and team
    in the batch or in the group. Then whitening, as in REINFORCE++, gives
        (A - mean) / (deviation over the batch's turns + 1e-8)
    Shapes: advantages [N], the same for all turns of a trajectory.
    Pitfalls:
        - The mean contains the trajectory's return, which shrinks the gradient by (n - 1) / n for n
          independent episodes.
        - Team mates of one episode are not independent.
        - If all members of a team get one payoff, a batch of one episode gives every advantage 0.
        - Without ``teams``, and over groups, this is ``grpo`` without the deviation.
        - The published schedule of safety and task rewards is not included; set the weights of
          ``rewards`` instead.
    Reference: AdvEvo-MARL (2025). This is our reading of secondary notes, not a reproduction.
    Verified by: tests/methods/credit/test_role_baselines.py.

    Args:
        teams: the team of every role, such as {werewolf: attackers, seer: defenders, villager:
            defenders}. None (default) makes each role a team. A role that is missing from the map
            is an error.
        over: which trajectories of a game and team share a baseline: those of the whole "batch"
            (default), or those of one "group", which have the same initial state.
        whiten: true gives the advantages of the batch's turns mean 0 and deviation 1. False
            (default) leaves the centred returns.

    Raises:
        CreditError: a role has no team.
    """
    returns, first_rows = trajectory_returns(turns)
    team_ids = _team_ids(turns, first_rows, teams)
    keys = (
        (turns.game[first_rows], team_ids)
        if over == "batch"
        else (turns.group[first_rows], turns.game[first_rows], team_ids)
    )
    groups, num_groups = group_ids(*keys)
    advantages = broadcast_to_turns(centre(returns, groups, num_groups), turns)
    if whiten and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    return Credit(advantages=advantages)


def _team_ids(turns: TurnTable, first_rows: IntArray, teams: Mapping[str, str] | None) -> IntArray:
    roles = turns.role[first_rows]
    if teams is None:
        return roles
    role_names = {turns.role_names[role] for role in np.unique(roles).tolist()}
    missing_roles = sorted(role_names - set(teams))
    if missing_roles:
        names = ", ".join(f"{role}: {team}" for role, team in teams.items())
        raise CreditError(
            f"credit 'adv_evo': role {missing_roles[0]!r} has no team in teams={{{names}}}; "
            f"add {missing_roles[0]}: TEAM."
        )
    team_number = {team: index for index, team in enumerate(sorted(set(teams.values())))}
    team_of_role = np.array(
        [team_number.get(teams.get(name, ""), 0) for name in turns.role_names], dtype=np.int64
    )
    return team_of_role[roles]
