"""The meta-solvers that a run names, and whether its population is solved for each side."""

from __future__ import annotations

from typing import Any

from sparring.config import RunConfig
from sparring.config.checks import PLAIN
from sparring.config.parts import PluginConfig
from sparring.config.plugins.registry import Bound
from sparring.league.matchmakers.meta_strategy import APART


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


def apart_by(config: RunConfig) -> tuple[str, ...]:
    """Return the keys by which members are weighed in each of two sides by themselves; or none.

    Then members meet themselves too (``league.plays``), and the answer of the run is a mixture for
    each side.
    """
    found = []
    for where, matchmaker in _matchmakers(config).items():
        option = getattr(matchmaker.plugin.module, "SIDES", None)
        if option is not None and _value(matchmaker, option) == APART:
            found.append(f"{where}.{option}")
    return tuple(found)


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
