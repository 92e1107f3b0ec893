"""The learner answers a meta-strategy of the league: its members, as a meta-solver weighs them."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from sparring.config_parts import PluginConfig
from sparring.league.matchmakers.base import MatchRequest, Seating, against, drawn, self_play
from sparring.league.meta_game import MetaStrategy
from sparring.league.meta_payoffs import member_payoffs
from sparring.league.payoffs import Payoffs
from sparring.refs import PlayerRef
from sparring.registry import Bound


def _there(solver: Any) -> Any:
    """Return a meta-solver as it was written, if there is such a one."""
    _bound(solver)
    return solver


def _bound(solver: Any) -> Bound:
    """Return the meta-solver that a text or a mapping names."""
    return PluginConfig.model_validate(solver).bind("league.meta_solvers")


def meta_strategy(
    request: MatchRequest,
    *,
    solver: Annotated[str | dict[str, Any], AfterValidator(_there)] = "nash",
    own: Annotated[float, Field(ge=0, le=1)] = 0.0,
) -> Seating:
    """Seat the learner against members of the league by the weights of a meta-solver.

    What: with probability ``own`` the learner sits in all seats. Else each other team is a draw
    from the meta-strategy, so that the learner becomes a response to it. The meta-game is that of
    the members' plays with each other in this environment.
    When to use: PSRO (``solver: nash``, ``league.restart: true``), fictitious self-play
    (``uniform``), delta-uniform self-play (``delta_uniform``), vanilla self-play (``last``). With
    ``own`` above 0 the learner plays itself as well, as the main policy of Fictitious Cross-Play
    does.
    Mathematics: with sigma the meta-strategy and U the meta-game (see ``league.meta_payoffs``),

        sigma = solver(U)
        P(opponent is j) = (1 - own) sigma(j)

    Pitfalls: U is measured by plays: without ``league.plays`` members have met nobody, all payoffs
    are 0, and a solver that reads them says nothing. Few plays make a Nash equilibrium jump;
    ``max_entropy_nash`` or ``projected_replicator`` move less. Where all seats are one team, each
    seat is a draw. As long as there is no member, the learner plays itself; ``league.start: true``
    makes its start the first member. Who answers a mixture is no equilibrium itself: the answer
    of such a run is the mixture of its members.
    Reference: Lanctot et al., 2017 (arXiv 1711.00832), PSRO; Xu et al., 2023 (arXiv 2310.03354),
    Fictitious Cross-Play.
    Verified by: tests/league/matchmakers/test_meta_strategy.py.

    Args:
        solver: a meta-solver (`sparring list league.meta_solvers`), with its options, such as
            ``{name: delta_uniform, delta: 0.5}``. Default "nash".
        own: share of the initial states that are played against the learner itself, in [0, 1].
            Default 0; Fictitious Cross-Play's is 0.3.

    Raises:
        GameError: the solver cannot solve the meta-game.
    """
    if not request.members or request.stream.uniform(0) < own:
        return self_play(request)
    label = request.environment.label or request.environment.name
    members = tuple(request.members)
    weights = _solved(_Held(request.payoffs), members, label, json.dumps(solver, sort_keys=True))
    return against(
        request, lambda seat: drawn(members, weights, request.stream.child(seat).uniform(0))
    )


class _Held:
    """A payoff book as a key: equal is the same book alone, which is kept as long as the key."""

    def __init__(self, book: Payoffs) -> None:
        self.book = book

    def __hash__(self) -> int:
        return id(self.book)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.book is self.book


@lru_cache(maxsize=16)  # all initial states of a step have the same book
def _solved(
    held: _Held, members: tuple[PlayerRef, ...], environment: str, solver: str
) -> tuple[float, ...]:
    """Return the weight of each member, [m].

    Args:
        held: the payoff book.
        members: of the league.
        environment: its label.
        solver: as it is written, in JSON.
    """
    game = member_payoffs(held.book, members, {environment: 1.0})
    found: MetaStrategy = _bound(json.loads(solver))(game)
    return tuple(found.sides[1].tolist())
