"""Records a run's metrics to its files and sinks, and applies its health rules to them.

Config, seed and code determine metrics.jsonl, health.jsonl and league.jsonl, but not timing.jsonl.
If a sink (such as TensorBoard) fails, the run continues without it.

Metrics, in timing.jsonl:
    failed_sinks            number of sinks (logging.sinks) that failed to write this step; absent
                            if 0

Health rules watch a run's metrics: they warn, or stop the run. A resumed run reads the lines of
metrics.jsonl up to its checkpoint again, so its rules act as in a run without interruption.
Meanings and remedies: docs/health.md.
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

from sparring.config import HealthConfig, HealthRule, PluginConfig, RunConfig, without_policy
from sparring.config.plugins.guard import PluginCall
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError, HungError, SparringError
from sparring.core.files import disk_errors, parse_json, write_bytes_atomic
from sparring.run.sinks.base import RunStart, Sink

log = logging.getLogger(__name__)
MAX_FAILURES = 3  # failures in a row; then a sink pauses 2, 4, 8 ... steps between tries
MAX_PAUSE_EXPONENT = 8  # the longest pause is 2**8 steps


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
    failures: int = 0  # failures in a row
    pause: float = 0  # steps until the next try


class Sinks:
    """The sinks of a run that starts or resumes.

    Raises:
        SparringError: a sink cannot be opened.
    """

    def __init__(self, sinks: Sequence[PluginConfig], start: RunStart) -> None:
        self._open_sinks: list[_OpenSink] = []
        for bound in [sink.bind("run.sinks") for sink in sinks]:
            try:
                self._open_sinks.append(_OpenSink(bound=bound, sink=bound(start)))
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
        numbers = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
        return sum(not self._write_to(open_sink, step, numbers) for open_sink in self._open_sinks)

    def _write_to(self, open_sink: _OpenSink, step: int, figures: Mapping[str, float]) -> bool:
        if open_sink.pause:
            open_sink.pause -= 1
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
        open_sink.failures += 1
        if open_sink.failures >= MAX_FAILURES:
            open_sink.pause = 2 ** min(open_sink.failures - MAX_FAILURES + 1, MAX_PAUSE_EXPONENT)
        if isinstance(error, HungError):
            open_sink.pause = math.inf
        if open_sink.failures == 1 or open_sink.pause == math.inf:
            effect = "not used again" if open_sink.pause == math.inf else "tried again"
            log.warning(
                "%s The sink lacks step %d; it is %s, and the run continues.", error, step, effect
            )

    def close(self) -> None:
        """Close all sinks, and log the sinks that cannot be closed."""
        for open_sink in self._open_sinks:
            try:
                with PluginCall(open_sink.bound):
                    open_sink.sink.close()
            except SparringError as error:
                log.warning("The %s could not be closed: %s", open_sink.bound, error)


MAX_FIGURE = 1e150  # a figure of this size still has a finite square
MAX_STEP = 1 << 53  # larger integers are not exact in floating point
METRICS, TIMING, HEALTH = "metrics.jsonl", "timing.jsonl", "health.jsonl"
LEAGUE = "league.jsonl"  # the league's snapshots; absent if a run takes no snapshots


class MetricsWriter:
    """Appends a run's figures, health findings and snapshots to its jsonl files.

    A resumed run drops a half-written last line.

    Args:
        folder: folder of the run.
        sinks: also receive the figures; None: no sinks.
    """

    def __init__(self, folder: Path, sinks: Sinks | None = None) -> None:
        self.folder, self._sinks = folder, sinks

    def truncate_after(self, step: int) -> None:
        """Remove the lines of later steps, and a half-written last line."""
        for name in (METRICS, TIMING, HEALTH, LEAGUE):
            path = self.folder / name
            if name == LEAGUE and not path.exists():
                continue
            lines = [line for line in _lines(path) if line["step"] <= step]
            if name in (METRICS, TIMING) and (end := lines[-1]["step"] if lines else 0) < step:
                log.warning(
                    "%s is damaged: its figures end at step %d, and those of the steps up to %d "
                    "are lost.",
                    path,
                    end,
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
        failures = self._sinks.write(step, {**metrics, **timing}) if self._sinks is not None else 0
        timing = {**timing, "failed_sinks": failures} if failures else timing
        for name, values in ((METRICS, metrics), (TIMING, timing)):
            self._append(
                name, {"step": step, **{key: _json_number(value) for key, value in values.items()}}
            )

    def record(self, step: int, events: Iterable[Mapping[str, Any]]) -> None:
        """Append the findings of health rules in a step to health.jsonl.

        Raises:
            RunError: the disk is full or not writable.
        """
        for event in events:
            self._append(HEALTH, {**event, "step": step})

    def record_snapshots(self, step: int, lines: Iterable[Mapping[str, Any]]) -> None:
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
    """Return the complete lines of a metrics file; empty for a missing file."""
    return list(_lines(path))


def read_figures(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of figures, without texts, lists and implausible numbers."""
    return [
        {key: value for key, value in line.items() if _is_figure(value)} for line in _lines(path)
    ]


def readable_until(path: Path) -> int | None:
    """Return the last readable step of a damaged metrics file; None if it is not damaged."""
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
        type(value) in (int, float) and (value != value or abs(value) < MAX_FIGURE)
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = parse_json(text)
        except ValueError:
            return  # half-written when the process was killed; later lines are not trusted
        if (
            isinstance(line, dict)
            and type(line.get("step")) is int
            and 0 <= line["step"] < MAX_STEP
        ):
            yield line


def _json_number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


START_RECORDS = 5  # a metric's start value is the mean of its first 5 records
UNRECORDED_AFTER = 10  # a metric without record at this step counts as a mistake
_MORE_LEGAL_REPLIES = (
    "start from legal play (warmup.updates), let an illegal reply cost more "
    "(environments.0.illegal), lower learner.learning_rate"
)
_SHORTER_REPLIES = (
    "raise rollout.max_new_tokens, or let long replies cost something (a reward on the reply's "
    "length)"
)
_MORE_VARIED_GROUPS = (
    "a larger rollout.group_size, a higher temperature, starts and opponents that are neither too "
    "easy nor too hard"
)
_SMALLER_RATIOS = (
    "a lower learner.learning_rate, fewer epochs or minibatches; truncated importance weights if "
    "sampler and learner differ"
)
_EQUAL_LOGPROBS = (
    "sampler and learner disagree about the same weights: check precision, temperature and "
    "truncation"
)
REMEDIES = {  # first part of a metric's name -> usual remedy
    "legal_rate": _MORE_LEGAL_REPLIES,
    "unparsable_rate": _MORE_LEGAL_REPLIES,
    "truncated_rate": _SHORTER_REPLIES,
    "overlong_rate": (
        "raise model.context, let replies or the history be shorter (rollout.max_new_tokens, "
        "renderer.history=strip)"
    ),
    "reply_tokens": _SHORTER_REPLIES,
    "seat_asymmetry": (
        "snapshots or fixed opponents besides the mirror (matchmaker mixed), more entropy, an "
        "earlier checkpoint"
    ),
    "advantage_std": (
        "unless the game is solved: snapshots or fixed opponents (matchmaker mixed), more "
        "entropy, larger groups"
    ),
    "group_equal_share": _MORE_VARIED_GROUPS,
    "group_deviation": _MORE_VARIED_GROUPS,
    "sampled_entropy": (
        "a larger or slower fading entropy bonus, a lower learner.learning_rate, a KL penalty "
        "towards the start"
    ),
    "ratio_tail": _SMALLER_RATIOS,
    "ratio_p99": _SMALLER_RATIOS,
    "logprob_difference_max": _EQUAL_LOGPROBS,
    "logprob_difference_mean": _EQUAL_LOGPROBS,
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
DEFAULT_REMEDY = "see docs/health.md, and `sparring explain METRIC`"


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthFinding:
    """The finding of a health rule: metric, value, and a message with the usual remedy."""

    step: int
    metric: str
    value: float | None  # None: not a finite number, or never recorded
    stops: bool  # whether the run stops
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
        """Apply the rules to the metrics recorded so far.

        Args:
            config: the rules.
            steps: number of steps of the whole run.
            lines: lines of metrics.jsonl.
            policies: names of the policies; the rules apply to each policy's metrics.
        """
        self._policies = frozenset(policies)
        self._rules, self._stop, self._steps = config.rules, config.stop, steps
        self._streaks: dict[tuple[int, str], int] = {}  # unhealthy records in a row
        self._first_records: dict[tuple[int, str], list[float]] = {}  # for ``times_start``
        self._best_values: dict[tuple[int, str], float] = {}  # best record, for ``times_best``
        self._recorded_rules: set[int] = set()  # rules whose metric has been recorded
        self._reported_findings: set[tuple[int, str]] = set()  # rules and metrics with a finding
        for line in lines:
            self.observe(
                line["step"], {name: value for name, value in line.items() if name != "step"}
            )

    def observe(self, step: int, metrics: Mapping[str, float | None]) -> list[HealthFinding]:
        """Apply the rules to a step's figures, once per step in order, and return new findings."""
        findings = []
        for index, rule in enumerate(self._rules):
            names = sorted(
                name
                for name in metrics
                if fits(rule.metric, without_policy(name, self._policies)) or name == rule.metric
            )
            if names:
                self._recorded_rules.add(index)
            elif (
                index not in self._recorded_rules
                and step == UNRECORDED_AFTER
                and not rule.if_recorded
            ):
                findings.append(_missing_metric_finding(rule, step))
            for name in names if step > num_ignored_steps(rule, self._steps) else ():
                bounds = self._bounds((index, name), rule, metrics[name])
                key = (index, name)
                if bounds is not None and self._is_new_finding(key, bounds, metrics[name]):
                    findings.append(
                        _make_finding(
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
        if rule.times_best:
            return self._relative_to_best(key, rule, value)
        if not rule.times_start:
            return rule
        first_values = self._first_records.setdefault(key, [])
        if len(first_values) < START_RECORDS:
            first_values.extend([value] if value is not None and math.isfinite(value) else [])
            return None
        return _scale_bounds(rule, sum(first_values) / START_RECORDS)

    def _relative_to_best(
        self, key: tuple[int, str], rule: HealthRule, value: float | None
    ) -> HealthRule | None:
        best_value = self._best_values.get(key)
        if value is None or not math.isfinite(value):
            return _scale_bounds(rule, best_value or 0.0)
        choose_best = min if rule.above is not None else max
        self._best_values[key] = value if best_value is None else choose_best(best_value, value)
        return None if best_value is None else _scale_bounds(rule, best_value)

    def _is_new_finding(self, key: tuple[int, str], rule: HealthRule, value: float | None) -> bool:
        self._streaks[key] = self._streaks.get(key, 0) + 1 if is_unhealthy(rule, value) else 0
        if self._streaks[key] < rule.for_steps or key in self._reported_findings:
            return False
        self._reported_findings.add(key)
        return True


def _scale_bounds(rule: HealthRule, unit: float) -> HealthRule:
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


def num_ignored_steps(rule: HealthRule, num_steps: int) -> float:
    """Return the number of steps that a rule ignores at the start of a run."""
    return rule.after_step * num_steps if rule.after_step < 1 else rule.after_step


def fits(pattern: str, name: str) -> bool:
    """Return whether a metric's name fits a pattern; a part in capitals fits any part."""
    parts = [
        r"[^/]+" if part.isupper() else re.escape(part)
        for part in pattern.split("/")
        if part != "..."
    ]
    return (
        re.fullmatch("/".join(parts) + ("/.*" if pattern.endswith("...") else ""), name) is not None
    )


def _make_finding(
    rule: HealthRule,
    step: int,
    name: str,
    value: float | None,
    *,
    stops: bool,
    policies: frozenset[str],
) -> HealthFinding:
    finite_value = value if value is not None and math.isfinite(value) else None
    bound = f"above {rule.above:g}" if rule.above is not None else f"below {rule.below:g}"
    streak = f" for {rule.for_steps} records in a row" if rule.for_steps > 1 else ""
    observation = (
        f"{name} is {finite_value:.4g} at step {step}: {bound}{streak}"
        if finite_value is not None
        else f"{name} is no number at step {step}"
    )
    first_part = without_policy(name, policies).split("/")[0]
    message = f"{observation}. Usual remedy: {REMEDIES.get(first_part, DEFAULT_REMEDY)}."
    return HealthFinding(step=step, metric=name, value=finite_value, stops=stops, message=message)


def _missing_metric_finding(rule: HealthRule, step: int) -> HealthFinding:
    message = (
        f"No step up to {step} has recorded {rule.metric}, which a health rule watches: see "
        "metrics.jsonl for the recorded names."
    )
    return HealthFinding(step=step, metric=rule.metric, value=None, stops=False, message=message)
