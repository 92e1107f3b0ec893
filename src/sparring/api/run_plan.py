"""The plan of a run for ``sparring train --dry-run``: what it would do, need and take."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sparring.config import RunConfig
from sparring.config.gpus import on_gpus
from sparring.engine.plan import describe
from sparring.engine.plan_devices import devices
from sparring.engine.plan_workers import learners, players
from sparring.environments.catalogue import configured_game
from sparring.experiments.plan_hours import assumed, by_probe, by_rates
from sparring.experiments.time_estimate import estimate
from sparring.report.catalogue import check_metrics
from sparring.run.effect_check import check_effect
from sparring.run.league_check import check_league


def plan_of_run(config: RunConfig, assume: Iterable[str], times: Path | None) -> dict[str, Any]:
    """Return what a run would do, the memory it needs and the time it takes.

    Args:
        config: of the run.
        assume: figures of the machines, as texts such as "play=3000".
        times: what ``sparring scale probe`` wrote; None: there is nothing.

    Raises:
        SparringError: the run itself would be refused, or a figure cannot be read.
    """
    rates = assumed(assume)
    check_metrics(rule.metric for rule in config.health.rules)
    games = [(configured_game(section), section.weight) for section in config.environments]
    check_league(config, games)
    check_effect(config)
    plan = describe(config)
    memory = plan["model"].get("memory_parts_gib")
    plan["players"], plan["learners"] = players(config, memory), learners(config, memory)
    by_device = devices(config, rates.gpu_gb)
    if by_device:
        plan["devices"] = by_device
        plan["model"]["needs"] = "what devices say below"
        for section in ("model", "players", "learners"):
            for key in [key for key in plan[section] if key.startswith("memory")]:
                del plan[section][key]
    if times is not None:
        plan["time"] = by_probe(config, times)
    elif on_gpus(config) or rates.play or rates.learn:
        plan["time"] = by_rates(config, rates)
    else:
        plan["time"] = estimate(config, plan["model"].get("parameters"))
    return plan
