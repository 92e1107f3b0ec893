"""What is refused of a league before anything of a run is written."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from sparring.config import RunConfig
from sparring.config.checks import PLAIN
from sparring.config_parts import PluginConfig
from sparring.league.meta_payoffs import check_sides
from sparring.registry import Bound

log = logging.getLogger(__name__)


def check_league(config: RunConfig, environments: Iterable[tuple[Any, float]]) -> None:
    """Refuse meta-solvers that do not fit the environments, and warn of those without payoffs.

    Args:
        config: of the run.
        environments: of the run, each with its weight.

    Raises:
        ConfigError: a solver of two sides stands where there are more teams.
    """
    trained = [game for game, weight in environments if weight]
    for where, solver in _solvers(config).items():
        check_sides(solver, trained, where)
        reads = getattr(solver.plugin.module, "READS_PAYOFFS", True)
        if reads and config.league.every and not config.league.plays:
            log.warning(
                "%s: the members never meet, as league.plays is 0, so that %s takes all payoffs "
                "as 0; write league.plays: 500, say.",
                where,
                solver.plugin.name,
            )


def _solvers(config: RunConfig) -> dict[str, Bound]:
    """Return the meta-solvers of a run by the keys that name them."""
    given: dict[str, Any] = {}
    if config.league.answer not in PLAIN:
        given["league.answer"] = config.league.answer
    asked = {"matchmaker": config.matchmaker}
    for name, own in config.league.learners.items():
        if own.matchmaker is not None:
            asked[f"league.learners.{name}.matchmaker"] = own.matchmaker
    for where, one in asked.items():
        matchmaker = one.bind("league.matchmakers")
        option = getattr(matchmaker.plugin.module, "SOLVER", None)
        if option is not None:
            default = matchmaker.plugin.options[option].default
            given[f"{where}.{option}"] = matchmaker.options.get(option, default)
    return {
        where: PluginConfig.model_validate(one).bind("league.meta_solvers")
        for where, one in given.items()
    }
