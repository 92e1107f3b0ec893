"""The rules of a team matrix game as an environment, and plays of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.core.records import Observation
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.painted import Painted
from sparring.environments.drawing.pieces import paragraph, seats, table
from sparring.environments.drawing.told import due_sentence
from sparring.environments.team_matrix.rules import Choices, Payoffs

TEAMS = ("a", "b")


class TeamMatrix:
    """Rules and wording: seats 0 .. N-1 are team a, the other N are team b.

    Args:
        payoffs: of which game.
        style: "brief" or "full".
    """

    name = "team_matrix"
    utility_sum, zero_sum = 0.0, True

    def __init__(self, payoffs: Payoffs, style: str) -> None:
        own = payoffs.members
        self.payoffs, self.style, self.brief = payoffs, style, style == "brief"
        self.roles = tuple(f"{team}{number + 1}" for team in TEAMS for number in range(own))
        self.teams = (0,) * own + (1,) * own
        self.num_seats = self.max_turns = 2 * own
        self.max_utility = payoffs.most
        self.min_utility = -payoffs.most
        self.words = payoffs.words

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of the brief wording."""
        return tuple(sorted({*self.words, *self.roles, "choose", "they", "we"}))

    def reset(self, stream: Any) -> Round:
        """Return a play at its start; nothing is left to chance."""
        return Round(self)

    def openings(self) -> tuple[tuple[float, Round], ...]:
        """Return the one play that there is at the start, with its probability."""
        return ((1.0, Round(self)),)


class Round(Painted):
    """One play.

    Attributes:
        chosen: the choices of team a and of team b; empty before.
    """

    def __init__(self, rules: TeamMatrix, chosen: tuple[Choices, ...] = ()) -> None:
        self.rules, self.chosen = rules, chosen

    @property
    def done(self) -> bool:
        """Whether all have chosen."""
        return bool(self.chosen)

    @property
    def returns(self) -> tuple[float, ...]:
        """What each seat gets: the payoff of its team."""
        rules = self.rules
        if not self.chosen:
            return (0.0,) * rules.num_seats
        mine, theirs = map(rules.payoffs.counted, self.chosen)
        own = rules.payoffs.paid(mine, theirs)
        return (own,) * rules.payoffs.members + (-own or 0.0,) * rules.payoffs.members

    def due(self) -> tuple[int, ...]:
        """Return all seats: they choose at once."""
        return () if self.done else tuple(range(self.rules.num_seats))

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the choices."""
        return self.rules.words

    def observe(self, seat: int) -> Observation:
        """Return the rules; nothing of the others' choices is known yet."""
        rules, role = self.rules, self.rules.roles[seat]
        if rules.brief:
            return Observation(told=f"{role} choose", key=role)
        own, other = (self._names(team) for team in _sides(rules, seat))
        mates = " and ".join(name for name in own if name != role)
        told = (
            f"Two teams play one round: {_listed(self._names(0))} against "
            f"{_listed(self._names(1))}. All players choose at once, and nobody sees what another "
            f"player chooses, of either team. {rules.payoffs.text()} All players of a team get "
            "what their team gets, and what one team gets the other team loses."
            f"\n\nYou are {role}. You play with {mates}, against {_listed(other)}."
        )
        ask = f"What do you choose? Reply with exactly one of: {', '.join(rules.words)}."
        return Observation(told=told, ask=ask, key=role)

    def _names(self, team: int) -> tuple[str, ...]:
        """Return the roles of a team."""
        own = self.rules.payoffs.members
        return self.rules.roles[own * team : own * (team + 1)]

    def step(self, replies: Mapping[int, str]) -> None:
        """Take all choices."""
        words, own = self.rules.words, self.rules.payoffs.members
        said = tuple(words.index(replies[seat]) for seat in range(2 * own))
        self.chosen = (said[:own], said[own:])

    def _said(self, team: int) -> tuple[str, ...]:
        """Return the choices of a team in words."""
        return tuple(self.rules.words[choice] for choice in self.chosen[team])

    def ending(self, seat: int) -> str:
        """Return what a seat learns at the end: all choices."""
        own, other = _sides(self.rules, seat)
        if self.rules.brief:
            return f"we {' '.join(self._said(own))} they {' '.join(self._said(other))}"
        parts = (
            f"{role} chose {word}"
            for team in (own, other)
            for role, word in zip(self._names(team), self._said(team), strict=True)
        )
        return f"{', '.join(parts)}. Your team got {self.returns[seat]:g}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the teams side by side and, once all have chosen, what was chosen and paid."""
        rules, own = self.rules, self.rules.payoffs.members
        order = [member + own * team for member in range(own) for team in (0, 1)]
        said = [*self._said(0), *self._said(1)] if self.done else []
        seats(
            canvas,
            [rules.roles[one] for one in order],
            range(2 * own) if self.due() else (),
            {place: said[one] for place, one in enumerate(order)} if said else {},
            colours=[seat_colour(rules.teams[one]) for one in order],
        )
        if self.done:
            counted = [rules.payoffs.named(rules.payoffs.counted(one)) for one in self.chosen]
            paid = (f"{self.returns[own * team]:+g}" for team in (0, 1))
            rows = [("team", "counts as", "gets"), *zip(TEAMS, counted, paid, strict=True)]
            table(canvas, rows, shares=(3, 1))
        else:
            paragraph(canvas, f"Choices: {', '.join(rules.words)}.", colour="dim")

    def described(self, seat: int | None) -> str:
        """Return who is to choose, or what both teams chose and got."""
        if not self.done:
            return due_sentence(self.rules.roles)
        parts = (
            f"Team {name} chose {_listed(self._said(team))} and got "
            f"{self.returns[self.rules.payoffs.members * team]:g}."
            for team, name in enumerate(TEAMS)
        )
        return " ".join(("The play is over.", *parts))

    def clone(self) -> Round:
        """Return a copy."""
        return Round(self.rules, self.chosen)


def _sides(rules: TeamMatrix, seat: int) -> tuple[int, int]:
    """Return the team of a seat, and the other one."""
    own = rules.teams[seat]
    return own, 1 - own


def _listed(names: tuple[str, ...]) -> str:
    """Return names as a list in a sentence."""
    return f"{', '.join(names[:-1])} and {names[-1]}"
