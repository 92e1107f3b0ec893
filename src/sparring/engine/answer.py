"""The answer of a run: who is measured and played with in the end.

It is the policy as it is published, or a mixture of the league's members: one for all sides, or one
for each of two.
"""

from __future__ import annotations

from sparring.config.checks import LAST, PLAIN
from sparring.config_parts import PluginConfig
from sparring.engine.base import Engine
from sparring.league.meta_payoffs import (
    answer_payoffs,
    member_payoffs,
    takes_opposed,
    two_sides,
    unmet_note,
)
from sparring.league.payoffs import Payoffs
from sparring.players.base import Agent
from sparring.players.members import MemberMixture
from sparring.refs import LEARNER, PUBLISHED


def answer_of(engine: Engine, book: Payoffs, asked: str, *, apart: bool = False) -> Agent:
    """Return who answers for a run.

    Args:
        engine: of the run.
        book: its payoff book.
        asked: ``policy``, the published policy; ``average``, the same where the run keeps an
            average (``config.checks.check_answer``); ``last``, the learner's weights; or a
            meta-solver with its options, such as ``nash``: the mixture of the league's members that
            it gives. In several environments their payoffs are weighed as the environments are. As
            long as there are no members it is the published policy.
        apart: whether the population is solved for each of two sides (``league.named.apart_by``):
            then the mixture has weights for each.

    Raises:
        GameError: the solver cannot solve the meta-game.
        PluginError: the solver gave what is no distribution over the members.
    """
    if asked in PLAIN or not engine.members:
        return engine.agent(LEARNER if asked == LAST else PUBLISHED)
    solver = PluginConfig.model_validate(asked).bind("league.meta_solvers")
    trained = [(game, weight) for game, weight in engine.environments if weight]
    if apart:
        sides = {game.name: two_sides(game, weight) for game, weight in trained}
        opposed = takes_opposed(solver)
        meta_game = answer_payoffs(book, engine.members, sides, opposed=opposed)
    else:
        weights = {game.name: weight for game, weight in trained}
        meta_game = member_payoffs(book, engine.members, weights)
    notes = [note] if (note := unmet_note(solver, meta_game)) else []
    found = [
        dict(zip(engine.members, side.tolist(), strict=True)) for side in solver(meta_game).sides
    ]
    return MemberMixture(found[0], engine.agent, notes, found[1] if apart else None)
