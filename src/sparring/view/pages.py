"""The answers of the HTTP API: functions of runs and request parameters, without a server."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparring.report.explanations import meanings
from sparring.report.run_page import weights_note
from sparring.run.folder import PLAYED_FOLDER
from sparring.view import standings
from sparring.view.action_probabilities import ActionProbabilities
from sparring.view.episode_replay import Replays, siblings
from sparring.view.episode_search import find, int_param
from sparring.view.http_requests import RequestError
from sparring.view.league_members import family
from sparring.view.league_weights import MetaStrategies
from sparring.view.position_pictures import Picture, PositionPictures
from sparring.view.run_files import FigureColumns, axis, thinned_indices
from sparring.view.static_pages import replay_page
from sparring.view.viewed_run import PEOPLE, ViewedRun
from sparring.view.watch import RunWatcher
from sparring.view.worker_process import WorkerProcess

WITH_REFERENCES = ("nash_conv/", "regret/", "optimal_rate/")  # metrics that have references
BUSY_SECONDS = 20.0  # largest time that a search waits for the previous search
SPARK_POINTS = 60  # default number of points of a small curve
NUM_PRELOADED_RUNS = 8  # runs whose tokenizers are loaded at the start
MAX_CACHED_SEARCHES = 16  # size of the cache of searches
MAX_NAMES = 64  # largest number of metrics in one request
QueryParams = Mapping[str, str]
Answer = dict[str, Any]
AXES = ("step", "plays", "tokens", "seconds")
MAX_POINTS = 2000  # largest number of points of a curve
MAX_EVENTS = 500  # largest number of health events in an answer; the newest are sent


class Pages:
    """The answers to requests; thread-safe.

    Args:
        watch: the runs and their index.
    """

    def __init__(self, watch: RunWatcher) -> None:
        self.watch = watch
        self.replays = Replays()
        self._boards, self._probabilities = PositionPictures(), ActionProbabilities()
        self._reference_lines = WorkerProcess("sparring.view.pages")
        self._meta = MetaStrategies()
        self._search_lock = threading.Lock()
        self._searches: OrderedDict[tuple[Any, ...], Answer] = (
            OrderedDict()
        )  # results of the latest searches

    def preload(self) -> None:
        """Load the tokenizers of a few runs, so that the first replay is quick."""
        self.watch.idle.wait()
        for run in self.watch.runs[:NUM_PRELOADED_RUNS]:
            self.replays.decoder(self._read_run(run))

    def runs(self, params: QueryParams) -> Answer:
        """Return the table of runs."""
        self.watch.check_runs()
        return self._versioned(lambda: {"runs": [self._summary(run) for run in self.watch.runs]})

    def _summary(self, run: ViewedRun) -> Answer:
        with run.lock:
            row = run.refresh().summary()
        index = self.watch.index
        indexed_steps = [key for key in list(index.signatures) if key.run == run.number]
        row["episodes"] = {
            "parts": index.num_stored_steps.get(run.number, 0),
            "indexed": len(indexed_steps),
            "rows": sum(index.num_episodes.get(key, 0) for key in indexed_steps),
            "indexing": self.watch.indexing(run.number),
            "left_out": sum(key.run == run.number for key, _ in list(index.skipped_parts)),
        }
        return row

    def run(self, params: QueryParams) -> Answer:
        """Return the details of a run."""
        run = self.watch.run(params["run"])

        def respond() -> Answer:
            with run.lock:
                run.refresh()
                return {
                    "run": run.number,
                    "name": run.name,
                    "state": run.state,
                    "config": run.flat,
                    "provenance": run.starts,
                    "checkpoints": run.checkpoints(),
                    "stored": sorted(
                        stored.step
                        for stored in list(self.watch.index.signatures)
                        if stored.run == run.number
                    ),
                    "meanings": meanings([*run.metrics.curves, *run.timing.curves]),
                    "weights": weights_note(run.config, run.metrics.curves),
                    "metrics": sorted(run.metrics.curves),
                    "timing": sorted(run.timing.curves),
                    "notes": run.notes(),
                }

        return self._versioned(respond)

    def differences(self, params: QueryParams) -> Answer:
        """Return the differences between the configurations of runs."""
        runs = self.watch.runs_of(params.get("runs", ""))
        for run in runs:
            with run.lock:
                run.refresh()
        return self._versioned(
            lambda: {"runs": [run.number for run in runs], "rows": differences(runs)}
        )

    def series(self, params: QueryParams) -> Answer:
        """Return curves of a run."""
        run = self.watch.run(params["run"])
        points = max(2, int_param(params, "points", MAX_POINTS, MAX_POINTS))

        def respond() -> Answer:
            with run.lock:
                run.refresh()
                x, since = params.get("x", "step"), params.get("since", "")
                return series(run, _names(params), x, since, points)

        return self._versioned(respond)

    def references(self, params: QueryParams) -> Answer:
        """Return the values of random and best play for a run's figures."""
        run = self.watch.run(params["run"])
        with run.lock:
            names = sorted(run.refresh().metrics.curves)
        if not any(name.startswith(WITH_REFERENCES) for name in names):
            return self._versioned(lambda: {"run": run.number, "figures": {}})
        config = {key: run.config[key] for key in ("environments", "games") if key in run.config}
        question = {"config": config, "names": names}
        return self._versioned(lambda: {"run": run.number, **self._reference_lines.ask(question)})

    def sparks(self, params: QueryParams) -> Answer:
        """Return small curves of several runs."""
        runs = self.watch.runs_of(params.get("runs", ""))
        points = max(2, int_param(params, "points", SPARK_POINTS, 200))

        def respond() -> Answer:
            by_run: dict[int, Answer] = {}
            for run in runs:
                with run.lock:
                    run.refresh()
                    curves = {name: spark(run, name, points) for name in _names(params)}
                by_run[run.number] = {
                    name: curve for name, curve in curves.items() if curve is not None
                }
            return {"runs": by_run}

        return self._versioned(respond)

    def league(self, params: QueryParams) -> Answer:
        """Return the results between the players of a run."""
        return self._for_run(params, standings.league)

    def family(self, params: QueryParams) -> Answer:
        """Return the members of a run's league with their parents."""
        return self._for_run(params, family)

    def meta(self, params: QueryParams) -> Answer:
        """Return the weight of each league member by a meta-solver."""
        run = self._read_run(self.watch.run(params["run"]))
        solver, environment = params.get("solver", ""), params.get("environment", "")
        return self._versioned(lambda: self._meta.of(run, solver, environment))

    def workers(self, params: QueryParams) -> Answer:
        """Return how busy workers were, and which were lost."""
        return self._for_run(params, standings.workers)

    def episodes(self, params: QueryParams) -> Answer:
        """Return a page of the episodes that meet all conditions."""
        watch = self.watch
        watch.note_use()

        def respond() -> Answer:
            if not self._search_lock.acquire(timeout=BUSY_SECONDS):
                raise RequestError(503, "another search is running; try again")
            try:
                return self._search(params)
            finally:
                self._search_lock.release()

        return self._versioned(respond)

    def _search(self, params: QueryParams) -> Answer:
        """Return the results of a search, from the cache if the index has not changed."""
        index = self.watch.index
        key = (index.generation, *sorted(params.items()))
        if key not in self._searches:
            skipped_parts = [
                {
                    "run": stored.run % PEOPLE,
                    "part": f"{PLAYED_FOLDER}/" * (stored.run >= PEOPLE) + part.part,
                    "why": part.why,
                }
                for (stored, _), part in sorted(index.skipped_parts.copy().items())
            ]
            results = find(index, params, self.watch.folders(run.number for run in self.watch.runs))
            self._searches[key] = {
                **results,
                "indexed": self.watch.indexed(),
                "left_out": skipped_parts,
            }
            while len(self._searches) > MAX_CACHED_SEARCHES:
                self._searches.popitem(last=False)
        return self._searches[key]

    def episode(self, params: QueryParams) -> Answer:
        """Return one episode."""
        run, step, number, seat = self._episode_of(params)
        return self._versioned(lambda: self.replays.show(run, step, number, seat))

    def group(self, params: QueryParams) -> Answer:
        """Return the episodes of a group, which share an initial state."""
        run = self.watch.run(params["run"])
        step = int_param(params, "step", 0, 1 << 53)
        group = int_param(params, "group", 0, 1 << 62)
        return self._versioned(
            lambda: {"run": run.number, **siblings(run, step, group, _seat(params))}
        )

    def board(self, params: QueryParams) -> Picture:
        """Return a picture of the position before a turn, or at the end.

        Raises:
            RequestError: the episode, turn or seat does not exist.
        """
        run, step, number, seat = self._episode_of(params)
        episode = self.replays.find(run, step, number).episode
        turn, dark = int_param(params, "turn", 0, 10**6), params.get("theme") == "dark"
        if turn > len(episode.turns):
            raise RequestError(404, "there is no such turn")
        if seat is not None and seat >= len(episode.roles):
            raise RequestError(404, "there is no such seat")
        return self._boards.draw(run, step, number, turn, seat, "dark" if dark else "light")

    def policy(self, params: QueryParams) -> Answer:
        """Return the policy's probability of each legal action at a turn.

        Raises:
            RequestError: the episode or turn does not exist, or it is another seat's turn.
        """
        run, step, number, seat = self._episode_of(params)
        episode = self.replays.find(run, step, number).episode
        turn = int_param(params, "turn", 0, 10**6)
        if turn >= len(episode.turns):
            raise RequestError(404, "there is no such turn")
        if seat not in (None, episode.turns[turn].seat):
            raise RequestError(404, "the turn belongs to another seat")
        return self._versioned(lambda: {**self._probabilities.at(run, step, episode, turn)})

    def export(self, params: QueryParams) -> bytes:
        """Return a replay as one HTML file."""
        run, step, number, seat = self._episode_of(params)
        replay = self.replays.show(run, step, number, seat)
        if not replay["pictures"]:
            return replay_page(replay, {})
        episode = self.replays.find(run, step, number).episode
        return replay_page(replay, self._boards.all(run, step, episode, seat))

    def close(self) -> None:
        """End the processes that were started for answers."""
        self._boards.close()
        self._reference_lines.close()
        self._probabilities.close()

    def changes(self, params: QueryParams) -> Answer | None:
        """Return what has changed since a version of the data; None if nothing has changed."""
        return self.watch.changes(int_param(params, "since", 0, 1 << 53))

    def _versioned(self, respond: Callable[[], Answer]) -> Answer:
        """Return an answer with the data version from before it was computed."""
        version = self.watch.version
        return {"version": version, **respond()}

    def _for_run(self, params: QueryParams, respond: Callable[[ViewedRun], Answer]) -> Answer:
        run = self.watch.run(params["run"])

        def respond_locked() -> Answer:
            with run.lock:
                return respond(run.refresh())

        return self._versioned(respond_locked)

    def _episode_of(self, params: QueryParams) -> tuple[ViewedRun, int, int, int | None]:
        run = self._read_run(self.watch.run(params["run"]))
        step = int_param(params, "step", 0, 1 << 53)
        number = int_param(params, "episode", 0, 1 << 62)
        return run, step, number, _seat(params)

    def _read_run(self, run: ViewedRun) -> ViewedRun:
        with run.lock:
            return run.refresh()


def _names(params: QueryParams) -> list[str]:
    return [name for name in params.get("names", "").split(",") if name][:MAX_NAMES]


def _seat(params: QueryParams) -> int | None:
    return int_param(params, "seat", 0, 10**6) if params.get("seat") else None


def series(run: ViewedRun, names: Sequence[str], x: str, since: str, points: int) -> dict[str, Any]:
    """Return curves of a run, and the events of its health rules.

    Args:
        run: a refreshed run, whose lock is held.
        names: names of metrics in metrics.jsonl or timing.jsonl.
        x: one of ``AXES``.
        since: ``cursor`` of an earlier answer; only newer data are returned.
        points: largest number of points per curve.

    Raises:
        RequestError: the axis does not exist.
    """
    if x not in AXES:
        raise RequestError(400, f"x is one of {', '.join(AXES)}")
    ends = _end_lines(run, x)
    starts, is_complete = _start_lines(run, since, ends)
    curves = {}
    for name in names:
        for index, figures in enumerate((run.metrics, run.timing)):
            if name in figures.curves:
                span = (starts[index], ends[index])
                curves[name] = _curve(run, figures, name, x, span, points)
                break
    events = run.health.events[starts[2] : ends[2]][-MAX_EVENTS:]
    positions = axis(x, [event["step"] for event in events], run.timing).tolist()
    return {
        "run": run.number,
        "x": x,
        "cursor": ".".join(map(str, (*_generations(run), *ends))),
        "from_start": is_complete,
        "series": curves,
        "events": [event | {"x": index} for event, index in zip(events, positions, strict=True)],
    }


def _generations(run: ViewedRun) -> list[int]:
    return [lines.generation for lines in (run.metrics, run.timing, run.health)]


def _end_lines(run: ViewedRun, x: str) -> list[int]:
    """Return the number of drawable lines of each file; only the axis step needs no timing."""
    metrics = len(run.metrics.steps)
    if x != "step" and run.timing.steps:
        metrics = bisect_right(run.metrics.steps, run.timing.steps[-1])
    return [metrics, len(run.timing.steps), len(run.health.events)]


def _start_lines(run: ViewedRun, since: str, ends: Sequence[int]) -> tuple[list[int], bool]:
    fields = since.split(".")
    if len(fields) != 6 or not all(part.isascii() and part.isdigit() for part in fields):
        return [0, 0, 0], True
    numbers = [int(part[:18]) for part in fields]
    starts = numbers[3:]
    if numbers[:3] != _generations(run) or any(map(int.__gt__, starts, ends)):
        return [0, 0, 0], True
    return starts, False


def _curve(
    run: ViewedRun, figures: FigureColumns, name: str, x: str, lines: tuple[int, int], points: int
) -> dict[str, Any]:
    curve = figures.curves[name]
    first, last = np.searchsorted(np.array(curve.lines), lines)
    steps = np.array(figures.steps)[np.array(curve.lines[first:last], dtype=np.int64)]
    values = np.array(curve.values[first:last])
    positions = axis(x, steps.tolist(), run.timing)
    indices = thinned_indices(positions, values, points)
    return {
        "step": steps[indices].tolist(),
        "x": positions[indices].tolist(),
        "y": values[indices].tolist(),
        "thinned": len(indices) < len(values),
    }


def spark(run: ViewedRun, name: str, points: int) -> list[float] | None:
    """Return the values of a metric for a small chart; None if the run lacks it."""
    curve = run.metrics.curves.get(name) or run.timing.curves.get(name)
    if curve is None:
        return None
    values = np.array(curve.values)
    points_of_curve: list[float] = values[thinned_indices(values, values, points)].tolist()
    return points_of_curve


def differences(runs: Sequence[ViewedRun]) -> list[dict[str, Any]]:
    """Return the configuration keys that differ between runs, with their values."""
    keys = sorted({key for run in runs for key in run.flat})
    rows = [{"key": key, "values": [run.flat.get(key) for run in runs]} for key in keys]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of random and best play; called in another process.

    Args:
        question: ``config`` with a run's environments, and ``names`` of metrics.
    """
    from sparring.report.baselines import (
        baselines_of,
    )  # imported here, because it imports OpenSpiel

    values = baselines_of(question["config"], question["names"])
    return {
        "figures": {
            name: [{"label": reference.label, "value": reference.value} for reference in references]
            for name, references in values.items()
        }
    }
