"""Compares estimators of advantages on games by the credit lab, and returns plain data.

``sparring credit`` shows the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from sparring.api.load import load_run
from sparring.config import resolve
from sparring.config.parts import parse_named
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import PUBLISHED, Interval
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.base import Environment
from sparring.environments.catalogue import make_game
from sparring.measure.credit_lab import CreditLab, GradientFigures, LabPlan, LabReport, LabRow
from sparring.measure.exploitability import query_policy
from sparring.measure.info_states import ActionScorer, UniformScorer, enumerate_info_states
from sparring.measure.lab_episodes import TablePolicy, improved_table, random_table

RANDOM, IMPROVED, UNIFORM, TINY = "random", "improved", "uniform", "tiny"
MEASURES = tuple(field.name for field in fields(GradientFigures))
SHARES = ("right_sign", "zeros", "effective", "seconds")

LabGame = tuple[str, Environment, ActionScorer | None]
"""Name, environment and policy; the policy None is a table of random probabilities."""


def compare(
    games: Sequence[str],
    policy: str,
    estimators: Sequence[str],
    plan: LabPlan,
    *,
    max_states: int,
    watch: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Compare estimators on games and return their figures as plain data.

    Args:
        games: such as ``kuhn_poker`` or ``leduc_poker style=full``. If the policy is a run: names
            of the run's games; empty: all of them.
        policy: "random" (logits drawn from a normal distribution), "improved" (the random table
            after two steps of exact improvement), "uniform", "tiny" (the tiny model with random
            weights), or the path of a run folder (its published policy).
        estimators: names from ``estimator_names``.
        plan: sizes and seed of the comparison; equal plans give equal figures, except for seconds.
        max_states: largest number of information states of a game.
        watch: called with lines of progress.

    Raises:
        ConfigError: there is no game, or a game or the policy is wrong.
        RunError: the run folder does not exist or has no checkpoint.
        TooLargeError: a game has more information states than ``max_states``.
    """
    reports = []
    for label, game, scorer in _games_with_policy(games, policy, plan.seed):
        states = enumerate_info_states(game, limit=max_states)
        if scorer is None:
            table = random_table(
                states, Stream.from_seed(plan.seed).child("random table").child(game.name)
            )
            table = improved_table(table) if policy == IMPROVED else table
        else:
            table = TablePolicy.of(states, query_policy(scorer, states)[0])
        if watch:
            watch(
                f"{label}: {len(states):,} information states, "
                f"playing {plan.batches * plan.batch_size:,} episodes"
            )
        lab = CreditLab(game, table, plan)
        reports.append({**as_data(lab.report(estimators)), "game": label})
    settings = {
        "policy": policy,
        **{key: value for key, value in asdict(plan).items() if key != "timed"},
    }
    return {"settings": settings, "games": reports}


def _games_with_policy(games: Sequence[str], policy: str, seed: int) -> list[LabGame]:
    if policy not in (RANDOM, IMPROVED, UNIFORM, TINY):
        return _games_of_run(games, policy)
    if not games:
        raise ConfigError(
            "Name a game, e.g. --environment kuhn_poker; see `sparring list environments`."
        )
    entries: list[LabGame] = []
    for text in games:
        name, options = parse_named(text, "Game", "leduc_poker style=full")
        game = make_game(name, options=options)
        if policy == TINY:
            engine = LocalEngine(
                resolve({"seed": seed, "environments": [{"name": name, "options": options}]})
            )
            entries.append((text, engine.environments[0][0], _published_scorer(engine)))
        else:
            entries.append((text, game, UniformScorer() if policy == UNIFORM else None))
    return entries


def _games_of_run(games: Sequence[str], path: str) -> list[LabGame]:
    if not Path(path).exists():
        raise UnknownNameError(
            "policy",
            path,
            (RANDOM, IMPROVED, UNIFORM, TINY),
            f"Write one of these, or the path of a run folder; {path} does not exist.",
        )
    _, engine, _ = load_run(Path(path))
    game_of = {game.name: game for game, _ in engine.environments}
    for name in games:
        if name not in game_of:
            raise UnknownNameError(f"game of the run {path}", name, game_of)
    return [(name, game_of[name], _published_scorer(engine)) for name in games or game_of]


def _published_scorer(engine: LocalEngine) -> ActionScorer:
    policy: Any = engine.agent(PUBLISHED)
    return policy  # type: ignore[no-any-return]


def as_data(report: LabReport) -> dict[str, Any]:
    """Return a report as plain data, rows sorted by cosine; numbers not finite become None."""
    settings = {
        field.name: getattr(report, field.name)
        for field in fields(report)
        if field.name not in ("rows", "check", "returns")
    }
    rows = sorted(map(_row_data, report.rows), key=_sort_key)
    return {
        **settings,
        "returns": list(report.returns),
        "check": _interval_data(report.check),
        "rows": rows,
    }


def _row_data(row: LabRow) -> dict[str, Any]:
    if row.gradient is None:
        return {"estimator": row.estimator, "refused": row.refused}
    seats = {role: _figures_data(seat_figures) for role, seat_figures in row.seats.items()}
    shares = {name: _finite_or_none(getattr(row, name)) for name in SHARES}
    return {"estimator": row.estimator, **_figures_data(row.gradient), **shares, "seats": seats}


def _figures_data(figures: GradientFigures) -> dict[str, Any]:
    return {name: _interval_data(getattr(figures, name)) for name in MEASURES}


def _interval_data(interval: Interval) -> dict[str, float | None]:
    return {key: _finite_or_none(getattr(interval, key)) for key in ("mean", "low", "high")}


def _finite_or_none(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _sort_key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the sort key of a row: cosine, then variance; rows without figures come last."""
    if "refused" in row:
        return (1, 0.0, 0.0, row["estimator"])
    cosine, variance = row["cosine"]["mean"], row["variance_scaled"]["mean"]
    return (
        0,
        2.0 if cosine is None else -round(cosine, 3),
        math.inf if variance is None else round(variance, 6),
        row["estimator"],
    )
