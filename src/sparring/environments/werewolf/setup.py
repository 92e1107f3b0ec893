"""What never changes in a play of Werewolf: roles, teams and options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

WOLF, SEER, DOCTOR, VILLAGER = "wolf", "seer", "doctor", "villager"
WOLVES, VILLAGE, NOBODY = 0, 1, 2  # teams, and a draw


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """What never changes; see the options of ``werewolf``."""

    kinds: tuple[str, ...]  # of each seat, wolves first
    rounds: int
    strict: bool
    first_night: str
    tie: str
    cap: str
    order: str
    speech: str
    say: tuple[str, ...]
    limit: int
    abstain: bool
    reveal: bool
    wolves_talk: bool
    deduce: tuple[int, ...]  # the seats that do
    malformed: str  # what a deduction is of which a part cannot be read

    @property
    def players(self) -> int:
        """How many there are."""
        return len(self.kinds)

    @property
    def wolves(self) -> tuple[int, ...]:
        """The seats of the wolves."""
        return _wolves(self.kinds)

    def winner(self, wolves: int, living: int) -> int:
        """Return the team that has won with so many wolves among those who live; -1: none yet."""
        if not wolves:
            return VILLAGE
        others = living - wolves
        enough = wolves > others if self.strict else wolves >= others
        return WOLVES if enough else -1


@cache
def _wolves(kinds: tuple[str, ...]) -> tuple[int, ...]:
    """Return the seats of the wolves."""
    return tuple(seat for seat, kind in enumerate(kinds) if kind == WOLF)
