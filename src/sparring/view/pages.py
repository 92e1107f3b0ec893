"""What each address answers: functions of the watch and the parameters, without a server."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparring.run.folder import PLAYED
from sparring.view import standings
from sparring.view.action_probabilities import Chances
from sparring.view.episode_replay import Replays, siblings
from sparring.view.episode_search import find, whole
from sparring.view.http_requests import Refused
from sparring.view.league_members import family
from sparring.view.meta_strategy import MetaStrategies
from sparring.view.position_pictures import Boards, Picture
from sparring.view.run_files import Figures, axis, thinned
from sparring.view.runs import PEOPLE, Run
from sparring.view.static_pages import replay_page
from sparring.view.watch import Watch
from sparring.view.worker_process import Aside

COMPARED = ("nash_conv/", "regret/", "optimal_rate/")  # a run with none of these is not solved
BUSY = 20.0  # seconds that a search waits for the one before it
SPARKS = 60  # points of a small curve
WARMED = 8  # runs whose tokenizers are made at the start
SEARCHES = 16  # whose answers are kept
NAMES = 64  # figures of one request
Asked = Mapping[str, str]
Answer = dict[str, Any]
AXES = ("step", "plays", "tokens", "seconds")
POINTS = 2000  # of a curve, at most
EVENTS = 500  # newest ones that are sent


class Pages:
    """The answers to requests; threads may share it.

    Args:
        watch: of the runs.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.replays = Replays()
        self._boards, self._chances = Boards(), Chances()
        self._reference_lines = Aside("sparring.view.pages")
        self._meta = MetaStrategies()
        self._heavy = threading.Lock()  # one search at a time
        self._searches: OrderedDict[tuple[Any, ...], Answer] = OrderedDict()  # the latest

    def warm(self) -> None:
        """Make ready what the first replay would wait for: the tokenizers of a few runs."""
        self.watch.idle.wait()
        for run in self.watch.runs[:WARMED]:
            self.replays.decoder(self._read_run(run))

    def runs(self, asked: Asked) -> Answer:
        """Return the table of runs."""
        self.watch.look()
        return self._of(lambda: {"runs": [self._summary(run) for run in self.watch.runs]})

    def _summary(self, run: Run) -> Answer:
        with run.lock:
            row = run.refresh().summary()
        index = self.watch.index
        steps = [place for place in list(index.known) if place.run == run.number]
        row["episodes"] = {
            "parts": index.wanted.get(run.number, 0),
            "indexed": len(steps),
            "rows": sum(index.rows.get(place, 0) for place in steps),
            "indexing": self.watch.indexing(run.number),
            "left_out": sum(place.run == run.number for place, _ in list(index.left_out)),
        }
        return row

    def run(self, asked: Asked) -> Answer:
        """Return all that is known of a run."""
        run = self.watch.run(asked["run"])

        def told() -> Answer:
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
                        place.step
                        for place in list(self.watch.index.known)
                        if place.run == run.number
                    ),
                    "metrics": sorted(run.metrics.curves),
                    "timing": sorted(run.timing.curves),
                    "notes": run.notes(),
                }

        return self._of(told)

    def differences(self, asked: Asked) -> Answer:
        """Return in what the configurations of runs differ."""
        runs = self.watch.several(asked.get("runs", ""))
        for run in runs:
            with run.lock:
                run.refresh()
        return self._of(lambda: {"runs": [run.number for run in runs], "rows": differences(runs)})

    def series(self, asked: Asked) -> Answer:
        """Return curves of a run."""
        run = self.watch.run(asked["run"])
        points = max(2, whole(asked, "points", POINTS, POINTS))

        def told() -> Answer:
            with run.lock:
                run.refresh()
                x, since = asked.get("x", "step"), asked.get("since", "")
                return series(run, _names(asked), x, since, points)

        return self._of(told)

    def references(self, asked: Asked) -> Answer:
        """Return what random and best play have of a run's figures."""
        run = self.watch.run(asked["run"])
        with run.lock:
            names = sorted(run.refresh().metrics.curves)
        if not any(name.startswith(COMPARED) for name in names):
            return self._of(lambda: {"run": run.number, "figures": {}})
        config = {key: run.config[key] for key in ("environments", "games") if key in run.config}
        question = {"config": config, "names": names}
        return self._of(lambda: {"run": run.number, **self._reference_lines.ask(question)})

    def sparks(self, asked: Asked) -> Answer:
        """Return small curves of several runs."""
        runs = self.watch.several(asked.get("runs", ""))
        points = max(2, whole(asked, "points", SPARKS, 200))

        def told() -> Answer:
            found: dict[int, Answer] = {}
            for run in runs:
                with run.lock:
                    run.refresh()
                    curves = {name: spark(run, name, points) for name in _names(asked)}
                found[run.number] = {name: own for name, own in curves.items() if own is not None}
            return {"runs": found}

        return self._of(told)

    def league(self, asked: Asked) -> Answer:
        """Return how the players of a run have done against each other."""
        return self._of_run(asked, standings.league)

    def family(self, asked: Asked) -> Answer:
        """Return the members of a run's league, and who came from whom."""
        return self._of_run(asked, family)

    def meta(self, asked: Asked) -> Answer:
        """Return how much each member of a run's league weighs, by a meta-solver."""
        run = self._read_run(self.watch.run(asked["run"]))
        solver, environment = asked.get("solver", ""), asked.get("environment", "")
        return self._of(lambda: self._meta.of(run, solver, environment))

    def workers(self, asked: Asked) -> Answer:
        """Return who played, waited and was lost."""
        return self._of_run(asked, standings.workers)

    def episodes(self, asked: Asked) -> Answer:
        """Return a page of the episodes that meet all conditions."""
        watch = self.watch
        watch.want()

        def told() -> Answer:
            if not self._heavy.acquire(timeout=BUSY):
                raise Refused(503, "another search is going on; try again")
            try:
                return self._found(asked)
            finally:
                self._heavy.release()

        return self._of(told)

    def _found(self, asked: Asked) -> Answer:
        """Return what a search finds; the same search of the same index is not made again."""
        index = self.watch.index
        key = (index.generation, *sorted(asked.items()))
        if key not in self._searches:
            left_out = [
                {
                    "run": place.run % PEOPLE,
                    "part": f"{PLAYED}/" * (place.run >= PEOPLE) + one.part,
                    "why": one.why,
                }
                for (place, _), one in sorted(index.left_out.copy().items())
            ]
            found = find(index, asked, self.watch.folders(run.number for run in self.watch.runs))
            self._searches[key] = {**found, "indexed": self.watch.indexed(), "left_out": left_out}
            while len(self._searches) > SEARCHES:
                self._searches.popitem(last=False)
        return self._searches[key]

    def episode(self, asked: Asked) -> Answer:
        """Return one episode."""
        run, step, number, seat = self._place(asked)
        return self._of(lambda: self.replays.show(run, step, number, seat))

    def group(self, asked: Asked) -> Answer:
        """Return the episodes that share a start."""
        run = self.watch.run(asked["run"])
        step, group = whole(asked, "step", 0, 1 << 53), whole(asked, "group", 0, 1 << 62)
        return self._of(lambda: {"run": run.number, **siblings(run, step, group, _seat(asked))})

    def board(self, asked: Asked) -> Picture:
        """Return a picture of the position before a turn, or at the end.

        Raises:
            Refused: there is no such episode, turn or seat.
        """
        run, step, number, seat = self._place(asked)
        episode = self.replays.find(run, step, number).episode
        turn, dark = whole(asked, "turn", 0, 10**6), asked.get("theme") == "dark"
        if turn > len(episode.turns):
            raise Refused(404, "there is no such turn")
        if seat is not None and seat >= len(episode.roles):
            raise Refused(404, "there is no such seat")
        return self._boards.draw(run, step, number, turn, seat, "dark" if dark else "light")

    def policy(self, asked: Asked) -> Answer:
        """Return how likely the policy says each legal action at a turn.

        Raises:
            Refused: there is no such episode or turn, or it is another seat's.
        """
        run, step, number, seat = self._place(asked)
        episode, turn = self.replays.find(run, step, number).episode, whole(asked, "turn", 0, 10**6)
        if turn >= len(episode.turns):
            raise Refused(404, "there is no such turn")
        if seat not in (None, episode.turns[turn].seat):
            raise Refused(404, "the turn is another seat's")
        return self._of(lambda: {**self._chances.at(run, step, episode, turn)})

    def exported(self, asked: Asked) -> bytes:
        """Return a replay as one HTML file."""
        run, step, number, seat = self._place(asked)
        shown = self.replays.show(run, step, number, seat)
        if not shown["pictures"]:
            return replay_page(shown, {})
        episode = self.replays.find(run, step, number).episode
        return replay_page(shown, self._boards.all(run, step, episode, seat))

    def close(self) -> None:
        """End what was started for answers."""
        self._boards.close()
        self._reference_lines.close()
        self._chances.close()

    def changes(self, asked: Asked) -> Answer | None:
        """Return what has changed since a version; None where nothing has."""
        return self.watch.changes(whole(asked, "since", 0, 1 << 53))

    def _of(self, told: Callable[[], Answer]) -> Answer:
        """Return an answer with the version from before it was read."""
        version = self.watch.version
        return {"version": version, **told()}

    def _of_run(self, asked: Asked, told: Callable[[Run], Answer]) -> Answer:
        run = self.watch.run(asked["run"])

        def locked() -> Answer:
            with run.lock:
                return told(run.refresh())

        return self._of(locked)

    def _place(self, asked: Asked) -> tuple[Run, int, int, int | None]:
        run = self._read_run(self.watch.run(asked["run"]))
        step, number = whole(asked, "step", 0, 1 << 53), whole(asked, "episode", 0, 1 << 62)
        return run, step, number, _seat(asked)

    def _read_run(self, run: Run) -> Run:
        with run.lock:
            return run.refresh()


def _names(asked: Asked) -> list[str]:
    return [name for name in asked.get("names", "").split(",") if name][:NAMES]


def _seat(asked: Asked) -> int | None:
    """Return the seat that looks; None for all."""
    return whole(asked, "seat", 0, 10**6) if asked.get("seat") else None


def series(run: Run, names: Sequence[str], x: str, since: str, points: int) -> dict[str, Any]:
    """Return curves of a run, and the events of its health rules.

    Args:
        run: refreshed, its lock held.
        names: of figures of metrics.jsonl or timing.jsonl.
        x: one of ``AXES``.
        since: the cursor of an earlier answer; only what is newer is returned then.
        points: of a curve, at most.

    Raises:
        Refused: there is no such axis.
    """
    if x not in AXES:
        raise Refused(400, f"x is one of {', '.join(AXES)}")
    ends = _ends(run, x)
    begins, fresh = _begins(run, since, ends)
    found = {}
    for name in names:
        for place, figures in enumerate((run.metrics, run.timing)):
            if name in figures.curves:
                span = (begins[place], ends[place])
                found[name] = _curve(run, figures, name, x, span, points)
                break
    events = run.health.events[begins[2] : ends[2]][-EVENTS:]
    places = axis(x, [event["step"] for event in events], run.timing).tolist()
    return {
        "run": run.number,
        "x": x,
        "cursor": ".".join(map(str, (*_generations(run), *ends))),
        "from_start": fresh,
        "series": found,
        "events": [event | {"x": place} for event, place in zip(events, places, strict=True)],
    }


def _generations(run: Run) -> list[int]:
    return [lines.generation for lines in (run.metrics, run.timing, run.health)]


def _ends(run: Run, x: str) -> list[int]:
    """A line of metrics is written before the one of timing that says where it lies."""
    metrics = len(run.metrics.steps)
    if x != "step" and run.timing.steps:
        metrics = bisect_right(run.metrics.steps, run.timing.steps[-1])
    return [metrics, len(run.timing.steps), len(run.health.events)]


def _begins(run: Run, since: str, ends: Sequence[int]) -> tuple[list[int], bool]:
    parts = since.split(".")
    if len(parts) != 6 or not all(part.isascii() and part.isdigit() for part in parts):
        return [0, 0, 0], True
    numbers = [int(part[:18]) for part in parts]
    begins = numbers[3:]
    if numbers[:3] != _generations(run) or any(map(int.__gt__, begins, ends)):
        return [0, 0, 0], True
    return begins, False


def _curve(
    run: Run, figures: Figures, name: str, x: str, span: tuple[int, int], points: int
) -> dict[str, Any]:
    curve = figures.curves[name]
    first, last = np.searchsorted(np.array(curve.lines), span)
    steps = np.array(figures.steps)[np.array(curve.lines[first:last], dtype=np.int64)]
    values = np.array(curve.values[first:last])
    places = axis(x, steps.tolist(), run.timing)
    kept = thinned(places, values, points)
    return {
        "step": steps[kept].tolist(),
        "x": places[kept].tolist(),
        "y": values[kept].tolist(),
        "thinned": len(kept) < len(values),
    }


def spark(run: Run, name: str, points: int) -> list[float] | None:
    """Return the values of a figure for a small picture; None where the run has none."""
    curve = run.metrics.curves.get(name) or run.timing.curves.get(name)
    if curve is None:
        return None
    values = np.array(curve.values)
    found: list[float] = values[thinned(values, values, points)].tolist()
    return found


def differences(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the keys of configurations that are not equal in all runs, with the values."""
    keys = sorted({key for run in runs for key in run.flat})
    rows = [{"key": key, "values": [run.flat.get(key) for run in runs]} for key in keys]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return what random and best play have of figures; it runs in another process.

    Args:
        question: ``config`` with the environments of a run, and ``names`` of figures.
    """
    from sparring.report.baselines import known_values  # here, as it brings OpenSpiel

    known = known_values(question["config"], question["names"])
    return {
        "figures": {
            name: [{"label": one.label, "value": one.value} for one in references]
            for name, references in known.items()
        }
    }
