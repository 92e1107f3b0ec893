"""Schedules of snapshots: their input, and the check of their result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import LEARNER, MAIN, PlayerRef, refs
from sparring.league.payoffs import Payoffs, Results

BASE_NEEDS = {"returns": "mean return of each step in which the learner was trained"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleRequest:
    """The input of a schedule after a learning step.

    Args:
        age: steps since the learner's last snapshot, or since the run began; at least 1.
        every: ``league.every``.
        learner: the learner whose snapshot may be due.
        members: snapshots of all learners, oldest first; may be empty.
        tags: tag of each policy that learns in the league, by its name.
        payoffs: the payoff book, this step included.
        returns: the learner's mean return in each step since its last snapshot in which it learned,
            oldest first; () unless the schedule NEEDS "returns".
    """

    age: int
    every: int
    learner: PlayerRef = LEARNER
    members: Sequence[PlayerRef] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: {MAIN: MAIN})
    payoffs: Payoffs = field(default_factory=Payoffs)
    returns: Sequence[float] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", refs(self.members))

    @property
    def other_learners(self) -> tuple[PlayerRef, ...]:
        """The other learners of the league."""
        return tuple(
            player for player in map(LEARNER.for_policy, self.tags) if player != self.learner
        )

    def tag(self, player: PlayerRef) -> str:
        """Return the tag of a learner or snapshot."""
        return self.tags.get(player.name or MAIN, player.name or MAIN)

    def results(self, opponent: PlayerRef) -> Results:
        """Return the learner's results against a player, in all environments."""
        return self.payoffs.results(self.learner, opponent)


def check_output(schedule: BoundPlugin, is_due: Any, request: ScheduleRequest) -> None:
    """Check the result of a schedule, after every call.

    Raises:
        PluginError: the result is not a bool.
    """
    if not isinstance(is_due, bool):
        raise PluginError(
            f"The {schedule} must return True, for a snapshot now, or False; it returned "
            f"{is_due!r:.100}."
        )
