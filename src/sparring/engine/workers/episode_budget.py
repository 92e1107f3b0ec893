"""How many plays may be issued in fresh order, and what becomes of every one of them.

Plays are issued in units of whole groups, come back in any order, and are learnt from in the order
in which they came. Every play that was ever issued is in one of four places, at any time:

    open        it is being played, or has come and was not learnt from yet
    learned     a step took it to learn from
    withheld    it had come when it was too old: no step learns from it
    lost        its worker was lost with it, its group failed, or the training process was killed

No more plays are open at a time than steps of them are allowed for. So little is too old when it
comes, and next to nothing is played to be thrown away. Nothing here knows a clock, a worker, or
what a play is: a group is a number of plays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

CLOSED = ("learned", "withheld", "lost")
ISSUED = "issued.json"  # in the run folder: how many plays were issued, whoever was killed since


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeBudget:
    """Plays since the run began, by what became of them; ``issued`` is counted by itself."""

    issued: int = 0
    learned: int = 0
    withheld: int = 0
    lost: int = 0
    open: int = 0

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return what a record says.

        Raises:
            TypeError: it is none.
            ValueError: a number in it is none.
        """
        return cls(**{name: int(number) for name, number in record.items()})

    def gone(self, issued: int = 0) -> EpisodeBudget:
        """Return the account after the process that held the open plays was killed.

        Args:
            issued: how many plays had been issued by then, in all; those that this account does not
                know of are lost as well.
        """
        more = max(issued - self.issued, 0)
        return EpisodeBudget(
            issued=self.issued + more,
            learned=self.learned,
            withheld=self.withheld,
            lost=self.lost + self.open + more,
        )

    @property
    def balances(self) -> bool:
        """Whether what was issued is what became of it."""
        return self.issued == self.learned + self.withheld + self.lost + self.open


class Admission:
    """The plays that are open.

    Args:
        games: plays that a step learns from.
        lag: steps that what is learnt from may be old.
        steps: of the run.
        account: of the plays before, none of them open.
    """

    def __init__(
        self, *, games: int, lag: int, steps: int, account: EpisodeBudget | None = None
    ) -> None:
        self._games, self._lag, self._steps = games, lag, steps
        before = account or EpisodeBudget()
        self._issued = before.issued
        self._closed = {name: getattr(before, name) for name in CLOSED}
        self._learnt = self._taken = 0  # steps before this one, and plays that it learns from
        self._playing: dict[int, dict[int, int]] = {}  # by unit: plays of each of its groups
        self._arrived: dict[int, int] = {}  # plays of each group that has come, the first first

    @property
    def account(self) -> EpisodeBudget:
        """What became of the plays so far."""
        return EpisodeBudget(
            issued=self._issued, open=self.num_playing + self.num_arrived, **self._closed
        )

    @property
    def num_playing(self) -> int:
        """Plays that are being played, or wait for a worker."""
        return sum(sum(groups.values()) for groups in self._playing.values())

    @property
    def num_arrived(self) -> int:
        """Plays that have come and were not taken yet."""
        return sum(self._arrived.values())

    @property
    def arrived_groups(self) -> tuple[int, ...]:
        """The groups that have come and were not taken yet, the first first."""
        return tuple(self._arrived)

    def begin(self, learnt: int) -> None:
        """Let a step begin, after so many that were learnt from."""
        self._learnt, self._taken = learnt, 0

    @property
    def num_issuable(self) -> int:
        """How many plays may be issued.

        Those that are open, and those that the step has taken so far, are at most ``lag`` + 1 steps
        of them, and no more than the run has left to learn from.
        """
        steps = min(self._lag + 1, self._steps - self._learnt)
        return max(steps * self._games - self._taken - self.num_playing - self.num_arrived, 0)

    def issue(self, unit: int, groups: Mapping[int, int]) -> None:
        """Take note that a unit is issued: plays of each of its groups."""
        self._playing[unit] = dict(groups)
        self._issued += sum(groups.values())

    def restore_groups(self, groups: Mapping[int, int]) -> None:
        """Take note of groups that had come before; they were counted as lost since."""
        self._arrived |= groups
        self._closed["lost"] -= sum(groups.values())

    def reissue(self, unit: int) -> None:
        """Take note that a unit is lost and, if somebody waits for it, issued again."""
        plays = sum(self._playing.get(unit, {}).values())
        self._closed["lost"] += plays
        self._issued += plays

    def answer(self, unit: int, groups: Mapping[int, int]) -> None:
        """Take note that a unit has come, with these of its groups: the others have failed.

        One that nobody waits for changes nothing.
        """
        issued = self._playing.pop(unit, None)
        if issued is None:
            return
        complete = {group: issued[group] for group in groups if groups[group] == issued.get(group)}
        self._arrived |= complete
        self._closed["lost"] += sum(issued.values()) - sum(complete.values())

    def take(self, group: int, *, old: bool) -> None:
        """Take note that a step takes a group that has come: to learn from it, unless it is old."""
        plays = self._arrived.pop(group)
        self._closed["withheld" if old else "learned"] += plays
        self._taken += 0 if old else plays
