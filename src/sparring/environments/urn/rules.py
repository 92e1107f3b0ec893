"""Urns as an OpenSpiel game for one seat: contents of urns, draws and declarations, no wording."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register

NAME = "urn"  # the name registered with OpenSpiel
DRAW = "draw"
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
COLOURS = ("red", "blue", "green", "white")
# orders of the contents that are gone through before a set of urns so far apart is said not to
# exist
TRIES = 200

Urns = tuple[tuple[int, ...], ...]  # per urn the number of balls of each colour


@lru_cache(maxsize=1024)
def urns_of(urns: int, colours: int, balls: int, apart: int, bank: int, index: int) -> Urns:
    """Return set number ``index`` of a bank: contents with every colour in each urn.

    Any two urns are at least ``apart`` balls from each other.

    Contents are gone through in random order, and each that is far enough from those taken is
    taken. A set that is not found so is that of number 0.

    Raises:
        ConfigError: no such set is found.
    """
    cuts = itertools.combinations(range(1, balls), colours - 1)
    every = [
        tuple(high - low for low, high in itertools.pairwise((0, *cut, balls))) for cut in cuts
    ]
    stream = Stream.from_seed(bank).child(f"{NAME} {urns} {colours} {balls} {apart}").child(index)
    for number in range(TRIES):
        taken: list[tuple[int, ...]] = []
        for place in stream.child(number).generator().permutation(len(every)):
            if all(distance(every[place], other) >= apart for other in taken):
                taken.append(every[place])
            if len(taken) == urns:
                return tuple(taken)
    if index:
        return urns_of(urns, colours, balls, apart, bank, 0)
    raise ConfigError(
        f"urn: found no {urns} urns of {balls} balls in {colours} colours with apart={apart}; "
        "write a smaller apart, fewer urns or more balls."
    )


def distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return how many balls must change their colour to make one content the other."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) // 2


@dataclass(frozen=True, kw_only=True)
class UrnOptions:
    """Options of ``urn``."""

    urns: Annotated[int, Field(ge=2, le=len(NAMES))] = 2
    colours: Annotated[int, Field(ge=2, le=len(COLOURS))] = 2
    balls: Annotated[int, Field(le=20)] = 10
    apart: Annotated[int, Field(ge=1, le=20)] = 3
    draws: Annotated[int, Field(ge=1, le=20)] = 8
    cost: Annotated[float, Field(ge=0, le=1)] = 0.02
    sets: Annotated[int, Field(ge=1, le=10_000)] = 16
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0


@dataclass(frozen=True, slots=True)
class UrnTable(Table):
    """A position: the urns, which one is hidden, what was drawn and declared.

    Before they are drawn, the contents are empty and the hidden one is -1.

    Action id 0 draws a ball, 1 + u declares urn u. Chance draws the set of urns, the hidden urn,
    and the colour of each ball.
    """

    options: UrnOptions
    contents: Urns = ()
    hidden: int = -1
    drawing: bool = False
    drawn: tuple[int, ...] = ()  # colours
    declared: int = -1

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: the contents of the urns, in any order."""
        return (self.options.balls, frozenset(self.contents))

    @property
    def player(self) -> int:
        """The drawer, or chance at the start and while a ball is drawn.

        The end comes after a declaration.
        """
        if self.hidden < 0 or self.drawing:
            return CHANCE
        return TERMINAL if self.declared >= 0 else 0

    def legal(self) -> list[int]:
        """Return to draw, while draws are left, and to declare each urn."""
        return list(range(0 if len(self.drawn) < self.options.draws else 1, 1 + self.options.urns))

    def draws(self) -> range:
        """Return the sets of urns, the urns, or the colours in the hidden one."""
        return range(
            self.options.sets
            if not self.contents
            else self.options.urns
            if self.hidden < 0
            else self.options.colours
        )

    def chances(self) -> list[float]:
        """Return how likely each is: a ball's colour as the hidden urn has it.

        Sets and urns are equally likely.
        """
        if self.hidden < 0:
            return [1.0 / len(self.draws())] * len(self.draws())
        return [count / self.options.balls for count in self.contents[self.hidden]]

    def after(self, index: int) -> UrnTable:
        """Return the table with its urns, the hidden one or a ball drawn, or after an action."""
        if not self.contents:
            return replace(
                self,
                contents=urns_of(
                    self.options.urns,
                    self.options.colours,
                    self.options.balls,
                    self.options.apart,
                    self.options.bank,
                    index,
                ),
            )
        if self.hidden < 0:
            return replace(self, hidden=index)
        if self.drawing:
            return replace(self, drawing=False, drawn=(*self.drawn, index))
        return replace(self, drawing=True) if index == 0 else replace(self, declared=index - 1)

    def returns(self) -> list[float]:
        """Return at the end 1 for the right urn, less the cost of the draws; 0 before."""
        return (
            [float(self.declared == self.hidden) - self.options.cost * len(self.drawn)]
            if self.player == TERMINAL
            else [0.0]
        )

    def name_of(self, player: int, index: int) -> str:
        """Return the name of an action, or of a chance outcome."""
        if player >= 0:
            return NAMES[index - 1] if index else DRAW
        return (
            f"set {index}"
            if not self.contents
            else NAMES[index]
            if self.hidden < 0
            else COLOURS[index]
        )

    def sheet(self) -> tuple[tuple[str, ...], ...]:
        """Return the urns as words: each name with its numbers of balls, colour by colour."""
        return tuple(
            (NAMES[number], *map(str, content)) for number, content in enumerate(self.contents)
        )

    def outcome(self) -> tuple[str, ...]:
        """Return as words whether the declaration was right, and else which urn it was.

        Nothing before.
        """
        if self.declared < 0:
            return ()
        return ("right",) if self.declared == self.hidden else ("wrong", NAMES[self.hidden])

    def counts(self) -> tuple[int, ...]:
        """Return how often each colour was drawn."""
        return tuple(self.drawn.count(colour) for colour in range(self.options.colours))

    def key(self, seat: int) -> str:
        """Return the urns, the colours drawn in order, and how it ended."""
        seen = [COLOURS[colour] for colour in self.drawn]
        end = (
            [NAMES[self.declared], *self.outcome()]
            if self.declared >= 0
            else [DRAW]
            if self.drawing
            else []
        )
        return f"urns: {', '.join(map(' '.join, self.sheet()))}; drawn: {' '.join([*seen, *end])}"

    def __str__(self) -> str:
        """Return what the seat knows, and the hidden urn."""
        return f"{self.key(0)} hidden {NAMES[self.hidden] if self.hidden >= 0 else '?'}"


def rules(options: UrnOptions) -> Rules:
    """Return the facts of the game."""
    return Rules(
        opening=UrnTable(options),
        actions=1 + options.urns,
        outcomes=max(options.sets, options.urns, options.colours),
        length=options.draws + 1,
        least=0.0 - options.cost * options.draws,
        most=1.0,
        utility="identical",
        seats=1,
    )


register(NAME, UrnOptions, rules)
