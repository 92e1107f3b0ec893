"""Who beats whom, and who plays, waits and is lost: from a run's records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparring.engine.workers.unit_scheduler import RECORDED_WORKERS
from sparring.ops.statistics import wilson_count
from sparring.report.ratings import Standing, standings_of
from sparring.report.worker_status import (
    ACCOUNT,
    FAULTS,
    account_of,
    learner_idle,
    workers_sentence,
)
from sparring.run.state import STATE, RunState
from sparring.view.league_members import newest
from sparring.view.meta_strategy import answer_said
from sparring.view.runs import Run

HALF = 0.05  # half-width of an interval of a win rate that is narrow enough
STEPS = 2000  # newest ones whose workers are shown
Lines = Sequence[Mapping[str, Any]]


def league(run: Run) -> dict[str, Any]:
    """Return the payoff book of the newest checkpoint that can be read.

    Rows of a player against itself are left out: their win rate is one half.
    """
    notes: list[str] = []
    step, found = newest(
        run, (STATE,), lambda state: standings_of(RunState(owners=state).payoffs), notes
    )
    standings = [one for one in found or [] if one.player != one.opponent]
    fades = _fades(run)
    players = {one.player for one in standings} | {one.opponent for one in standings}
    return {
        "run": run.number,
        "step": step,
        "none": None if standings else _why_none(run.config),
        "players": sorted(players),
        "half": HALF,
        "standings": [
            {**one._asdict(), "plays_more": _plays_more(one, fades)} for one in standings
        ],
        "fades": fades,
        "answer": answer_said(run.config),
        "exploitability": sorted(
            name for name in run.metrics.curves if name.startswith("nash_conv/")
        ),
        "notes": notes,
    }


def _why_none(config: Mapping[str, Any]) -> str | None:
    """Return a sentence for a run whose configuration takes no snapshots; None for any other."""
    league, matchmaker = config.get("league"), config.get("matchmaker")
    if isinstance(league, Mapping) and any(league.get(key) for key in ("every", "start")):
        return None
    name = matchmaker.get("name") if isinstance(matchmaker, Mapping) else matchmaker
    how = ": mirror self-play" if name in ("mirror", None) else ""
    return f"This run has no league{how}. league.every keeps snapshots to play: see docs/league.md."


def _fades(run: Run) -> bool:
    """Return whether older results count less, so that more plays make no interval narrower."""
    league = run.config.get("league")
    decay = league.get("payoff_decay") if isinstance(league, dict) else None
    return isinstance(decay, int | float) and decay > 0


def _plays_more(one: Standing, fades: bool) -> int | None:
    """0 where the interval is narrow or exact; None where nothing was decided or results fade."""
    if one.exact:
        return 0
    if one.win_rate is None or fades:
        return None
    if one.high - one.low <= 2 * HALF:
        return 0
    return max(math.ceil(wilson_count(one.win_rate, HALF) - one.games), 1)


def workers(run: Run) -> dict[str, Any]:
    """Return what timing.jsonl says of a run's workers, step by step."""
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
    needed = ("workers", "workers_idle")
    told = [line for line in lines if all(line.get(name, math.nan) >= 0 for name in needed)]
    lag = dict(zip(metrics.steps, metrics.column("lag").tolist(), strict=True))
    newest = metrics.newest("lag")
    return {
        "run": run.number,
        "workers": bool(told),
        "sentence": workers_sentence(told, None if newest is None else newest[1]) if told else "",
        "step": [line["step"] for line in told],
        "ready": [line["workers"] for line in told],
        "players_idle": [line["workers_idle"] for line in told],
        "learner_idle": [learner_idle(line) for line in told],
        "lag": [lag.get(line["step"]) for line in told],
        **lanes(run, told),
        "faults": [
            {"name": name, "text": text, "total": sum(count for _, count in steps), "steps": steps}
            for name, text in FAULTS.items()
            for steps in [[[row["step"], row[name]] for row in told if row.get(name, 0.0) > 0]]
        ],
        "account": _plays(run),
    }


def _plays(run: Run) -> list[dict[str, Any]]:
    """Return what has become of the plays of a run in fresh order; empty in pinned order."""
    newest = {name: run.metrics.newest(name) for name in ACCOUNT}
    account = account_of({name: one and one[1] for name, one in newest.items()})
    return [{"text": ACCOUNT[name], "number": number} for name, number in account.items()]


def lanes(run: Run, told: Lines) -> dict[str, Any]:
    """Return the shares of each step in which workers played, waited and were not there.

    Args:
        run: whose workers they are.
        told: lines of timing.jsonl in which workers played.

    Returns:
        ``lanes``, one for each worker whose own figures are recorded, and ``all``, what the totals
        of a step say of all workers together: it counts who was there at the end of the step.
    """
    wanted = _wanted(run, told)
    return {
        "wanted": wanted,
        "all": {
            "playing": [_share(1 - line["workers_idle"]) for line in told],
            "ready": [_there(line, wanted) for line in told],
            "lost": _lost(told, "lost_workers"),
        },
        "lanes": [
            {
                "worker": worker,
                "playing": [_share(line.get(f"{own}/playing")) for line in told],
                "ready": [_share(line.get(f"{own}/ready")) for line in told],
                "lost": _lost(told, f"{own}/lost"),
            }
            for worker, own in enumerate(f"worker/{number}" for number in range(RECORDED_WORKERS))
            if any(f"{own}/playing" in line for line in told[-1:])
        ],
    }


def _wanted(run: Run, told: Lines) -> int:
    scale = run.config.get("scale")
    wanted = scale.get("workers") if isinstance(scale, Mapping) else None
    most = max((int(line["workers"]) for line in told), default=0)
    return max(wanted if type(wanted) is int else 0, most, 1)


def _there(line: Mapping[str, Any], wanted: int) -> float | None:
    """Return the share of the workers that were there; those that played were."""
    played, there = _share(1 - line["workers_idle"]), _share(line["workers"] / wanted)
    return there if played is None or there is None else max(played, there)


def _share(value: Any) -> float | None:
    """Return a share as one between 0 and 1; None where it is not recorded."""
    if value is None or not math.isfinite(value):
        return None
    return round(min(max(float(value), 0.0), 1.0), 3)


def _lost(told: Lines, name: str) -> list[list[Any]]:
    return [[line["step"], line[name]] for line in told if line.get(name, 0.0) > 0]
