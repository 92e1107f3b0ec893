"""Opponents drawn from a meta-strategy: league members by the weights of a meta-solver."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import PlayerRef
from sparring.league.matchmakers.base import MatchRequest, Seating, draw_member, seat_vs, self_play
from sparring.league.meta_game import APART, is_two_sided, member_payoffs, side_payoffs
from sparring.league.meta_solvers.base import SolverOption, bind_solver, solve_meta_game
from sparring.league.payoffs import IdentityKey, Payoffs

SOLVER = "solver"  # the option that names a meta-solver
SIDES = "sides"  # the option that gives each side its own population


def meta_strategy(
    request: MatchRequest,
    *,
    solver: SolverOption = "nash",
    own: Annotated[float, Field(ge=0, le=1)] = 0.0,
    of: list[str] | None = None,
    by: list[str] | None = None,
    sides: Literal["together", "apart"] = "together",
) -> Seating:
    """Seat the learner against members of the league by the weights of a meta-solver.

    What: with probability ``own`` the learner plays itself. Otherwise each other team is drawn from
    the meta-strategy, so that the learner is trained as a response to it. The payoffs of the
    meta-game are those of the members against each other in this environment.
    When to use: PSRO (``solver: nash``, ``league.restart: true``), fictitious self-play
    (``uniform``), delta-uniform self-play (``delta_uniform``), vanilla self-play (``last``). With
    ``own`` above 0 the learner also plays itself, as the main policy of Fictitious Cross-Play does.
    Mathematics: with sigma the meta-strategy and U the meta-game (see ``league.meta_game``),

        sigma = solver(U)
        P(opponent is j) = (1 - own) sigma(j)

    With ``of`` and ``by``, U is the meta-game of the members B with tags ``by`` against the members
    A with tags ``of``. sigma is the strategy of A in its solution: the hardest mixture for B.

    With ``sides: apart`` U has a row for each member in the first side and a column for each in the
    second, and the opponent in side s is drawn from sigma_s. Each role then has its own population.
    If ``roles`` assign several policies, the member in side s is a snapshot of the side's policy.
    ``league.plays`` then also measures a member against itself.

    Pitfalls: U is measured by episodes. Without ``league.plays`` all payoffs are 0, and a solver
    that reads them is useless. With few episodes a Nash equilibrium is unstable;
    ``max_entropy_nash`` or ``projected_replicator`` move less. If all seats are one team, each seat
    is an independent draw. As long as there is no member, the learner plays itself;
    ``league.start: true`` makes its initial weights the first member. The last policy only responds
    to a mixture, so the result of such a run is the mixture of its members (with ``sides: apart``
    one for each side).
    Reference: Lanctot et al., 2017 (arXiv 1711.00832), PSRO; Xu et al., 2023 (arXiv 2310.03354),
    Fictitious Cross-Play.
    Verified by: tests/league/matchmakers/test_meta_strategy.py.

    Args:
        solver: a meta-solver (`sparring list league.meta_solvers`), with its options, such as
            ``{name: delta_uniform, delta: 0.5}``. Default "nash".
        own: share of the initial states with self-play, in [0, 1]. Default 0; Fictitious
            Cross-Play's is 0.3.
        of: tags of the opponents, in a league of several learners. null (default): all members.
        by: tags of the members against which they are weighed. null (default): the same as ``of``.
            The counter policy of Fictitious Cross-Play has ``of: [main], by: [counter]``.
        sides: "together" (default): members may sit in any side; "apart": the meta-game has a
            population for each of two sides, as PSRO has in games with different roles. Solvers of
            two sides take the payoffs of the sides as opposed (zero-sum).

    Raises:
        ConfigError: sides are apart, and the environment has not two sides, or ``by`` is set.
        GameError: the solver cannot solve the meta-game.
    """
    if sides == APART and (by or len(request.sides) != 2):
        raise ConfigError(
            f"matchmaker 'meta_strategy': sides: apart is for two sides, without by; "
            f"{request.label!r} has {len(request.sides)}, and by is {by}. Write sides: together."
        )
    members = _with_tag(request, of)
    if not members or request.stream.uniform(0) < own:
        return self_play(request)
    others, solver_json = _with_tag(request, by) if by else (), json.dumps(solver, sort_keys=True)
    book, seats = IdentityKey(request.payoffs), [side[0] for side in request.sides]
    if sides == APART:
        weights = _solve_apart(book, members, request.label, (seats[0], seats[1]), solver_json)
    else:
        weights = (_solve_together(book, members, others, request.label, solver_json),) * len(seats)
    weights_at = dict(zip(seats, weights, strict=True))
    return seat_vs(
        request,
        lambda seat: draw_member(members, weights_at[seat], request.stream.child(seat).uniform(0)),
    )


def _with_tag(request: MatchRequest, tags: list[str] | None) -> tuple[PlayerRef, ...]:
    return tuple(
        member for member in request.members if tags is None or request.tag(member) in tags
    )


@lru_cache(maxsize=16)  # all initial states of a step have the same book
def _solve_together(
    book: IdentityKey[Payoffs],
    members: tuple[PlayerRef, ...],
    others: tuple[PlayerRef, ...],
    environment: str,
    solver: str,
) -> tuple[float, ...]:
    """Return each member's weight against ``others`` (or each other), [m]; ``solver`` is JSON."""
    game = member_payoffs(book.value, members, {environment: 1.0}, others)
    return tuple(solve_meta_game(json.loads(solver), game).sides[1].tolist())


@lru_cache(maxsize=16)
def _solve_apart(
    book: IdentityKey[Payoffs],
    members: tuple[PlayerRef, ...],
    environment: str,
    seats: tuple[int, int],
    solver: str,
) -> tuple[tuple[float, ...], ...]:
    """Return the weight of each member in each side, [2][m]; ``seats`` are their first seats."""
    solver_options = json.loads(solver)
    opposed = is_two_sided(bind_solver(solver_options))
    game = side_payoffs(book.value, members, environment, seats, opposed=opposed)
    return tuple(tuple(side.tolist()) for side in solve_meta_game(solver_options, game).sides)
