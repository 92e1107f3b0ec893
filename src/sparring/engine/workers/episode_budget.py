"""The budget of episodes in fresh order: how many may be issued, and in which states they are.

Episodes are issued in units of whole groups, arrive in any order, and are learned from in order of
arrival. At any time each issued episode has one of four states:

    open        being played, or finished and not learned from yet
    learned     a step learns from it
    withheld    too stale when a step took it, so that no step learns from it
    lost        its worker was lost, its group failed, or the training process was killed

Only the episodes of a few steps are open at a time, so that few are too stale on arrival. This
module has no clock, workers or episodes; a group is only a number of episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

CLOSED_STATES = ("learned", "withheld", "lost")
ISSUED_FILE = "issued.json"  # in the run folder: number of issued episodes, which survives a kill


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeBudget:
    """Numbers of episodes since the start of the run, by state; ``issued`` counts all of them."""

    issued: int = 0
    learned: int = 0
    withheld: int = 0
    lost: int = 0
    open: int = 0

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the budget of a record.

        Raises:
            TypeError: the record is not a mapping of these names.
            ValueError: a value is not a number.
        """
        return cls(**{name: int(value) for name, value in record.items()})

    def after_kill(self, issued: int = 0) -> EpisodeBudget:
        """Return the budget after the process that held the open episodes was killed.

        Args:
            issued: number of episodes issued before the kill. If this budget does not count all of
                them, the others are lost too.
        """
        num_unrecorded = max(issued - self.issued, 0)
        return EpisodeBudget(
            issued=self.issued + num_unrecorded,
            learned=self.learned,
            withheld=self.withheld,
            lost=self.lost + self.open + num_unrecorded,
        )

    @property
    def is_balanced(self) -> bool:
        """Whether the number of issued episodes equals the sum over the states."""
        return self.issued == self.learned + self.withheld + self.lost + self.open


class Admission:
    """Tracks the open episodes, and how many more may be issued.

    Args:
        games_per_step: number of episodes per step.
        lag: the largest staleness, in steps.
        steps: number of steps of the run.
        budget: the budget so far, without open episodes.
    """

    def __init__(
        self, *, games_per_step: int, lag: int, steps: int, budget: EpisodeBudget | None = None
    ) -> None:
        self._games_per_step, self._lag, self._steps = games_per_step, lag, steps
        budget = budget or EpisodeBudget()
        self._issued = budget.issued
        self._closed = {name: getattr(budget, name) for name in CLOSED_STATES}
        self._num_learned = 0  # number of steps that were learned from
        self._num_taken = 0  # number of episodes that the current step took
        self._playing: dict[int, dict[int, int]] = {}  # unit -> group -> number of episodes
        self._arrived: dict[int, int] = {}  # group -> number of episodes, in order of arrival

    @property
    def budget(self) -> EpisodeBudget:
        """The budget so far."""
        return EpisodeBudget(
            issued=self._issued, open=self.num_playing + self.num_arrived, **self._closed
        )

    @property
    def num_playing(self) -> int:
        """Number of episodes that are being played or wait for a worker."""
        return sum(sum(groups.values()) for groups in self._playing.values())

    @property
    def num_arrived(self) -> int:
        """Number of episodes that have arrived and that no step has taken."""
        return sum(self._arrived.values())

    @property
    def arrived_groups(self) -> tuple[int, ...]:
        """The groups that have arrived and that no step has taken, in order of arrival."""
        return tuple(self._arrived)

    def begin_step(self, num_learned: int) -> None:
        """Begin a step; ``num_learned`` steps were learned from before it."""
        self._num_learned, self._num_taken = num_learned, 0

    @property
    def num_issuable(self) -> int:
        """Number of episodes that may be issued now.

        The open episodes and the episodes that the step has taken are at most those of ``lag`` + 1
        steps, and at most those of the remaining steps of the run.
        """
        steps = min(self._lag + 1, self._steps - self._num_learned)
        return max(
            steps * self._games_per_step - self._num_taken - self.num_playing - self.num_arrived, 0
        )

    def issue(self, unit: int, groups: Mapping[int, int]) -> None:
        """Record an issued unit, as the number of episodes of each of its groups."""
        self._playing[unit] = dict(groups)
        self._issued += sum(groups.values())

    def restore_groups(self, groups: Mapping[int, int]) -> None:
        """Restore groups that arrived before a kill and were then counted as lost."""
        self._arrived |= groups
        self._closed["lost"] -= sum(groups.values())

    def reissue(self, unit: int) -> None:
        """Record that a unit was lost and, if it is open, issued again."""
        num_episodes = sum(self._playing.get(unit, {}).values())
        self._closed["lost"] += num_episodes
        self._issued += num_episodes

    def record_arrival(self, unit: int, groups: Mapping[int, int]) -> None:
        """Record the groups that have arrived with a unit; its other groups have failed.

        If the unit is not open, nothing changes.
        """
        issued_groups = self._playing.pop(unit, None)
        if issued_groups is None:
            return
        complete_groups = {
            group: count for group, count in groups.items() if count == issued_groups.get(group)
        }
        self._arrived |= complete_groups
        self._closed["lost"] += sum(issued_groups.values()) - sum(complete_groups.values())

    def take_group(self, group: int, *, is_too_stale: bool) -> None:
        """Record that a step takes a group, to learn from it or to withhold it as too stale."""
        num_episodes = self._arrived.pop(group)
        self._closed["withheld" if is_too_stale else "learned"] += num_episodes
        self._num_taken += 0 if is_too_stale else num_episodes
