"""What is refused of a league before anything of a run is written."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from sparring.config import RunConfig
from sparring.config.checks import PLAIN
from sparring.config.league import EXACT
from sparring.engine.base import Engine
from sparring.environments.base import filled_together, teams_of
from sparring.errors import ConfigError
from sparring.league.meta_payoffs import check_sides
from sparring.league.named import apart_by, solvers_of
from sparring.run.exact_payoffs import check_exact

log = logging.getLogger(__name__)


def check_league(
    config: RunConfig,
    environments: Iterable[tuple[Any, float]],
    engine: Engine | None = None,
) -> None:
    """Refuse what does not fit the environments, and warn of meta-solvers without payoffs.

    Args:
        config: of the run.
        environments: of the run, each with its weight.
        engine: that has them and the learners; None: it is not made, and exact values are not
            tried.

    Raises:
        ConfigError: a solver of two sides stands where there are more teams, or ``sides: apart``
            where there are not two; or there are no exact values where ``league.plays`` asks for
            them, or no solver for ``league.focus``.
    """
    if config.league.plays == EXACT and engine is not None:
        check_exact(config, engine)
    solvers = solvers_of(config)
    if config.league.focus and not solvers:
        raise ConfigError(
            "league.focus weighs members by a meta-strategy, and this run names no meta-solver; "
            "write league.answer: nash, say, or matchmaker: {name: meta_strategy}."
        )
    environments = list(environments)
    _check_apart(config, environments)
    trained = [game for game, weight in environments if weight]
    for where, solver in solvers.items():
        check_sides(solver, trained, where)
        reads = getattr(solver.plugin.module, "READS_PAYOFFS", True)
        if reads and config.league.every and not config.league.plays:
            log.warning(
                "%s: the members never meet, as league.plays is 0, so that %s takes all payoffs "
                "as 0; write league.plays: 500, say, or exact.",
                where,
                solver.plugin.name,
            )


def _check_apart(config: RunConfig, environments: Iterable[tuple[Any, float]]) -> None:
    """Refuse sides that are apart where there are not two.

    An environment that is held out is looked at as well where the answer is a mixture for each
    side, as it is measured there.

    Raises:
        ConfigError: there is such an environment.
    """
    mixed = config.league.answer not in PLAIN
    for where in apart_by(config):
        for game, weight in environments:
            sides = len(filled_together(tuple(teams_of(game))))
            if sides != 2 and (weight or mixed):
                what = "" if weight else " (held out, and measured)"
                raise ConfigError(
                    f"{where}: apart is for two sides, and {game.name!r}{what} has {sides}; write "
                    "sides: together, or leave the environment out."
                )
