"""Those stay who have weight in the meta-strategy."""

from __future__ import annotations

from sparring.core.records import PlayerRef
from sparring.league.keeping.base import KeepRequest
from sparring.league.meta_game import member_payoffs
from sparring.league.meta_solvers.base import SolverOption, solved


def mass(
    request: KeepRequest, *, solver: SolverOption = "max_entropy_nash"
) -> tuple[PlayerRef, ...]:
    """Keep the newest snapshot, and those with the largest weights in a meta-strategy.

    What: a meta-solver weighs all members by their plays with each other. While there are too many,
    the snapshot with the smallest weight leaves, the oldest such one first. The newest stays, as it
    has met nobody yet.
    When to use: populations that grow without end (PSRO): a member without weight is met by nobody
    and is no part of the answer.
    Mathematics: with U the members' payoffs in all environments, each counting the same,

        sigma = solver(U)
        i* = argmin over snapshots i, but for the newest, of sigma(i)

    Pitfalls: weights rest on ``league.plays``: without them all payoffs are 0. One that has no
    weight now may gain some later, as others come; ``keep`` should leave room for more than the
    support.
    Reference: pruning of dominated or unused strategies, as in the PSRO literature.
    Verified by: tests/league/keeping/test_mass.py.

    Args:
        solver: a meta-solver (`sparring list league.meta_solvers`), with its options. Default
            "max_entropy_nash".

    Raises:
        GameError: the solver cannot solve the meta-game.
    """
    everyone = (*request.others, *request.members)
    environments = dict.fromkeys(sorted({row.environment for row in request.payoffs.rows}), 1.0)
    game = member_payoffs(request.payoffs, everyone, environments or {"": 1.0})
    weights = dict(zip(everyone, solved(solver, game).sides[0].tolist(), strict=True))
    kept = list(request.members)
    while len(kept) > request.keep:
        kept.remove(min(kept[:-1] or kept, key=weights.__getitem__))
    return tuple(kept)
