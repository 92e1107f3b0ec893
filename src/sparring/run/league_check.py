"""What is refused of a league before anything of a run is written."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from sparring.config import RunConfig
from sparring.config.checks import PLAIN
from sparring.config.league import EXACT
from sparring.config_parts import PluginConfig
from sparring.engine.base import Engine
from sparring.errors import ConfigError
from sparring.league.meta_payoffs import check_sides
from sparring.registry import Bound
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
        ConfigError: a solver of two sides stands where there are more teams, or there are no exact
            values where ``league.plays`` asks for them, or no solver for ``league.focus``.
    """
    if config.league.plays == EXACT and engine is not None:
        check_exact(config, engine)
    solvers = solvers_of(config)
    if config.league.focus and not solvers:
        raise ConfigError(
            "league.focus weighs members by a meta-strategy, and this run names no meta-solver; "
            "write league.answer: nash, say, or matchmaker: {name: meta_strategy}."
        )
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


def solvers_of(config: RunConfig) -> dict[str, Bound]:
    """Return the meta-solvers of a run by the keys that name them: the answer's is the first."""
    given: dict[str, Any] = {}
    if config.league.answer not in PLAIN:
        given["league.answer"] = config.league.answer
    for where, matchmaker in _matchmakers(config).items():
        option = getattr(matchmaker.plugin.module, "SOLVER", None)
        if option is not None:
            given[f"{where}.{option}"] = _value(matchmaker, option)
    return {
        where: PluginConfig.model_validate(one).bind("league.meta_solvers")
        for where, one in given.items()
    }


def sides_apart(config: RunConfig) -> bool:
    """Return whether a matchmaker of the run weighs the members of each side by themselves."""
    for matchmaker in _matchmakers(config).values():
        option = getattr(matchmaker.plugin.module, "SIDES", None)
        if option is not None and _value(matchmaker, option) == "apart":
            return True
    return False


def _matchmakers(config: RunConfig) -> dict[str, Bound]:
    """Return the matchmakers of a run by the keys that name them."""
    asked = {"matchmaker": config.matchmaker}
    for name, own in config.league.learners.items():
        if own.matchmaker is not None:
            asked[f"league.learners.{name}.matchmaker"] = own.matchmaker
    return {where: one.bind("league.matchmakers") for where, one in asked.items()}


def _value(bound: Bound, option: str) -> Any:
    """Return what a plug-in's option is, where it is not given its default."""
    return bound.options.get(option, bound.plugin.options[option].default)
