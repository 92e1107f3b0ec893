"""Team matrix games: two teams of equal size, whose seats all choose at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from sparring.core.records import Observation
from sparring.environments.base import Environment
from sparring.environments.drawing.canvas import Canvas, PaintedPlay, seat_colour
from sparring.environments.drawing.pieces import due_sentence, paragraph, seats, table
from sparring.environments.options import check_range, entry_of

Choices = tuple[int, ...]
"""The index of each member's choice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamPayoffs(ABC):
    """The payoffs of a game between two teams whose members are exchangeable.

    Args:
        members: number of seats of a team.
    """

    members: int

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """The word of each choice."""

    @property
    @abstractmethod
    def max_payoff(self) -> float:
        """A payoff that no team exceeds."""

    @abstractmethod
    def summary_of(self, choices: Choices) -> Hashable:
        """Return a summary of a team's choices; the payoff depends only on summaries."""

    @abstractmethod
    def payoff(self, own_summary: Any, other_summary: Any) -> float:
        """Return a team's payoff, given both summaries; the other team gets the negative."""

    @abstractmethod
    def summary_text(self, summary: Any) -> str:
        """Return a summary in a few words."""

    @abstractmethod
    def text(self) -> str:
        """Return the rules in sentences."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperExample(TeamPayoffs):
    """The example of Xu et al., 2023: all zeros is the only team equilibrium, all ones a local one.

    If k members of this team and l members of the other team choose "one", this team gets
        k - l  if k, l > 0;   eps l  if k = 0 and l < N;   prize  if k = 0 and l = N
    and the negative of the other team's payoff if l = 0.

    Args:
        eps: eps in the formula.
        prize: prize in the formula, the paper's C.
    """

    eps: float
    prize: float

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each choice."""
        return ("zero", "one")

    @property
    def max_payoff(self) -> float:
        """A payoff that no team exceeds."""
        return max(self.members - 1.0, self.eps * (self.members - 1), self.prize)

    def summary_of(self, choices: Choices) -> int:
        """Return the number of members that chose "one"."""
        return sum(choices)

    def payoff(self, own_summary: int, other_summary: int) -> float:
        """Return a team's payoff."""
        if (own_summary and other_summary) or own_summary == other_summary:
            return float(own_summary - other_summary)
        num_ones = other_summary or own_summary  # one of the two is 0
        payoff = self.prize if num_ones == self.members else self.eps * num_ones
        return payoff if own_summary == 0 else -payoff

    def summary_text(self, summary: int) -> str:
        """Return the number of members that chose "one", as text."""
        return f"{summary} of {self.members} one"

    def text(self) -> str:
        return (
            "Each player chooses zero or one. If both teams have a player who chose one, a team "
            "gets the number of its own ones minus the number of the other team's ones. If all "
            f"players of one team chose zero, that team gets {self.eps:g} for each one of the "
            f"other team, but {self.prize:g} in all if every player of the other team chose one. "
            "If nobody chose one, both teams get 0."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamRockPaperScissors(TeamPayoffs):
    """Rock, paper, scissors of teams: a team with choices of rock and of scissors is paper."""

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each choice."""
        return ("rock", "scissors")

    @property
    def max_payoff(self) -> float:
        """A payoff that no team exceeds."""
        return 1.0

    def summary_of(self, choices: Choices) -> str:
        """Return the shape that the team shows."""
        return self.words[choices[0]] if len(set(choices)) == 1 else "paper"

    def payoff(self, own_summary: str, other_summary: str) -> float:
        """Return a team's payoff."""
        wins = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
        pair = (own_summary, other_summary)
        return float(pair in wins) - float(pair[::-1] in wins)

    def summary_text(self, summary: str) -> str:
        """Return the shape that the team shows."""
        return summary

    def text(self) -> str:
        return (
            "Each player chooses rock or scissors. A team whose players all chose rock shows rock. "
            "A team whose players all chose scissors shows scissors. Any other team shows paper. "
            "Rock beats scissors, scissors beat paper, paper beats rock. The team that wins gets 1 "
            "point, the other team loses 1. If both show the same, both get 0."
        )


class TeamCount(NamedTuple):
    """Summary of a team's choices in seek, attack, defend."""

    gain: float
    attackers: int  # number of attackers
    is_defended: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SeekAttackDefend(TeamPayoffs):
    """Seek, attack, defend: seekers earn more at a high common level; attackers remove earnings.

    A seeker at a level above 0 earns 1 + (level / levels)^2 if the levels of all seekers of its
    team differ by at most 1. Otherwise only seekers at level 1 earn.

    Args:
        levels: the highest level, the paper's A.
        force: number of attackers that remove the gain of an undefended team.
        cost: cost of an attacker for its team.
    """

    levels: int
    force: int
    cost: float

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each choice."""
        return (*map(str, range(self.levels + 1)), "attack", "defend")

    @property
    def max_payoff(self) -> float:
        """A payoff that no team exceeds."""
        return self.members * (2.0 + self.cost)

    def summary_of(self, choices: Choices) -> TeamCount:
        """Return the team's gain, its attackers, and whether it is defended."""
        attack, defend = self.levels + 1, self.levels + 2
        levels = sorted(choice for choice in choices if choice < attack)
        base = levels[0] if levels and levels[-1] - levels[0] <= 1 else 0
        gain = sum(1 + (level / self.levels) ** 2 for level in levels if 0 < level <= base + 1)
        return TeamCount(float(gain), choices.count(attack), defend in choices)

    def payoff(self, own_summary: TeamCount, other_summary: TeamCount) -> float:
        """Return a team's payoff."""
        own_gain = self._net_gain(own_summary, other_summary)
        return own_gain - self._net_gain(other_summary, own_summary)

    def _net_gain(self, team: TeamCount, other_team: TeamCount) -> float:
        """Return a team's gain after the other team's attack, minus the cost of its attackers."""
        loses_gain = other_team.attackers >= self.force and not team.is_defended
        return (0.0 if loses_gain else team.gain) - self.cost * team.attackers

    def summary_text(self, summary: TeamCount) -> str:
        """Return the gain, the attackers, and whether the team is defended."""
        parts = [f"gains {summary.gain:.3g}"]
        parts += [f"{summary.attackers} attack"] if summary.attackers else []
        return ", ".join([*parts, *(["defended"] if summary.is_defended else [])])

    def text(self) -> str:
        cost_text = f" Each attacker costs its own team {self.cost:g}." if self.cost else ""
        return (
            f"Each player seeks at a level, a whole number from 0 to {self.levels}, or chooses "
            "attack or defend. A player who seeks at level n above 0 can earn "
            f"1 + (n / {self.levels})^2 for its team; level 0 earns nothing. If all seekers of a "
            "team are at one level, or at two levels that differ by 1, all of them earn. Otherwise "
            "only those at level 1 earn. If a team has "
            f"{self.force} or more attackers and nobody of the other team defends, the other team "
            f"earns nothing.{cost_text} A team gets what it earns minus what the other team earns."
        )


TEAMS = ("a", "b")


class TeamMatrix(Environment):
    """Team matrix games: two teams choose at once, and no seat sees another seat's choice.

    What: one round. All seats of a team get the same payoff, and the payoffs of the teams sum to
    zero. There are three games: ``example``, ``rock_paper_scissors`` (of teams) and
    ``seek_attack_defend``.
    When to use: to see where self-play of teams stops at a local equilibrium: no single member can
    gain, but the team can gain if several members change together.
    Mathematics:
        example, if k players of this team and l players of the other team choose one:
            k - l  if k, l > 0
            eps l  if k = 0 < l < members;   prize  if k = 0, l = members;   0 if k = l = 0
            and the negative of the other team's payoff if l = 0 < k
        rock_paper_scissors: a team is rock if all choose rock, scissors if all choose scissors,
            else paper; 1 for a win
        seek_attack_defend: a seeker at level n earns r(n) = 1 + (n / levels)^2, r(0) = 0, if n is
            at most base + 1. The base is the lowest level of the team's seekers, or 0 if the
            highest level is more than one above the lowest. If the other team has force attackers,
            a team without a defender earns 0. net = earnings - cost * attackers; a team gets its
            net minus the other team's net.
    The equilibrium of ``example`` is all zeros; all ones is a local equilibrium, from which a team
    gains ``prize`` if all its members change to zero. In the equilibrium of ``rock_paper_scissors``
    a team is each shape with probability 1/3, which members cannot reach by independent draws.
    Pitfalls: policies that know only their roles cannot share a random draw. The player ``mixture``
    can: it draws a policy once per episode and team.
    Reference: Xu et al., "Fictitious Cross-Play", 2023, arXiv:2310.03354, and its code.
    Verified by: tests/environments/team_matrix/.

    Args:
        game: one of the three games; options of the other games have no effect.
        members: number of seats of a team, 2 to 8.
        eps: example: payoff of a team of zeros for each one of the other team, 0 to 1.
        prize: example: payoff of a team of zeros if all of the other team choose one, 0 to 10; the
            paper's C.
        levels: seek_attack_defend: the highest level, 1 to 20; the paper's A.
        force: seek_attack_defend: number of attackers that remove a team's earnings, 1 to
            ``members``.
        cost: seek_attack_defend: cost of an attacker for its team, 0 to 10.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.

    Raises:
        ConfigError: a number out of range.
    """

    name = "team_matrix"
    utility_sum, zero_sum = 0.0, True

    def __init__(
        self,
        *,
        game: Literal["example", "rock_paper_scissors", "seek_attack_defend"] = "example",
        members: Annotated[int, Field(ge=2, le=8)] = 3,
        eps: Annotated[float, Field(ge=0, le=1)] = 0.1,
        prize: Annotated[float, Field(ge=0, le=10)] = 1.5,
        levels: Annotated[int, Field(ge=1, le=20)] = 10,
        force: int = 2,
        cost: Annotated[float, Field(ge=0, le=10)] = 0.0,
        style: Literal["brief", "full"] = "brief",
    ) -> None:
        check_range("team_matrix: force", force, 1, members)
        payoffs: TeamPayoffs
        if game == "example":
            payoffs = PaperExample(members=members, eps=eps, prize=prize)
        elif game == "rock_paper_scissors":
            payoffs = TeamRockPaperScissors(members=members)
        else:
            payoffs = SeekAttackDefend(members=members, levels=levels, force=force, cost=cost)
        self.payoffs: TeamPayoffs = payoffs
        self.style, self.brief = style, style == "brief"
        self.roles = tuple(f"{team}{number + 1}" for team in TEAMS for number in range(members))
        self.teams: tuple[int, ...] = (0,) * members + (1,) * members
        self.num_seats = self.max_turns = 2 * members
        self.max_utility = payoffs.max_payoff
        self.min_utility = -payoffs.max_payoff
        self.words = payoffs.words

    def vocabulary(self) -> tuple[str, ...]:
        return tuple(sorted({*self.words, *self.roles, "choose", "they", "we"}))

    def reset(self, stream: Any) -> TeamMatrixPlay:
        return TeamMatrixPlay(self)

    def openings(self) -> tuple[tuple[float, TeamMatrixPlay], ...]:
        return ((1.0, TeamMatrixPlay(self)),)


class TeamMatrixPlay(PaintedPlay):
    """One episode of a team matrix game.

    Attributes:
        choices: the choices of team a and of team b; empty before the choices.
    """

    def __init__(self, rules: TeamMatrix, choices: tuple[Choices, ...] = ()) -> None:
        self.rules, self.choices = rules, choices

    @property
    def done(self) -> bool:
        return bool(self.choices)

    @property
    def returns(self) -> tuple[float, ...]:
        """The payoff of each seat's team."""
        rules = self.rules
        if not self.choices:
            return (0.0,) * rules.num_seats
        payoff = rules.payoffs.payoff(*map(rules.payoffs.summary_of, self.choices))
        return (payoff,) * rules.payoffs.members + (-payoff or 0.0,) * rules.payoffs.members

    def due(self) -> tuple[int, ...]:
        return () if self.done else tuple(range(self.rules.num_seats))

    def legal(self, seat: int) -> tuple[str, ...]:
        return self.rules.words

    def observe(self, seat: int) -> Observation:
        """Return the rules and the question."""
        rules, role = self.rules, self.rules.roles[seat]
        if rules.brief:
            return Observation(prompt=f"{role} choose", key=role)
        own_names, other_names = (self._names(team) for team in _team_and_opponent(rules, seat))
        mates = " and ".join(name for name in own_names if name != role)
        prompt = (
            f"Two teams play one round: {_join_names(self._names(0))} against "
            f"{_join_names(self._names(1))}. All players choose at once, and nobody sees what "
            f"another player chooses, of either team. {rules.payoffs.text()} All players of a "
            "team get what their team gets, and what one team gets the other team loses."
            f"\n\nYou are {role}. You play with {mates}, against {_join_names(other_names)}."
        )
        ask = f"What do you choose? Reply with exactly one of: {', '.join(rules.words)}."
        return Observation(prompt=prompt, ask=ask, key=role)

    def _names(self, team: int) -> tuple[str, ...]:
        size = self.rules.payoffs.members
        return self.rules.roles[size * team : size * (team + 1)]

    def step(self, replies: Mapping[int, str]) -> None:
        words, size = self.rules.words, self.rules.payoffs.members
        choices = tuple(words.index(replies[seat]) for seat in range(2 * size))
        self.choices = (choices[:size], choices[size:])

    def _words(self, team: int) -> tuple[str, ...]:
        return tuple(self.rules.words[choice] for choice in self.choices[team])

    def ending(self, seat: int) -> str:
        """Return all choices."""
        own_team, other_team = _team_and_opponent(self.rules, seat)
        if self.rules.brief:
            own_words = " ".join(self._words(own_team))
            other_words = " ".join(self._words(other_team))
            return f"we {own_words} they {other_words}"
        parts = (
            f"{role} chose {word}"
            for team in (own_team, other_team)
            for role, word in zip(self._names(team), self._words(team), strict=True)
        )
        return f"{', '.join(parts)}. Your team got {self.returns[seat]:g}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        rules, size = self.rules, self.rules.payoffs.members
        order = [member + size * team for member in range(size) for team in (0, 1)]
        words = [*self._words(0), *self._words(1)] if self.done else []
        seats(
            canvas,
            [rules.roles[player] for player in order],
            range(2 * size) if self.due() else (),
            {index: words[player] for index, player in enumerate(order)} if words else {},
            colours=[seat_colour(rules.teams[player]) for player in order],
        )
        if self.done:
            summaries = [
                rules.payoffs.summary_text(rules.payoffs.summary_of(choices))
                for choices in self.choices
            ]
            payoffs = (f"{self.returns[size * team]:+g}" for team in (0, 1))
            rows = [("team", "counts as", "gets"), *zip(TEAMS, summaries, payoffs, strict=True)]
            table(canvas, rows, shares=(3, 1))
        else:
            paragraph(canvas, f"Choices: {', '.join(rules.words)}.", colour="dim")

    def described(self, seat: int | None) -> str:
        if not self.done:
            return due_sentence(self.rules.roles)
        parts = (
            f"Team {name} chose {_join_names(self._words(team))} and got "
            f"{self.returns[self.rules.payoffs.members * team]:g}."
            for team, name in enumerate(TEAMS)
        )
        return " ".join(("The play is over.", *parts))

    def clone(self) -> TeamMatrixPlay:
        return TeamMatrixPlay(self.rules, self.choices)


def _team_and_opponent(rules: TeamMatrix, seat: int) -> tuple[int, int]:
    team = rules.teams[seat]
    return team, 1 - team


def _join_names(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


team_matrix = entry_of(TeamMatrix)
