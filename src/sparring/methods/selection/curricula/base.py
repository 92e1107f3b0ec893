"""What a curriculum chooses from: arms, and what came of them so far.

An arm is a game, or with ``rollout.starts`` one fixed deal of it. Every group of games that is
played leaves a record with its arm; a curriculum looks at the records and says which arms the
groups of the next step are to have. It keeps no state of its own: the records are the state, saved
with every checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import CheckpointError, PluginError
from sparring.core.records import FloatArray, IntArray, TurnTable
from sparring.core.rng import Stream
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.ops.groups import group_std

KEPT = 32  # records kept per arm, the newest


class Arm(NamedTuple):
    """A game, or one of its fixed starts. ``weight`` is the game's share."""

    game: str
    start: int | None
    weight: float

    @property
    def name(self) -> str:
        """Return GAME or GAME#START."""
        return self.game if self.start is None else f"{self.game}#{self.start}"


class Record(NamedTuple):
    """What came of one group of games: over the trajectories of its trained seats."""

    step: int
    size: int  # trajectories
    successes: int  # those with a return above 0
    mean: float  # of their returns
    deviation: float  # of their returns within a role (population), root mean square over roles


@dataclass(frozen=True, kw_only=True, slots=True)
class CurriculumRequest:
    """What a curriculum is asked: one arm for each of ``groups`` groups. A arms."""

    arms: tuple[Arm, ...]
    history: tuple[tuple[Record, ...], ...]  # [A] records, oldest first
    groups: int
    step: int
    stream: Stream  # group number g may draw from stream.child(g)


class ArmBook:
    """The records of all arms of a run."""

    def __init__(self, arms: Sequence[Arm], state: Mapping[str, Any] | None = None) -> None:
        self.arms = tuple(arms)
        try:
            self._records = {
                arm.name: [
                    record if type(record) is Record else Record(*record)  # a list, where restored
                    for record in (state or {}).get(arm.name, ())
                ]
                for arm in self.arms
            }
        except TypeError:
            raise CheckpointError(
                "The checkpoint's records of the curriculum cannot be read; start anew with "
                "--overwrite."
            ) from None

    @property
    def state(self) -> dict[str, Any]:
        """Everything to be saved, as JSON takes it; what is observed later does not change it."""
        return {name: tuple(records) for name, records in self._records.items() if records}

    def request(self, groups: int, step: int, stream: Stream) -> CurriculumRequest:
        """Return the question for a step."""
        history = tuple(tuple(self._records[arm.name]) for arm in self.arms)
        return CurriculumRequest(
            arms=self.arms, history=history, groups=groups, step=step, stream=stream
        )

    def observe(self, turns: TurnTable, arm_of: Mapping[int, str], step: int) -> None:
        """Take note of the groups of a step.

        Args:
            turns: all turns played, before selection.
            arm_of: name of the arm of each group id.
            step: the step's number.
        """
        if not len(turns.reward):
            return
        returns, starts = trajectory_returns(turns)
        roles, count = start_groups(turns)
        variance = group_std(returns, roles[starts], count, ddof=0)[roles[starts]] ** 2
        numbers, own = np.unique(turns.group[starts], return_inverse=True)
        size = np.bincount(own)
        successes = np.bincount(own, weights=returns > 0).astype(np.int64)
        mean = np.bincount(own, weights=returns) / size
        deviation = np.sqrt(np.bincount(own, weights=variance) / size)
        figures = (column.tolist() for column in (numbers, size, successes, mean, deviation))
        for group, *found in zip(*figures, strict=True):
            records = self._records[arm_of[group]]
            records.append(Record(step, *found))
            del records[:-KEPT]


def check_output(curriculum: BoundPlugin, chosen: Any, request: CurriculumRequest) -> None:
    """Check that a curriculum has chosen an arm for every group; every call of one ends here.

    Raises:
        PluginError: it gave something else.
    """
    numbers = np.asarray(chosen)
    fits = numbers.shape == (request.groups,) and numbers.dtype.kind in "iu"
    if not fits or not ((numbers >= 0) & (numbers < len(request.arms))).all():
        raise PluginError(
            f"The {curriculum} must give the number of an arm, 0 to {len(request.arms) - 1}, for "
            f"each of {request.groups} groups; it gave {numbers.dtype} of shape {numbers.shape}."
        )


def pick_by_weight(arms: Sequence[Arm], weights: Sequence[float], target: float) -> int:
    """Return the number of the arm whose slice of the total weight holds ``target`` in [0, 1)."""
    left, last = target * sum(weights), 0
    for number, weight in enumerate(weights):
        if weight > 0:
            left, last = left - weight, number
            if left < 0:
                return number
    return last


def arm_shares(arms: Sequence[Arm]) -> FloatArray:
    """Return each arm's share by its game's weight, the starts of a game alike, [A].

    Sums to one.
    """
    weights = np.array([arm.weight / sum(other.game == arm.game for other in arms) for arm in arms])
    shares: FloatArray = weights / weights.sum()
    return shares


def success_rate(records: Sequence[Record]) -> float:
    """Return the share of the trajectories of these records that succeeded.

    Not a number without any.
    """
    size = sum(record.size for record in records)
    return sum(record.successes for record in records) / size if size else float("nan")


def draw_arms(request: CurriculumRequest, weights: FloatArray, counter: int = 0) -> IntArray:
    """Return an arm for each group, drawn by weight.

    It is draw number ``counter`` of the group's stream.
    """
    draws = [request.stream.child(group).uniform(counter) for group in range(request.groups)]
    return np.array(
        [pick_by_weight(request.arms, weights.tolist(), draw) for draw in draws], dtype=np.int64
    )
