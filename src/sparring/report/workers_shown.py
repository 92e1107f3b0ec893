"""Who plays, who waits, what was lost, and what limits a run: from timing.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from sparring.report.page import marked
from sparring.report.svg import Series, line_chart

IDLE = 0.2  # share of the time from which on somebody counts as waiting
LATEST = 20  # steps that a sentence about now is of
FAULTS = {
    "lost_workers": "workers lost",
    "resent_units": "units played again",
    "timed_out_units": "units timed out",
    "duplicate_units": "answers to units that had one",
    "refused_weights": "files of weights refused",
}
ACCOUNT = {
    "issued_games": "issued to workers",
    "learned_games": "learnt from",
    "withheld_games": "withheld, as they were too old",
    "lost_games": "lost with a worker, a group or the training process",
    "open_games": "open",
}


def learner_idle(timing: Mapping[str, Any]) -> float:
    """Return the share of a step in which the learner waited for plays."""
    return (timing.get("seconds/play") or 0.0) / max(timing.get("seconds/round") or 0.0, 1e-9)


def limit(players: float, learner: float) -> tuple[str, str]:
    """Return what limits a run in a word, and what to do about it.

    Args:
        players: share of the workers' time in which they did not play.
        learner: share of its time in which the learner waited for plays.
    """
    if players >= IDLE and learner >= IDLE:
        return "waiting", "players and learner wait for each other: raise scale.lag"
    if learner >= IDLE:
        return "players", "the players are slower: more workers (scale.workers) help"
    if players >= IDLE:
        return "learner", "the learner is slower: more workers do not help"
    return "nothing", "players and learner are both busy"


def status(timing: Mapping[str, float], metrics: Mapping[str, float]) -> str:
    """Return the workers' part of the status line; empty where there are none."""
    if "workers" not in timing:
        return ""
    players, learner = timing["workers_idle"], learner_idle(timing)
    lag = f"  lag {metrics['lag']:.2g}" if "lag" in metrics else ""
    lost = sum(timing.get(name, 0.0) for name in ("lost_workers", "refused_weights"))
    return (
        f"{timing['workers']:.0f} workers{lag}  idle: players {players:.0%}, learner "
        f"{learner:.0%}  limit: {limit(players, learner)[0]}"
        f"{f'  {lost:.0f} lost' if lost else ''}{_balance(metrics)}"
    )


def account_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return what has become of the plays of a run in fresh order; empty in pinned order."""
    found = {name: metrics.get(name) for name in ACCOUNT}
    known = {name: float(value) for name, value in found.items() if value is not None}
    return known if len(known) == len(ACCOUNT) else {}


def _balance(metrics: Mapping[str, float]) -> str:
    """Return the account of plays as the end of a status line."""
    account = account_of(metrics)
    if not account:
        return ""
    first, *parts = (f"{name.removesuffix('_games')} {n:.0f}" for name, n in account.items())
    return f"  plays: {first} = {' + '.join(parts)}"


def workers_sentence(told: Sequence[Mapping[str, Any]], lag: float | None) -> str:
    """Return who waited in the latest steps, and what to do about it.

    Args:
        told: lines of timing.jsonl in which workers played, at least one.
        lag: steps that the players are behind; None where they play with the newest weights.
    """
    latest = told[-LATEST:]
    players = median(line["workers_idle"] for line in latest)
    learner = median(learner_idle(line) for line in latest)
    behind = "" if lag is None else f", {lag:.2g} steps ahead of the learner"
    return (
        f"{latest[-1]['workers']:.0f} workers played{behind}. In the last {len(latest)} steps the "
        f"players were idle for {players:.0%} of their time and the learner for {learner:.0%} of "
        f"its (medians): {limit(players, learner)[1]}."
    )


def workers_section(
    timing: Sequence[Mapping[str, Any]], metrics: Sequence[Mapping[str, Any]]
) -> str:
    """Return the report's part about workers; empty where nobody but the process played.

    Args:
        timing: the lines of timing.jsonl.
        metrics: those of metrics.jsonl.
    """
    needed = ("workers", "workers_idle")
    told = [line for line in timing if all(line.get(name) is not None for name in needed)]
    if not told:
        return ""
    lags = [line["lag"] for line in metrics if line.get("lag") is not None]
    sentence = workers_sentence(told, lags[-1] if lags else None)
    series = [
        Series(name="players", points=[(line["step"], line["workers_idle"]) for line in told]),
        Series(name="learner", points=[(line["step"], learner_idle(line)) for line in told]),
        Series(name="workers ready", points=[(line["step"], line["workers"]) for line in told]),
    ]
    charts = [
        line_chart(series[:2], title="Idle", note="share of the time without work"),
        line_chart(series[2:], title="Workers", note="ready at the end of each step"),
    ]
    if lags:
        points = [(line["step"], line["lag"]) for line in metrics if line.get("lag") is not None]
        lag = [Series(name="lag", points=points)]
        charts.append(line_chart(lag, title="Lag", note="steps that the players are behind"))
    drawn = "".join(f"<figure>{chart}</figure>" for chart in charts)
    rows = "".join(
        f"<tr><td>{marked(text)}</td><td>{sum(line.get(name) or 0 for line in told):.0f}</td></tr>"
        for name, text in FAULTS.items()
    )
    return (
        f"<h2>Workers</h2><p>{marked(sentence)}</p><div class='charts'>{drawn}</div>"
        f"<table><tr><th>what went wrong</th><th>times</th></tr>{rows}</table>"
        f"{_account(metrics)}"
    )


def _account(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return what became of the plays of a run in fresh order, as HTML; empty in pinned order."""
    account = account_of(metrics[-1]) if metrics else {}
    if not account:
        return ""
    rows = "".join(
        f"<tr><td>{marked(ACCOUNT[name])}</td><td>{number:.0f}</td></tr>"
        for name, number in account.items()
    )
    return f"<table><tr><th>plays</th><th>number</th></tr>{rows}</table>"
