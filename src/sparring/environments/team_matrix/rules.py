"""What three games pay a team: its members choose, the choices count as one thing, things meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

Choices = tuple[int, ...]
"""The choice of each member of a team, as its number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Payoffs(ABC):
    """A game between two teams of equal members, who may be exchanged within a team.

    Args:
        members: seats of a team.
    """

    members: int

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """The word of each choice."""

    @property
    @abstractmethod
    def most(self) -> float:
        """A payoff that no team exceeds."""

    @abstractmethod
    def counted(self, chosen: Choices) -> Hashable:
        """Return all that matters of a team's choices."""

    @abstractmethod
    def paid(self, mine: Any, theirs: Any) -> float:
        """Return what a team gets, of both teams' ``counted``; the other team gets -1 times it."""

    @abstractmethod
    def named(self, counted: Any) -> str:
        """Return ``counted`` in a word or two."""

    @abstractmethod
    def text(self) -> str:
        """Return the rules in sentences."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example(Payoffs):
    """The paper's example: zeros are the equilibrium of teams, ones that of single members.

    With k and l members who choose one, of this team and of the other, this team gets
        k - l  if k, l > 0;   eps l  if k = 0 and l < N;   prize  if k = 0 and l = N
    and less of the same where l = 0.

    Args:
        eps: see above.
        prize: the paper's C.
    """

    eps: float
    prize: float

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each choice."""
        return ("zero", "one")

    @property
    def most(self) -> float:
        """A payoff that no team exceeds."""
        return max(self.members - 1.0, self.eps * (self.members - 1), self.prize)

    def counted(self, chosen: Choices) -> int:
        """Return how many chose one."""
        return sum(chosen)

    def paid(self, mine: int, theirs: int) -> float:
        """Return what a team gets."""
        if (mine and theirs) or mine == theirs:
            return float(mine - theirs)
        return self._zeros(theirs) if mine == 0 else -self._zeros(mine)

    def _zeros(self, ones: int) -> float:
        """Return what a team of zeros gets from a team with some ones."""
        return self.prize if ones == self.members else self.eps * ones

    def named(self, counted: int) -> str:
        """Return how many chose one."""
        return f"{counted} of {self.members} one"

    def text(self) -> str:
        """Return the rules in sentences."""
        return (
            "Each player chooses zero or one. If both teams have a player who chose one, a team "
            "gets the number of its own ones minus the number of the other team's ones. If all "
            f"players of one team chose zero, that team gets {self.eps:g} for each one of the "
            f"other team, but {self.prize:g} in all if every player of the other team chose one. "
            "If nobody chose one, both teams get 0."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RockPaperScissors(Payoffs):
    """Rock, paper, scissors of teams: who agrees shows rock or scissors, who does not, paper."""

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each choice."""
        return ("rock", "scissors")

    @property
    def most(self) -> float:
        """A payoff that no team exceeds."""
        return 1.0

    def counted(self, chosen: Choices) -> str:
        """Return what the team shows."""
        return self.words[chosen[0]] if len(set(chosen)) == 1 else "paper"

    def paid(self, mine: str, theirs: str) -> float:
        """Return what a team gets."""
        beats = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
        return float((mine, theirs) in beats) - float((theirs, mine) in beats)

    def named(self, counted: str) -> str:
        """Return what the team shows."""
        return counted

    def text(self) -> str:
        """Return the rules in sentences."""
        return (
            "Each player chooses rock or scissors. A team whose players all chose rock shows rock. "
            "A team whose players all chose scissors shows scissors. Any other team shows paper. "
            "Rock beats scissors, scissors beat paper, paper beats rock. The team that wins gets 1 "
            "point, the other team loses 1. If both show the same, both get 0."
        )


class Sought(NamedTuple):
    """What the choices of a team count as in seek, attack, defend."""

    gain: float
    attackers: int
    defended: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SeekAttackDefend(Payoffs):
    """Seek at a level that all share, attack together, or defend.

    A member earns 1 + (level / levels)^2 at a level above 0, where all seekers of its team are at
    one level or at two neighbours; else only those at level 1 earn.

    Args:
        levels: the highest level, the paper's A.
        force: attackers that wipe out what an undefended team gains.
        cost: what an attacker costs its team.
    """

    levels: int
    force: int
    cost: float

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each choice."""
        return (*map(str, range(self.levels + 1)), "attack", "defend")

    @property
    def most(self) -> float:
        """A payoff that no team exceeds."""
        return self.members * (2.0 + self.cost)

    def counted(self, chosen: Choices) -> Sought:
        """Return what the team gains, its attackers, and whether it is defended."""
        attack, defend = self.levels + 1, self.levels + 2
        sought = sorted(choice for choice in chosen if choice < attack)
        base = sought[0] if sought and sought[-1] - sought[0] <= 1 else 0
        gain = sum(1 + (level / self.levels) ** 2 for level in sought if 0 < level <= base + 1)
        return Sought(float(gain), chosen.count(attack), defend in chosen)

    def paid(self, mine: Sought, theirs: Sought) -> float:
        """Return what a team gets."""
        return self._kept(mine, theirs) - self._kept(theirs, mine)

    def _kept(self, own: Sought, other: Sought) -> float:
        """Return what a team keeps of its gain, less what its attackers cost."""
        wiped = other.attackers >= self.force and not own.defended
        return (0.0 if wiped else own.gain) - self.cost * own.attackers

    def named(self, counted: Sought) -> str:
        """Return the gain, the attackers, and whether the team is defended."""
        said = [f"gains {counted.gain:.3g}"]
        said += [f"{counted.attackers} attack"] if counted.attackers else []
        return ", ".join([*said, *(["defended"] if counted.defended else [])])

    def text(self) -> str:
        """Return the rules in sentences."""
        paid = f" Each attacker costs its own team {self.cost:g}." if self.cost else ""
        return (
            f"Each player seeks at a level, a whole number from 0 to {self.levels}, or chooses "
            "attack or defend. A player who seeks at level n above 0 can earn "
            f"1 + (n / {self.levels})^2 for its team; level 0 earns nothing. If all seekers of a "
            "team are at one level, or at two levels that differ by 1, all of them earn. Otherwise "
            "only those at level 1 earn. If a team has "
            f"{self.force} or more attackers and nobody of the other team defends, the other team "
            f"earns nothing.{paid} A team gets what it earns minus what the other team earns."
        )
