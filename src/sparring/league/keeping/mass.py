"""Keep the snapshots with the largest weights in the meta-strategy."""

from __future__ import annotations

from sparring.core.records import PlayerRef
from sparring.league.keeping.base import KeepRequest
from sparring.league.meta_game import member_payoffs
from sparring.league.meta_solvers.base import SolverOption, solve_meta_game


def mass(
    request: KeepRequest, *, solver: SolverOption = "max_entropy_nash"
) -> tuple[PlayerRef, ...]:
    """Keep the newest snapshot, and those with the largest weights in a meta-strategy.

    What: a meta-solver weighs all members by the payoffs of their games with each other. While
    there are too many, the snapshot with the smallest weight leaves; of equal weights, the oldest.
    The newest stays, as it has no episodes yet.
    When to use: populations that grow without limit (PSRO): a member without weight is never an
    opponent, and is not part of the answer.
    Mathematics: with U the members' mean payoffs over all environments,

        sigma = solver(U)
        i* = argmin of sigma(i) over snapshots i without the newest

    Pitfalls: without ``league.plays`` all payoffs are 0, and the weights mean nothing. A member
    without weight may get some when new members join; let ``keep`` exceed the number with weight.
    Reference: pruning of dominated or unused strategies, as in the PSRO literature.
    Verified by: tests/league/keeping/test_mass.py.

    Args:
        solver: a meta-solver (`sparring list league.meta_solvers`), with its options. Default
            "max_entropy_nash".

    Raises:
        GameError: the solver cannot solve the meta-game.
    """
    all_members = (*request.permanent_members, *request.members)
    environments = dict.fromkeys(sorted({row.environment for row in request.payoffs.rows}), 1.0)
    game = member_payoffs(request.payoffs, all_members, environments or {"": 1.0})
    weights = dict(zip(all_members, solve_meta_game(solver, game).sides[0].tolist(), strict=True))
    remaining = list(request.members)
    while len(remaining) > request.keep:
        remaining.remove(min(remaining[:-1] or remaining, key=weights.__getitem__))
    return tuple(remaining)
