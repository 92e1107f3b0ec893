"""Figures as they come: metrics.jsonl, health.jsonl and league.jsonl (functions of config, seed and
code), timing.jsonl, and the sinks of the run, which it does without where they fail.

Metrics, in timing.jsonl:
    failed_sinks            sinks (logging.sinks) that did not take the figures of the step; only
                            where there are any

Rules on a run's figures: what they warn of, and when they stop it.

All of their state is a function of the rules and of metrics.jsonl: who goes on from a checkpoint
reads the lines up to it again, so that a run that was killed or stopped decides as one that was
not. Meanings and remedies: docs/health.md.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.config import HealthConfig, HealthRule, PluginConfig, RunConfig, of_any
from sparring.config.plugins.guard import PluginCall
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError, HungError, SparringError
from sparring.core.files import disk_errors, parse_json, write_bytes_atomic
from sparring.run.sinks.base import Sink, Start

log = logging.getLogger(__name__)
PATIENCE = 3  # failures in a row from which on a sink rests between tries: 2, 4, 8 ... steps
LONGEST = 8  # power of 2 of the longest rest


def check_packages(sinks: Sequence[PluginConfig]) -> None:
    """Check that what the sinks import is there, before a run changes anything.

    Raises:
        ConfigError: a package is missing; the message names the extra that brings it.
    """
    for sink in sinks:
        bound = sink.bind("run.sinks")
        package = getattr(bound.plugin.module, "PACKAGE", None)
        if package is not None and importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"The {bound} needs the package {package}, which is not there; run pip install "
                f"'sparring[{package}]', or leave it out of logging.sinks."
            )


@dataclass(kw_only=True, slots=True)
class _OpenSink:
    bound: BoundPlugin
    sink: Sink
    failures: int = 0  # in a row
    rest: float = 0  # steps until it is asked again


class Sinks:
    """The sinks of a run that starts or goes on.

    Raises:
        SparringError: one of them cannot be opened.
    """

    def __init__(self, sinks: Sequence[PluginConfig], start: Start) -> None:
        self._open: list[_OpenSink] = []
        for bound in [sink.bind("run.sinks") for sink in sinks]:
            try:
                self._open.append(_OpenSink(bound=bound, sink=bound(start)))
            except SparringError:
                self.close()
                raise

    @classmethod
    def of(cls, config: RunConfig, folder: Path, step: int) -> Sinks:
        """Return those of a run after ``step`` steps."""
        check_packages(config.logging.sinks)
        whole = config.model_dump(mode="json")
        start = Start(folder=folder, name=config.name, seed=config.seed, step=step, config=whole)
        return cls(config.logging.sinks, start)

    def write(self, step: int, figures: Mapping[str, float]) -> int:
        """Give the finite figures of a step to all; return how many did not take them."""
        finite = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
        return sum(not self._taken(one, step, finite) for one in self._open)

    def _taken(self, one: _OpenSink, step: int, figures: Mapping[str, float]) -> bool:
        if one.rest:
            one.rest -= 1
            return False
        try:
            with PluginCall(one.bound):
                one.sink.write(step, figures)
        except SparringError as error:
            self._failed(one, step, error)
            return False
        one.failures = 0
        return True

    def _failed(self, one: _OpenSink, step: int, error: SparringError) -> None:
        """Say once in a row of failures that a sink failed, and let it rest if it fails on."""
        one.failures += 1
        if one.failures >= PATIENCE:
            one.rest = 2 ** min(one.failures - PATIENCE + 1, LONGEST)
        if isinstance(error, HungError):
            one.rest = math.inf
        if one.failures == 1 or one.rest == math.inf:
            then = "asked no more" if one.rest == math.inf else "tried again"
            log.warning(
                "%s Step %d is not in it; it is %s, and the run goes on.", error, step, then
            )

    def close(self) -> None:
        """Close all; what cannot be closed is said."""
        for one in self._open:
            try:
                with PluginCall(one.bound):
                    one.sink.close()
            except SparringError as error:
                log.warning("The %s could not be closed: %s", one.bound, error)


LARGEST = 1e150  # the square of a figure is still a number
LAST_STEP = 1 << 53  # beyond this a step is no exact number in a chart
METRICS, TIMING, HEALTH = "metrics.jsonl", "timing.jsonl", "health.jsonl"
LEAGUE = "league.jsonl"  # which snapshots were taken; there is none where none was


class MetricsWriter:
    """Appends one line per step to each file, one per event to health.jsonl, and one per snapshot
    to league.jsonl.

    A torn last line is dropped when a run goes on.

    Args:
        folder: of the run.
        sinks: where the figures go besides; None: nowhere.
    """

    def __init__(self, folder: Path, sinks: Sinks | None = None) -> None:
        self.folder, self._sinks = folder, sinks

    def truncate_after(self, step: int) -> None:
        """Drop the lines of later steps, and a torn last line."""
        for name in (METRICS, TIMING, HEALTH, LEAGUE):
            path = self.folder / name
            if name == LEAGUE and not path.exists():
                continue
            lines = [line for line in _lines(path) if line["step"] <= step]
            if name in (METRICS, TIMING) and (last := lines[-1]["step"] if lines else 0) < step:
                log.warning(
                    "%s is damaged: it has figures up to step %d, and those of the steps up to %d "
                    "are lost.",
                    path,
                    last,
                    step,
                )
            data = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()
            if not path.exists() or path.read_bytes() != data:
                write_bytes_atomic(path, data)

    def write(self, step: int, metrics: Mapping[str, float], timing: Mapping[str, float]) -> None:
        """Append a step's figures to both files, and give them to the sinks.

        Raises:
            RunError: the disk is full or not writable.
        """
        failed = self._sinks.write(step, {**metrics, **timing}) if self._sinks is not None else 0
        timing = {**timing, "failed_sinks": failed} if failed else timing
        for name, values in ((METRICS, metrics), (TIMING, timing)):
            self._append(
                name, {"step": step, **{key: _plain(value) for key, value in values.items()}}
            )

    def record(self, step: int, events: Iterable[Mapping[str, Any]]) -> None:
        """Append what health rules found in a step to health.jsonl.

        Raises:
            RunError: the disk is full or not writable.
        """
        for event in events:
            self._append(HEALTH, {**event, "step": step})

    def snapshots(self, step: int, taken: Iterable[Mapping[str, Any]]) -> None:
        """Append which snapshots a step has taken into the league to league.jsonl.

        Raises:
            RunError: the disk is full or not writable.
        """
        for one in taken:
            self._append(LEAGUE, {**one, "step": step})

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        with (
            disk_errors(self.folder / name),
            open(self.folder / name, "a", encoding="utf-8") as stream,
        ):
            stream.write(json.dumps(line, sort_keys=True) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """Return the figures of the steps written so far, each with its ``step``."""
        return read_figures(self.folder / METRICS)

    def latest(self) -> dict[str, float]:
        """Return the last value of every metric written so far."""
        values: dict[str, float] = {}
        for line in self.lines():
            values.update(
                {key: math.nan if value is None else value for key, value in line.items()}
            )
        values.pop("step", None)
        return values

    def close(self) -> None:
        """Close the sinks."""
        if self._sinks is not None:
            self._sinks.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file; a torn last line is left out, a missing file is empty."""
    return list(_lines(path))


def read_figures(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of figures as ``read_lines`` does, without what is no figure:
    text, lists, numbers beyond reason.
    """
    return [
        {key: value for key, value in line.items() if _is_figure(value)} for line in _lines(path)
    ]


def torn_after(path: Path) -> int | None:
    """Return the last step that can be read of a torn file of figures; None if it is not torn."""
    if not path.is_file():
        return None
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            parse_json(text)
        except ValueError:
            return max((line["step"] for line in _lines(path)), default=0)
    return None


def _is_figure(value: Any) -> bool:
    return value is None or (
        type(value) in (int, float) and (value != value or abs(value) < LARGEST)
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a file of JSON objects."""
    if not path.is_file():
        return
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = parse_json(text)
        except ValueError:
            return  # torn by a kill in the middle of a write; what follows cannot be trusted either
        if (
            isinstance(line, dict)
            and type(line.get("step")) is int
            and 0 <= line["step"] < LAST_STEP
        ):
            yield line


def _plain(value: float) -> float | None:
    """Return a number as JSON can hold it: not-a-number and infinities become null."""
    return float(value) if math.isfinite(value) else None


START = 5  # records of a metric whose mean is its start
UNRECORDED_AFTER = 10  # steps after which a metric that no step has recorded is taken for a mistake
_LEGAL = (
    "start from legal play (warmup.updates), let an illegal reply cost more "
    "(environments.0.illegal), lower learner.learning_rate"
)
_LONG = (
    "raise rollout.max_new_tokens, or let long replies cost something (a reward on the reply's "
    "length)"
)
_GROUPS = (
    "a larger rollout.group_size, a higher temperature, starts and opponents that are neither too "
    "easy nor too hard"
)
_RATIO = (
    "a lower learner.learning_rate, fewer epochs or minibatches; truncated importance weights if "
    "sampler and learner differ"
)
_PRECISION = (
    "sampler and learner disagree about the same weights: check precision, temperature and "
    "truncation"
)
REMEDIES = {  # first part of a metric's name -> what people usually do
    "legal_rate": _LEGAL,
    "unparsable_rate": _LEGAL,
    "truncated_rate": _LONG,
    "overlong_rate": (
        "raise model.context, let replies or the history be shorter (rollout.max_new_tokens, "
        "renderer.history=strip)"
    ),
    "reply_tokens": _LONG,
    "seat_asymmetry": (
        "snapshots or fixed opponents besides the mirror (matchmaker mixed), more entropy, an "
        "earlier checkpoint"
    ),
    "advantage_std": (
        "unless the game is solved: snapshots or fixed opponents (matchmaker mixed), more "
        "entropy, larger groups"
    ),
    "group_equal_share": _GROUPS,
    "group_deviation": _GROUPS,
    "sampled_entropy": (
        "a larger or slower fading entropy bonus, a lower learner.learning_rate, a KL penalty "
        "towards the start"
    ),
    "ratio_tail": _RATIO,
    "ratio_p99": _RATIO,
    "logprob_difference_max": _PRECISION,
    "logprob_difference_mean": _PRECISION,
    "nash_conv": (
        "a larger weight of the magnet (legal_magnet), a lower learner.learning_rate; the best "
        "checkpoint is an earlier one"
    ),
    "withheld_share": (
        "a larger scale.lag, a smaller scale.unit_games, or more workers: plays take longer than "
        "the steps that they may be old"
    ),
    "gradient_norm": (
        "a lower learner.learning_rate or learner.gradient_norm; if it is no number, an earlier "
        "checkpoint"
    ),
}
OTHERWISE = "see docs/health.md, and the metric's meaning in docs/metrics.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What a rule found: where, how much, whether the run stops, and all of it in plain words with
    the usual remedy.
    """

    step: int
    metric: str
    value: float | None  # None: no number, or a metric that never appeared
    stops: bool
    message: str

    def event(self) -> dict[str, Any]:
        """Return the line of health.jsonl, without its step."""
        return {
            "metric": self.metric,
            "value": self.value,
            "stops": self.stops,
            "message": self.message,
        }


class HealthMonitor:
    """Looks at every step's figures; a rule acts once per metric in a run."""

    def __init__(
        self,
        config: HealthConfig,
        steps: int,
        lines: Iterable[Mapping[str, Any]] = (),
        policies: Iterable[str] = (),
    ) -> None:
        """Begin with what the ``lines`` of metrics.jsonl say about the steps done.

        ``steps`` is the length of the run; a rule looks at the figures of each of its ``policies``.
        """
        self._policies = frozenset(policies)
        self._rules, self._stop, self._steps = config.rules, config.stop, steps
        self._streaks: dict[tuple[int, str], int] = {}  # unhealthy records in a row
        self._starts: dict[
            tuple[int, str], list[float]
        ] = {}  # the first records, for rules that compare with them
        self._best: dict[
            tuple[int, str], float
        ] = {}  # the best record, for rules that compare with it
        self._seen: set[int] = set()  # rules whose metric has been recorded
        self._acted: set[tuple[int, str]] = set()
        for line in lines:
            self.observe(
                line["step"], {name: value for name, value in line.items() if name != "step"}
            )

    def observe(self, step: int, metrics: Mapping[str, float | None]) -> list[Finding]:
        """Count a step's figures, once per step in order; return what the rules find now."""
        found = []
        for number, rule in enumerate(self._rules):
            names = sorted(
                name
                for name in metrics
                if matches(rule.metric, of_any(name, self._policies)) or name == rule.metric
            )
            if names:
                self._seen.add(number)
            elif number not in self._seen and step == UNRECORDED_AFTER and not rule.if_recorded:
                found.append(_missing(rule, step))
            for name in names if step > first_steps(rule, self._steps) else ():
                bounds = self._bounds((number, name), rule, metrics[name])
                if bounds is not None and self._count((number, name), bounds, metrics[name]):
                    found.append(
                        _finding(
                            bounds,
                            step,
                            name,
                            metrics[name],
                            stops=self._stop or rule.action == "stop",
                            policies=self._policies,
                        )
                    )
        return found

    def _bounds(
        self, key: tuple[int, str], rule: HealthRule, value: float | None
    ) -> HealthRule | None:
        """Return the rule with bounds in the metric's units; None while nothing compares."""
        if rule.times_best:
            return self._beside_best(key, rule, value)
        if not rule.times_start:
            return rule
        start = self._starts.setdefault(key, [])
        if len(start) < START:
            start.extend([value] if value is not None and math.isfinite(value) else [])
            return None
        return _times(rule, sum(start) / START)

    def _beside_best(
        self, key: tuple[int, str], rule: HealthRule, value: float | None
    ) -> HealthRule | None:
        best = self._best.get(key)
        if value is None or not math.isfinite(value):
            return _times(rule, best or 0.0)
        better = min if rule.above is not None else max
        self._best[key] = value if best is None else better(best, value)
        return None if best is None else _times(rule, best)

    def _count(self, key: tuple[int, str], rule: HealthRule, value: float | None) -> bool:
        self._streaks[key] = self._streaks.get(key, 0) + 1 if is_unhealthy(rule, value) else 0
        if self._streaks[key] < rule.for_steps or key in self._acted:
            return False
        self._acted.add(key)
        return True


def _times(rule: HealthRule, unit: float) -> HealthRule:
    """Return the rule with its bound as a multiple of ``unit``."""
    bounds = {
        name: factor * unit
        for name in ("above", "below")
        if (factor := getattr(rule, name)) is not None
    }
    return rule.model_copy(update=bounds)


def stopping(findings: Iterable[Finding]) -> str:
    """Return the message of the first finding that stops the run, or nothing."""
    return next((finding.message for finding in findings if finding.stops), "")


def is_unhealthy(rule: HealthRule, value: float | None) -> bool:
    """Return whether a value is beyond the rule's bound, or no finite number."""
    if value is None or not math.isfinite(value):
        return True
    return (rule.above is not None and value > rule.above) or (
        rule.below is not None and value < rule.below
    )


def first_steps(rule: HealthRule, steps: int) -> float:
    """Return how many steps at the beginning of a run of ``steps`` the rule does not look at."""
    return rule.after_step * steps if rule.after_step < 1 else rule.after_step


def matches(pattern: str, name: str) -> bool:
    """Return whether a metric's name fits a documented pattern, whose parts in capitals stand for
    anything.
    """
    parts = [
        r"[^/]+" if part.isupper() else re.escape(part)
        for part in pattern.split("/")
        if part != "..."
    ]
    return (
        re.fullmatch("/".join(parts) + ("/.*" if pattern.endswith("...") else ""), name) is not None
    )


def _finding(
    rule: HealthRule,
    step: int,
    name: str,
    value: float | None,
    *,
    stops: bool,
    policies: frozenset[str],
) -> Finding:
    number = value if value is not None and math.isfinite(value) else None
    bound = f"above {rule.above:g}" if rule.above is not None else f"below {rule.below:g}"
    often = f" for {rule.for_steps} records in a row" if rule.for_steps > 1 else ""
    state = (
        f"{name} is {number:.4g} at step {step}: {bound}{often}"
        if number is not None
        else f"{name} is no number at step {step}"
    )
    first = of_any(name, policies).split("/")[0]
    message = f"{state}. Usual remedy: {REMEDIES.get(first, OTHERWISE)}."
    return Finding(step=step, metric=name, value=number, stops=stops, message=message)


def _missing(rule: HealthRule, step: int) -> Finding:
    """Return the finding that nothing has been recorded for a rule; it never stops a run."""
    message = (
        f"No step up to {step} has recorded {rule.metric}, which a health rule watches: see "
        "metrics.jsonl for the names there are."
    )
    return Finding(step=step, metric=rule.metric, value=None, stops=False, message=message)
