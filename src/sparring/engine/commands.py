"""What the scheduler says is to be done, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Send:
    """Have a worker play these units, in one message."""

    worker: int
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """Start a worker."""

    worker: int


@dataclass(frozen=True, slots=True)
class End:
    """End a worker that is late; it counts as lost."""

    worker: int
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing more can be done; ``unit`` is the one that cannot be played, if it is one."""

    why: str
    unit: int | None = None


Command = Send | Start | End | GiveUp


@dataclass(slots=True)
class Counts:
    """What went wrong and was handled."""

    lost_workers: int = 0
    resent_units: int = 0
    timed_out_units: int = 0
    duplicate_units: int = 0
