"""Rules on a run's figures: what they warn of, and when they stop it.

All of their state is a function of the rules and of metrics.jsonl: who goes on from a checkpoint
reads the lines up to it again, so that a run that was killed or stopped decides as one that was
not. Meanings and remedies: docs/health.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sparring.config import HealthConfig, HealthRule, of_any

START = 5  # records of a metric whose mean is its start
PATIENCE = 10  # steps after which a metric that no step has recorded is taken for a mistake
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
            elif number not in self._seen and step == PATIENCE and not rule.if_recorded:
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
