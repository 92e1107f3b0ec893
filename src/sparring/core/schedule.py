"""Numbers that change during training: constant, linear, cosine or staircase.

Plug-ins and the configuration accept a schedule for such numbers: a plain number, or

    {schedule: linear, start: 0.15, end: 0.01, until: 0.8}
    {schedule: cosine, start: 3e-3, end: 0.0, rise: 0.05}
    {schedule: staircase, values: [0.1, 0.03, 0.01], at: [0.5, 0.8]}

``progress`` is the finished share of the run's steps, in [0, 1]. Linear and
cosine schedules (ramps) first rise linearly from 0 to ``start`` at progress ``rise`` (warm-up), and
then reach ``end`` at progress ``until``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparring.core.errors import ConfigError, quoted

ScheduleKind = Literal["constant", "linear", "cosine", "staircase"]
LARGEST = 3.4e38  # largest absolute value of a number; about the largest float32
_OPTIONAL = {"until", "rise"}
_FIELDS = {
    "linear": {"start", "end", *_OPTIONAL},
    "cosine": {"start", "end", *_OPTIONAL},
    "staircase": {"values", "at"},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """A number as a function of progress.

    ``values`` holds the plateaus of a staircase, or (start, end) of a ramp. ``at`` holds the
    progress at each jump of a staircase, or at the end of a ramp. ``rise`` is the progress at which
    a ramp has reached its start value.
    """

    kind: ScheduleKind
    values: tuple[float, ...]
    at: tuple[float, ...] = ()
    rise: float = 0.0

    def __call__(self, progress: float) -> float:
        """Return the value at ``progress`` (clipped to [0, 1])."""
        progress = min(max(progress, 0.0), 1.0)
        if self.kind == "constant":
            return self.values[0]
        if self.kind == "staircase":
            return self.values[sum(progress >= jump for jump in self.at)]
        start, end = self.values
        if progress < self.rise:
            return start * progress / self.rise
        share = min((progress - self.rise) / (self.at[0] - self.rise), 1.0)
        weight = share if self.kind == "linear" else (1.0 - math.cos(math.pi * share)) / 2.0
        return start + (end - start) * weight


def is_schedule(value: Any) -> bool:
    """Return whether a configuration value is a mapping that describes a schedule."""
    return isinstance(value, Mapping) and "schedule" in value


def parse(value: Any, where: str = "schedule") -> Schedule:
    """Return the schedule of a configuration value, a number or a mapping.

    Raises:
        ConfigError: the mapping has an unknown kind, unknown or missing fields, or values that
            are not in order.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Schedule(kind="constant", values=_numbers([value], where))
    if not is_schedule(value):
        example = "{schedule: linear, start: 0.1, end: 0.0}"
        hint = " One run has one value: for several, start a run for each."
        raise ConfigError(
            f"{where}: {quoted(value)} is neither a number nor a schedule; write 0.1 or {example}."
            f"{hint if isinstance(value, list) else ''}"
        )
    kind, fields = value["schedule"], {str(key) for key in value} - {"schedule"}
    if kind == "constant" and fields == {"value"}:
        return Schedule(kind="constant", values=_numbers([value["value"]], where))
    # str() is needed because a list is not hashable
    if str(kind) not in _FIELDS:
        raise ConfigError(
            f"{where}: unknown schedule {quoted(kind)}; write one of constant, linear, cosine, "
            "staircase."
        )
    required_fields = _FIELDS[kind] - _OPTIONAL
    if fields - _FIELDS[kind] or required_fields - fields:
        raise ConfigError(
            f"{where}: a {kind} schedule takes {sorted(_FIELDS[kind])}, "
            f"got {quoted(sorted(fields))}."
        )
    if kind == "staircase":
        values, jumps = _numbers(value["values"], where), _numbers(value["at"], where)
        if len(values) != len(jumps) + 1 or list(jumps) != sorted(jumps):
            got = f"got values={quoted(values)}, at={quoted(jumps)}"
            raise ConfigError(
                f"{where}: a staircase needs one more value than steps, and steps in order; {got}."
            )
        return Schedule(kind=kind, values=values, at=jumps)
    until, rise = _numbers([value.get("until", 1.0), value.get("rise", 0.0)], where)
    if not 0.0 < until <= 1.0:
        raise ConfigError(f"{where}: until={until} must lie in (0, 1].")
    if not 0.0 <= rise < until:
        raise ConfigError(
            f"{where}: rise={rise} must be at least 0 and below until={until}; write rise: 0.05."
        )
    return Schedule(
        kind=kind, values=_numbers([value["start"], value["end"]], where), at=(until,), rise=rise
    )


def _numbers(values: Any, where: str) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)) or any(
        isinstance(v, bool) or not isinstance(v, (int, float)) for v in values
    ):
        raise ConfigError(f"{where}: {quoted(values)} must hold only numbers.")
    if not all(abs(v) <= LARGEST for v in values):
        too_large = next(v for v in values if not abs(v) <= LARGEST)
        raise ConfigError(
            f"{where}: {quoted(too_large)} is not a finite number of at most {LARGEST:g} in size; "
            "write for example 0.1."
        )
    return tuple(float(v) for v in values)
