"""Idle time of workers and learner, faults, and the bottleneck of a run, from timing.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from sparring.report.svg import Series, line_chart

IDLE = 0.2  # players or learner that are idle for this share of time or more are waiting
NUM_LATEST_STEPS = 20  # newest steps that ``workers_sentence`` covers
FAULT_TEXTS = {
    "lost_workers": "workers lost",
    "resent_units": "units played again",
    "timed_out_units": "units timed out",
    "duplicate_units": "units answered twice",
    "refused_weights": "damaged files of weights refused",
}
EPISODE_STATES = {
    "issued_games": "issued to workers",
    "learned_games": "trained on",
    "withheld_games": "withheld because they were too stale",
    "lost_games": "lost with a worker, a group or the training process",
    "open_games": "not finished, or not yet used by a step",
}


def idle_share_of_learner(timing: Mapping[str, Any]) -> float:
    """Return the share of a step in which the learner waited for episodes."""
    return (timing.get("seconds/play") or 0.0) / max(timing.get("seconds/round") or 0.0, 1e-9)


def find_bottleneck(players_idle: float, learner_idle: float) -> tuple[str, str]:
    """Return (bottleneck of a run as one word, advice).

    Args:
        players_idle: share of time in which the workers did not play.
        learner_idle: share of time in which the learner waited for episodes.
    """
    if players_idle >= IDLE and learner_idle >= IDLE:
        return "waiting", "players and learner wait for each other: raise scale.lag"
    if learner_idle >= IDLE:
        return "players", "the players are slower: more workers (scale.workers) help"
    if players_idle >= IDLE:
        return "learner", "the learner is slower: more workers do not help"
    return "nothing", "players and learner are both busy"


def format_status(timing: Mapping[str, float], metrics: Mapping[str, float]) -> str:
    """Return the workers' part of the status line; "" without workers."""
    if "workers" not in timing:
        return ""
    players_idle, learner_idle_share = timing["workers_idle"], idle_share_of_learner(timing)
    lag = f"  lag {metrics['lag']:.2g}" if "lag" in metrics else ""
    num_faults = sum(timing.get(name, 0.0) for name in ("lost_workers", "refused_weights"))
    bottleneck_name = find_bottleneck(players_idle, learner_idle_share)[0]
    text = (
        f"{timing['workers']:.0f} workers{lag}  idle: players {players_idle:.0%}, "
        f"learner {learner_idle_share:.0%}  limit: {bottleneck_name}"
        f"{f'  {num_faults:.0f} lost' if num_faults else ''}"
    )
    episode_counts = count_by_state(metrics)
    if not episode_counts:
        return text
    issued_text, *state_texts = (
        f"{name.removesuffix('_games')} {n:.0f}" for name, n in episode_counts.items()
    )
    return f"{text}  plays: {issued_text} = {' + '.join(state_texts)}"


def count_by_state(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of episodes by state; empty with ``scale.order: pinned``."""
    values = {
        name: float(metrics[name]) for name in EPISODE_STATES if metrics.get(name) is not None
    }
    return values if len(values) == len(EPISODE_STATES) else {}


def workers_sentence(lines: Sequence[Mapping[str, Any]], lag: float | None) -> str:
    """Return a sentence on the bottleneck in the latest steps, with advice.

    Args:
        lines: lines of timing.jsonl in which workers played, at least one.
        lag: staleness of the players' weights in steps; None without staleness.
    """
    latest_lines = lines[-NUM_LATEST_STEPS:]
    players_idle = median(line["workers_idle"] for line in latest_lines)
    learner_idle_share = median(idle_share_of_learner(line) for line in latest_lines)
    staleness_text = "" if lag is None else f", with weights that were {lag:.2g} steps old"
    advice = find_bottleneck(players_idle, learner_idle_share)[1]
    return (
        f"{latest_lines[-1]['workers']:.0f} workers played{staleness_text}. In the last "
        f"{len(latest_lines)} steps the players were idle for {players_idle:.0%} of their time "
        f"and the learner for {learner_idle_share:.0%} of its (medians): {advice}."
    )


def workers_section(
    timing: Sequence[Mapping[str, Any]], metrics: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the report's section on workers; None without workers.

    Args:
        timing: the lines of timing.jsonl.
        metrics: the lines of metrics.jsonl.
    """
    columns = ("workers", "workers_idle")
    lines = [line for line in timing if all(line.get(name) is not None for name in columns)]
    if not lines:
        return None
    player_points = [(line["step"], line["workers_idle"]) for line in lines]
    learner_points = [(line["step"], idle_share_of_learner(line)) for line in lines]
    ready_points = [(line["step"], line["workers"]) for line in lines]
    lag_points = [(line["step"], line["lag"]) for line in metrics if line.get("lag") is not None]
    idle_series = [
        Series(name="players", points=player_points),
        Series(name="learner", points=learner_points),
    ]
    charts = [
        line_chart(idle_series, title="Idle", note="share of the time without work"),
        line_chart(
            [Series(name="workers ready", points=ready_points)],
            title="Workers",
            note="ready at the end of each step",
        ),
    ]
    if lag_points:
        note = "staleness of the players' weights, in steps"
        charts.append(line_chart([Series(name="lag", points=lag_points)], title="Lag", note=note))
    episode_counts = count_by_state(metrics[-1]) if metrics else {}
    return {
        "sentence": workers_sentence(lines, lag_points[-1][1] if lag_points else None),
        "charts": charts,
        "faults": [
            (text, f"{sum(line.get(name) or 0 for line in lines):.0f}")
            for name, text in FAULT_TEXTS.items()
        ],
        "account": [
            (EPISODE_STATES[name], f"{number:.0f}") for name, number in episode_counts.items()
        ],
    }
