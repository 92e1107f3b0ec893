"""Interface of curricula: arms, and the records of their groups.

An arm is a game or, with ``rollout.starts``, one fixed deal of a game. Every group of episodes adds
a record to its arm. A curriculum reads the records and chooses the arms of the next step's groups.
Curricula are stateless: the records are the state, which every checkpoint saves.
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

MAX_RECORDS = 32  # number of newest records per arm


class Arm(NamedTuple):
    """A game, or one of its fixed initial states; ``weight`` is the game's share."""

    game: str
    start: int | None
    weight: float

    @property
    def name(self) -> str:
        """Return GAME or GAME#START."""
        return self.game if self.start is None else f"{self.game}#{self.start}"


class ArmRecord(NamedTuple):
    """Statistics of one group of episodes, over the trajectories of its trained seats."""

    step: int
    size: int  # number of trajectories
    successes: int  # number of trajectories with a return above 0
    mean: float  # mean of the returns
    deviation: float  # population deviation within a role, root mean square over roles


@dataclass(frozen=True, kw_only=True, slots=True)
class CurriculumRequest:
    """Input of a curriculum, which chooses one of A arms for each of ``num_groups`` groups."""

    arms: tuple[Arm, ...]
    history: tuple[tuple[ArmRecord, ...], ...]  # [A] records, oldest first
    num_groups: int
    step: int
    stream: Stream  # the group of index g may draw from stream.child(g)


class ArmBook:
    """The records of all arms of a run."""

    def __init__(self, arms: Sequence[Arm], state: Mapping[str, Any] | None = None) -> None:
        self.arms = tuple(arms)
        try:
            self._records = {
                arm.name: [
                    record
                    if type(record) is ArmRecord
                    else ArmRecord(*record)  # a checkpoint stores records as lists
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
        """A copy of all records as a JSON value, for checkpoints."""
        return {name: tuple(records) for name, records in self._records.items() if records}

    def request(self, num_groups: int, step: int, stream: Stream) -> CurriculumRequest:
        """Return the input of the curriculum for a step."""
        history = tuple(tuple(self._records[arm.name]) for arm in self.arms)
        return CurriculumRequest(
            arms=self.arms, history=history, num_groups=num_groups, step=step, stream=stream
        )

    def observe(self, turns: TurnTable, arm_of: Mapping[int, str], step: int) -> None:
        """Record the groups of a step.

        Args:
            turns: all turns of the step, before selection.
            arm_of: name of the arm of each group, by group id.
            step: the step's number.
        """
        if not len(turns.reward):
            return
        returns, first_rows = trajectory_returns(turns)
        ids, num_ids = start_groups(turns)
        variance = group_std(returns, ids[first_rows], num_ids, ddof=0)[ids[first_rows]] ** 2
        group_ids, group_of = np.unique(turns.group[first_rows], return_inverse=True)
        sizes = np.bincount(group_of)
        successes = np.bincount(group_of, weights=returns > 0).astype(np.int64)
        means = np.bincount(group_of, weights=returns) / sizes
        deviations = np.sqrt(np.bincount(group_of, weights=variance) / sizes)
        columns = (column.tolist() for column in (group_ids, sizes, successes, means, deviations))
        for group, *statistics in zip(*columns, strict=True):
            records = self._records[arm_of[group]]
            records.append(ArmRecord(step, *statistics))
            del records[:-MAX_RECORDS]


def check_output(curriculum: BoundPlugin, arm_indices: Any, request: CurriculumRequest) -> None:
    """Check that a curriculum has chosen an arm for every group, after every call.

    Raises:
        PluginError: the output is not a valid index of an arm per group.
    """
    values = np.asarray(arm_indices)
    is_integer_array = values.shape == (request.num_groups,) and values.dtype.kind in "iu"
    if not is_integer_array or not ((values >= 0) & (values < len(request.arms))).all():
        raise PluginError(
            f"The {curriculum} must return an arm's index, 0 to {len(request.arms) - 1}, for each "
            f"of {request.num_groups} groups; it returned {values.dtype} of shape {values.shape}."
        )


def pick_by_weight(arms: Sequence[Arm], weights: Sequence[float], target: float) -> int:
    """Return the index of the first arm whose cumulative weight exceeds ``target`` of the sum."""
    remaining, last_positive = target * sum(weights), 0
    for index, weight in enumerate(weights):
        if weight > 0:
            remaining, last_positive = remaining - weight, index
            if remaining < 0:
                return index
    return last_positive


def arm_shares(arms: Sequence[Arm]) -> FloatArray:
    """Return each arm's share, [A]: its game's weight over the game's arms, with sum one."""
    weights = np.array([arm.weight / sum(other.game == arm.game for other in arms) for arm in arms])
    shares: FloatArray = weights / weights.sum()
    return shares


def success_rate(records: Sequence[ArmRecord]) -> float:
    """Return the share of successful trajectories of these records, nan without records."""
    num_trajectories = sum(record.size for record in records)
    num_successes = sum(record.successes for record in records)
    return num_successes / num_trajectories if num_trajectories else float("nan")


def draw_arms(request: CurriculumRequest, weights: FloatArray, counter: int = 0) -> IntArray:
    """Return an arm for each group, by weight, with draw ``counter`` of the group's stream."""
    draws = [request.stream.child(group).uniform(counter) for group in range(request.num_groups)]
    return np.array(
        [pick_by_weight(request.arms, weights.tolist(), draw) for draw in draws], dtype=np.int64
    )
