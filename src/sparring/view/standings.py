"""Results between a run's players, and how busy its workers were, from its records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparring.engine.workers.unit_scheduler import RECORDED_WORKERS
from sparring.ops.statistics import wilson_count
from sparring.report.ratings import PairResults, standings_of
from sparring.report.worker_status import (
    EPISODE_STATES,
    FAULT_TEXTS,
    count_by_state,
    idle_share_of_learner,
    workers_sentence,
)
from sparring.run.state import STATE, RunState
from sparring.view.league_members import read_newest
from sparring.view.league_weights import describe_answer
from sparring.view.viewed_run import ViewedRun

HALF_WIDTH = 0.05  # an interval of a win rate is narrow if its half-width is at most this
STEPS = 2000  # number of newest steps that the page of workers shows
Lines = Sequence[Mapping[str, Any]]


def league(run: ViewedRun) -> dict[str, Any]:
    """Return the payoff book of the newest readable checkpoint, without self-play."""
    notes: list[str] = []
    step, results = read_newest(
        run, (STATE,), lambda state: standings_of(RunState(owners=state).payoffs), notes
    )
    standings = [row for row in results or [] if row.player != row.opponent]
    has_decay = _has_decay(run)
    players = {row.player for row in standings} | {row.opponent for row in standings}
    return {
        "run": run.number,
        "step": step,
        "none": None if standings else _reason_without_league(run.config),
        "players": sorted(players),
        "half": HALF_WIDTH,
        "standings": [
            {**row._asdict(), "plays_more": _missing_plays(row, has_decay)} for row in standings
        ],
        "fades": has_decay,
        "answer": describe_answer(run.config),
        "exploitability": sorted(
            name for name in run.metrics.curves if name.startswith("nash_conv/")
        ),
        "notes": notes,
    }


def _reason_without_league(config: Mapping[str, Any]) -> str | None:
    league, matchmaker = config.get("league"), config.get("matchmaker")
    if isinstance(league, Mapping) and any(league.get(key) for key in ("every", "start")):
        return None
    name = matchmaker.get("name") if isinstance(matchmaker, Mapping) else matchmaker
    reason = ": mirror self-play" if name in ("mirror", None) else ""
    return f"This run has no league{reason}. league.every keeps snapshots: see docs/league.md."


def _has_decay(run: ViewedRun) -> bool:
    """Return whether older results count less, so that intervals do not become narrow."""
    league = run.config.get("league")
    decay = league.get("payoff_decay") if isinstance(league, dict) else None
    return isinstance(decay, int | float) and decay > 0


def _missing_plays(row: PairResults, has_decay: bool) -> int | None:
    """Return how many more episodes a narrow interval needs; None with decay or without results."""
    if row.exact:
        return 0
    if row.win_rate is None or has_decay:
        return None
    if row.high - row.low <= 2 * HALF_WIDTH:
        return 0
    return max(math.ceil(wilson_count(row.win_rate, HALF_WIDTH) - row.games), 1)


def workers(run: ViewedRun) -> dict[str, Any]:
    """Return the workers' metrics in timing.jsonl, by step."""
    timing, metrics = run.timing, run.metrics
    names = [*timing.curves]
    lines = [
        {"step": step, **dict(zip(names, values, strict=True))}
        for step, *values in zip(
            timing.steps[-STEPS:],
            *(timing.column(name)[-STEPS:].tolist() for name in names),
            strict=True,
        )
    ]
    keys = ("workers", "workers_idle")
    worker_lines = [line for line in lines if all(line.get(key, math.nan) >= 0 for key in keys)]
    lag = dict(zip(metrics.steps, metrics.column("lag").tolist(), strict=True))
    newest_lag = metrics.newest("lag")
    return {
        "run": run.number,
        "workers": bool(worker_lines),
        "sentence": workers_sentence(worker_lines, None if newest_lag is None else newest_lag[1])
        if worker_lines
        else "",
        "step": [line["step"] for line in worker_lines],
        "ready": [line["workers"] for line in worker_lines],
        "players_idle": [line["workers_idle"] for line in worker_lines],
        "learner_idle": [idle_share_of_learner(line) for line in worker_lines],
        "lag": [lag.get(line["step"]) for line in worker_lines],
        **lanes(run, worker_lines),
        "faults": [
            {"name": name, "text": text, "total": sum(count for _, count in steps), "steps": steps}
            for name, text in FAULT_TEXTS.items()
            for steps in [
                [[row["step"], row[name]] for row in worker_lines if row.get(name, 0.0) > 0]
            ]
        ],
        "account": _episode_counts(run),
    }


def _episode_counts(run: ViewedRun) -> list[dict[str, Any]]:
    newest = {name: run.metrics.newest(name) for name in EPISODE_STATES}
    counts = count_by_state({name: pair and pair[1] for name, pair in newest.items()})
    return [{"text": EPISODE_STATES[name], "number": number} for name, number in counts.items()]


def lanes(run: ViewedRun, lines: Lines) -> dict[str, Any]:
    """Return for each step the shares of time in which workers played or were ready.

    Args:
        run: the run of the workers.
        lines: lines of timing.jsonl in which workers played.

    Returns:
        ``lanes``, one per recorded worker; ``all``, from the totals of each step, with the number
        of workers at its end; ``wanted``, the number of workers that the run wants.
    """
    num_workers = _num_workers(run, lines)
    return {
        "wanted": num_workers,
        "all": {
            "playing": [_share(1 - line["workers_idle"]) for line in lines],
            "ready": [_ready_share(line, num_workers) for line in lines],
            "lost": _nonzero_counts(lines, "lost_workers"),
        },
        "lanes": [
            {
                "worker": worker,
                "playing": [_share(line.get(f"{prefix}/playing")) for line in lines],
                "ready": [_share(line.get(f"{prefix}/ready")) for line in lines],
                "lost": _nonzero_counts(lines, f"{prefix}/lost"),
            }
            for worker, prefix in enumerate(
                f"worker/{number}" for number in range(RECORDED_WORKERS)
            )
            if any(f"{prefix}/playing" in line for line in lines[-1:])
        ],
    }


def _num_workers(run: ViewedRun, lines: Lines) -> int:
    scale = run.config.get("scale")
    num_configured = scale.get("workers") if isinstance(scale, Mapping) else None
    num_workers = max((int(line["workers"]) for line in lines), default=0)
    return max(num_configured if type(num_configured) is int else 0, num_workers, 1)


def _ready_share(line: Mapping[str, Any], count: int) -> float | None:
    """Return the share of workers that were ready: at least the share that played."""
    playing, ready = _share(1 - line["workers_idle"]), _share(line["workers"] / count)
    return ready if playing is None or ready is None else max(playing, ready)


def _share(value: Any) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return round(min(max(float(value), 0.0), 1.0), 3)


def _nonzero_counts(lines: Lines, name: str) -> list[list[Any]]:
    return [[line["step"], line[name]] for line in lines if line.get(name, 0.0) > 0]
