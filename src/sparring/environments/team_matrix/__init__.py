"""Team matrix games: two teams of equal size, all seats choose at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.environments.options import check_range
from sparring.environments.team_matrix.play import TeamMatrix
from sparring.environments.team_matrix.rules import (
    Example,
    Payoffs,
    RockPaperScissors,
    SeekAttackDefend,
)


def team_matrix(
    *,
    game: Literal["example", "rock_paper_scissors", "seek_attack_defend"] = "example",
    members: Annotated[int, Field(ge=2, le=8)] = 3,
    eps: Annotated[float, Field(ge=0, le=1)] = 0.1,
    prize: Annotated[float, Field(ge=0, le=10)] = 1.5,
    levels: Annotated[int, Field(ge=1, le=20)] = 10,
    force: int = 2,
    cost: Annotated[float, Field(ge=0, le=10)] = 0.0,
    style: Literal["brief", "full"] = "brief",
) -> TeamMatrix:
    """Team matrix games: two teams choose at once, and no seat sees what another chooses.

    What: one round. A team has one payoff, the other team gets -1 times it. There are three games:
    ``example``, ``rock_paper_scissors`` (of teams) and ``seek_attack_defend``.
    When to use: to see where self-play of teams stops at a local equilibrium, from which no member
    gains alone and the team together does.
    Mathematics:
        example, with k and l players who choose one, of this team and of the other:
            k - l  if k, l > 0
            eps l  if k = 0 < l < members;   prize  if k = 0, l = members;   0 if k = l = 0
            and the other team's, times -1, if l = 0 < k
        rock_paper_scissors: a team is rock where all choose rock, scissors where all choose
            scissors, else paper; 1 for a win
        seek_attack_defend: a seeker at level n earns r(n) = 1 + (n / levels)^2, r(0) = 0, if it is
            at most one above the team's base; the base is the lowest level of the team's seekers,
            and 0 where the highest is more than one above it. force attackers wipe out what a
            team earns of which nobody defends. A team gets what it earns, less cost for each
            attacker, less the same of the other team.
    The equilibrium of ``example`` is all zeros; all ones is a local one, where a team that turns to
    zeros together gains ``prize``. That of ``rock_paper_scissors`` shows each with probability 1/3,
    which no team reaches whose members choose independently of each other.
    Pitfalls: a policy that knows its role alone cannot agree with its team on a draw; the mixture
    that is the equilibrium is drawn once per play and team (player ``mixture``).
    Reference: Xu et al., "Fictitious Cross-Play", 2023, arXiv:2310.03354; games by its code.
    Verified by: tests/environments/team_matrix/.

    Args:
        game: which one. Options of another game are without effect.
        members: seats of a team, 2 to 8.
        eps: example: what a team of zeros gets for each one of the other team, 0 to 1.
        prize: example: what a team of zeros gets if all of the other team choose one, 0 to 10; the
            paper's C.
        levels: seek_attack_defend: the highest level, 1 to 20; the paper's A.
        force: seek_attack_defend: attackers that wipe out what a team earns, 1 to ``members``.
        cost: seek_attack_defend: what an attacker costs its team, 0 to 10.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.

    Raises:
        ConfigError: a number out of range.
    """
    check_range("team_matrix: force", force, 1, members)
    own: dict[str, Any] = {
        "example": (Example, {"eps": eps, "prize": prize}),
        "rock_paper_scissors": (RockPaperScissors, {}),
        "seek_attack_defend": (
            SeekAttackDefend,
            {"levels": levels, "force": force, "cost": cost},
        ),
    }
    kind, constants = own[game]
    payoffs: Payoffs = kind(members=members, **constants)
    return TeamMatrix(payoffs, style)
