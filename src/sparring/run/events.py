"""Figures of a run as they are recorded: its files, its sinks, and its health rules.

metrics.jsonl, health.jsonl and league.jsonl are functions of config, seed and code; timing.jsonl is
not. A run continues without a sink that fails.

Metrics, in timing.jsonl:
    failed_sinks            sinks (logging.sinks) that did not take the figures of the step; only
                            where there are any

Health rules watch a run's figures: they warn, or stop the run. Their state is a function of the
rules and of metrics.jsonl: a run that resumes reads the lines up to its checkpoint again, and so
decides as one that was not interrupted. Meanings and remedies: docs/health.md.
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
from sparring.run.sinks.base import RunStart, Sink

log = logging.getLogger(__name__)
PATIENCE = 3  # failures in a row after which a sink pauses between tries: 2, 4, 8 ... steps
LONGEST = 8  # power of 2 of the longest pause


def check_packages(sinks: Sequence[PluginConfig]) -> None:
    """Check that the packages of the sinks are installed, before a run changes anything.

    Raises:
        ConfigError: a package is missing; the message names the extra that installs it.
    """
    for sink in sinks:
        bound = sink.bind("run.sinks")
        package = bound.plugin.declarations.PACKAGE
        if package is not None and importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"The {bound} needs the package {package}, which is not installed; run pip install "
                f"'sparring[{package}]', or remove it from logging.sinks."
            )


@dataclass(kw_only=True, slots=True)
class _OpenSink:
    bound: BoundPlugin
    sink: Sink
    failures: int = 0  # in a row
    rest: float = 0  # steps until the next try


class Sinks:
    """The sinks of a run that starts or resumes.

    Raises:
        SparringError: a sink cannot be opened.
    """

    def __init__(self, sinks: Sequence[PluginConfig], start: RunStart) -> None:
        self._open: list[_OpenSink] = []
        for bound in [sink.bind("run.sinks") for sink in sinks]:
            try:
                self._open.append(_OpenSink(bound=bound, sink=bound(start)))
            except SparringError:
                self.close()
                raise

    @classmethod
    def of(cls, config: RunConfig, folder: Path, step: int) -> Sinks:
        """Return the sinks of a run after ``step`` steps."""
        check_packages(config.logging.sinks)
        values = config.model_dump(mode="json")
        start = RunStart(
            folder=folder, name=config.name, seed=config.seed, step=step, config=values
        )
        return cls(config.logging.sinks, start)

    def write(self, step: int, figures: Mapping[str, float]) -> int:
        """Write the finite figures of a step to all sinks, and return how many sinks failed."""
        finite = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
        return sum(not self._write_to(open_sink, step, finite) for open_sink in self._open)

    def _write_to(self, open_sink: _OpenSink, step: int, figures: Mapping[str, float]) -> bool:
        if open_sink.rest:
            open_sink.rest -= 1
            return False
        try:
            with PluginCall(open_sink.bound):
                open_sink.sink.write(step, figures)
        except SparringError as error:
            self._record_failure(open_sink, step, error)
            return False
        open_sink.failures = 0
        return True

    def _record_failure(self, open_sink: _OpenSink, step: int, error: SparringError) -> None:
        """Warn at the first of several failures in a row, and pause a sink that keeps failing."""
        open_sink.failures += 1
        if open_sink.failures >= PATIENCE:
            open_sink.rest = 2 ** min(open_sink.failures - PATIENCE + 1, LONGEST)
        if isinstance(error, HungError):
            open_sink.rest = math.inf
        if open_sink.failures == 1 or open_sink.rest == math.inf:
            then = "not used again" if open_sink.rest == math.inf else "tried again"
            log.warning(
                "%s The sink lacks step %d; it is %s, and the run continues.", error, step, then
            )

    def close(self) -> None:
        """Close all sinks, and log those that cannot be closed."""
        for open_sink in self._open:
            try:
                with PluginCall(open_sink.bound):
                    open_sink.sink.close()
            except SparringError as error:
                log.warning("The %s could not be closed: %s", open_sink.bound, error)


LARGEST = 1e150  # its square is finite
LAST_STEP = 1 << 53  # larger steps are not exact in floating point
METRICS, TIMING, HEALTH = "metrics.jsonl", "timing.jsonl", "health.jsonl"
LEAGUE = "league.jsonl"  # the snapshots of the league; absent without any


class MetricsWriter:
    """Appends a run's figures, health findings and snapshots to its jsonl files.

    A torn last line is dropped when a run resumes.

    Args:
        folder: of the run.
        sinks: receive the figures as well; None: no sinks.
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
                    "%s is damaged: its figures end at step %d, and those of the steps up to %d "
                    "are lost.",
                    path,
                    last,
                    step,
                )
            data = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()
            if not path.exists() or path.read_bytes() != data:
                write_bytes_atomic(path, data)

    def write(self, step: int, metrics: Mapping[str, float], timing: Mapping[str, float]) -> None:
        """Append a step's figures to both files, and write them to the sinks.

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
        """Append the findings of health rules in a step to health.jsonl.

        Raises:
            RunError: the disk is full or not writable.
        """
        for event in events:
            self._append(HEALTH, {**event, "step": step})

    def snapshots(self, step: int, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append the snapshots that a step took into the league to league.jsonl.

        Raises:
            RunError: the disk is full or not writable.
        """
        for snapshot in lines:
            self._append(LEAGUE, {**snapshot, "step": step})

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        with (
            disk_errors(self.folder / name),
            open(self.folder / name, "a", encoding="utf-8") as stream,
        ):
            stream.write(json.dumps(line, sort_keys=True) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """Return the metrics of the steps written so far, each with its ``step``."""
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
    """Return the lines of a metrics file without a torn last line; empty for a missing file."""
    return list(_lines(path))


def read_figures(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of figures as ``read_lines`` does, with numbers only.

    Text, lists, and absurdly large numbers are left out.
    """
    return [
        {key: value for key, value in line.items() if _is_figure(value)} for line in _lines(path)
    ]


def torn_after(path: Path) -> int | None:
    """Return the last readable step of a torn file of figures; None if the file is not torn."""
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
    """Yield the intact lines of a file of JSON objects."""
    if not path.is_file():
        return
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = parse_json(text)
        except ValueError:
            return  # torn by a kill within a write; later lines are not trusted either
        if (
            isinstance(line, dict)
            and type(line.get("step")) is int
            and 0 <= line["step"] < LAST_STEP
        ):
            yield line


def _plain(value: float) -> float | None:
    """Return a number as JSON can hold it: NaN and infinities become null."""
    return float(value) if math.isfinite(value) else None


START = 5  # records of a metric over which its start value is averaged
UNRECORDED_AFTER = 10  # steps after which an unrecorded metric counts as a mistake
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
REMEDIES = {  # first part of a metric's name -> usual remedy
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
class HealthFinding:
    """The finding of a health rule: metric, value, and a message with the usual remedy."""

    step: int
    metric: str
    value: float | None  # None: not a number, or never recorded
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
    """Applies health rules to every step's figures; a rule acts once per metric in a run."""

    def __init__(
        self,
        config: HealthConfig,
        steps: int,
        lines: Iterable[Mapping[str, Any]] = (),
        policies: Iterable[str] = (),
    ) -> None:
        """Start from the ``lines`` of metrics.jsonl of the steps done.

        ``steps`` is the length of the run; rules apply to the metrics of each of its ``policies``.
        """
        self._policies = frozenset(policies)
        self._rules, self._stop, self._steps = config.rules, config.stop, steps
        self._streaks: dict[tuple[int, str], int] = {}  # unhealthy records in a row
        self._starts: dict[tuple[int, str], list[float]] = {}  # first records, for ``times_start``
        self._best: dict[tuple[int, str], float] = {}  # best record, for ``times_best``
        self._seen: set[int] = set()  # rules whose metric has been recorded
        self._acted: set[tuple[int, str]] = set()
        for line in lines:
            self.observe(
                line["step"], {name: value for name, value in line.items() if name != "step"}
            )

    def observe(self, step: int, metrics: Mapping[str, float | None]) -> list[HealthFinding]:
        """Apply the rules to a step's figures, once per step in order, and return new findings."""
        findings = []
        for number, rule in enumerate(self._rules):
            names = sorted(
                name
                for name in metrics
                if matches(rule.metric, of_any(name, self._policies)) or name == rule.metric
            )
            if names:
                self._seen.add(number)
            elif number not in self._seen and step == UNRECORDED_AFTER and not rule.if_recorded:
                findings.append(_missing(rule, step))
            for name in names if step > first_steps(rule, self._steps) else ():
                bounds = self._bounds((number, name), rule, metrics[name])
                if bounds is not None and self._count((number, name), bounds, metrics[name]):
                    findings.append(
                        _finding(
                            bounds,
                            step,
                            name,
                            metrics[name],
                            stops=self._stop or rule.action == "stop",
                            policies=self._policies,
                        )
                    )
        return findings

    def _bounds(
        self, key: tuple[int, str], rule: HealthRule, value: float | None
    ) -> HealthRule | None:
        """Return the rule with bounds in the metric's units; None without a value to compare."""
        if rule.times_best:
            return self._relative_to_best(key, rule, value)
        if not rule.times_start:
            return rule
        start = self._starts.setdefault(key, [])
        if len(start) < START:
            start.extend([value] if value is not None and math.isfinite(value) else [])
            return None
        return _times(rule, sum(start) / START)

    def _relative_to_best(
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


def stop_message(findings: Iterable[HealthFinding]) -> str:
    """Return the message of the first finding that stops the run, or ""."""
    return next((finding.message for finding in findings if finding.stops), "")


def is_unhealthy(rule: HealthRule, value: float | None) -> bool:
    """Return whether a value is beyond the rule's bound, or not a finite number."""
    if value is None or not math.isfinite(value):
        return True
    return (rule.above is not None and value > rule.above) or (
        rule.below is not None and value < rule.below
    )


def first_steps(rule: HealthRule, steps: int) -> float:
    """Return the number of first steps of a run that a rule ignores."""
    return rule.after_step * steps if rule.after_step < 1 else rule.after_step


def matches(pattern: str, name: str) -> bool:
    """Return whether a metric's name fits a documented pattern; capitals stand for any part."""
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
) -> HealthFinding:
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
    return HealthFinding(step=step, metric=name, value=number, stops=stops, message=message)


def _missing(rule: HealthRule, step: int) -> HealthFinding:
    """Return the finding that a rule's metric was never recorded, which never stops a run."""
    message = (
        f"No step up to {step} has recorded {rule.metric}, which a health rule watches: see "
        "metrics.jsonl for the names there are."
    )
    return HealthFinding(step=step, metric=rule.metric, value=None, stops=False, message=message)
