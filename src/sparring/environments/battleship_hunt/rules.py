"""The hunt for a hidden fleet as an OpenSpiel game for one seat.

Layouts of ships and the rules, no wording.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import prod
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.battleship_hunt.fleets import SHIPS, waters
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register

# the name registered with OpenSpiel, whose own "battleship" is a game for two
NAME = "battleship_hunt"
ANSWERS = ("miss", "hit", "sunk")
# least share of the ways to drop ships anywhere that are layouts: they are found by trying
TIGHT = 1e-4
BLOCK = 256  # tries drawn at once


def lengths_of(fleet: str) -> tuple[int, ...]:
    """Return the lengths of the ships of a fleet written as "3 2 2", descending.

    Raises:
        ConfigError: it is not 1 to 4 numbers from 1 on.
    """
    words = fleet.split()
    if not 1 <= len(words) <= SHIPS or not all(
        word.isascii() and word.isdigit() and int(word) > 0 for word in words
    ):
        raise ConfigError(
            f"{NAME}: fleet={fleet!r} must be the lengths of 1 to {SHIPS} ships, parted by "
            'spaces; write fleet="3 2".'
        )
    return tuple(sorted(map(int, words), reverse=True))


@lru_cache(maxsize=256)
def check_room(rows: int, columns: int, lengths: tuple[int, ...], touch: bool) -> None:
    """Refuse a fleet that does not fit, or fits in so few ways that layouts are too hard to find.

    Raises:
        ConfigError: says so.
    """
    water = waters(rows, columns, lengths, touch)
    share = water.tally().ordered / max(1, prod(map(len, water.masks)))
    if share < TIGHT:
        raise ConfigError(
            f"{NAME}: ships of {', '.join(map(str, lengths))} "
            f"cells{'' if touch else ' that do not touch'} {'hardly ' if share else 'do not '}fit "
            f"on {rows} rows and {columns} columns; write a larger board, or fewer or shorter "
            "ships."
        )


@lru_cache(maxsize=131_072)
def fleet_of(
    rows: int, columns: int, lengths: tuple[int, ...], touch: bool, bank: int, index: int
) -> tuple[int, ...]:
    """Return layout number ``index`` of a bank.

    The cells of each ship as bits, ships of one length in ascending order.

    Each ship is dropped anywhere, all of them again if two overlap (or touch, where they may not),
    so all layouts are equally likely.
    """
    water = waters(rows, columns, lengths, touch)
    ships = range(len(lengths))
    stream = (
        Stream.from_seed(bank)
        .child(f"{NAME} {rows} {columns} {' '.join(map(str, lengths))} {int(touch)}")
        .child(index)
    )
    generator = stream.generator()
    while True:
        for tried in generator.integers(
            0, [len(some) for some in water.masks], size=(BLOCK, len(lengths))
        ).tolist():
            if all(
                water.apart[one][other][tried[one], tried[other]]
                for one in ships
                for other in range(one)
            ):
                found = [int(water.masks[ship][tried[ship]]) for ship in ships]
                return tuple(sorted(found, key=lambda mask: (-mask.bit_count(), mask)))


@dataclass(frozen=True, kw_only=True)
class BattleshipOptions:
    """Options of ``battleship_hunt``."""

    rows: Annotated[int, Field(ge=1, le=8)] = 4
    columns: Annotated[int, Field(ge=1, le=8)] = 4
    fleet: str = "3 2"
    shots: int = 10
    layouts: Annotated[int, Field(ge=1, le=100_000)] = 256
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    touch: bool = True
    pay: Literal["sunk", "share"] = "sunk"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sea(BattleshipOptions, Table):
    """A position: the ships, the cells shot at, in order, and the answers.

    Ships are bits of cells, empty before they are drawn.

    Action ids are the cells in reading order; an answer is an index into ``ANSWERS``.
    """

    lengths: tuple[int, ...]  # of the fleet
    ships: tuple[int, ...] = ()
    moves: tuple[int, ...] = ()
    answers: tuple[int, ...] = ()

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.rows * self.columns

    @property
    def left(self) -> int:
        """The number of shots left."""
        return self.shots - len(self.moves)

    @property
    def sunk(self) -> int:
        """The number of ships sunk."""
        return self.answers.count(2)

    @property
    def hits(self) -> int:
        """The number of ship cells hit."""
        return len(self.answers) - self.answers.count(0)

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: where the ships lie."""
        return (self.rows, self.columns, self.ships)

    @property
    def player(self) -> int:
        """The hunter, chance at the start, the end when all ships are sunk or no shot is left."""
        if not self.ships:
            return CHANCE
        return TERMINAL if not self.left or self.sunk == len(self.lengths) else 0

    def legal(self) -> list[int]:
        """Return the cells not yet shot at."""
        return [cell for cell in range(self.cells) if cell not in self.moves]

    def draws(self) -> range:
        """Return the numbers of the layouts."""
        return range(self.layouts)

    def after(self, index: int) -> Sea:
        """Return the sea with its ships, or after a shot."""
        if not self.ships:
            return replace(
                self,
                ships=fleet_of(self.rows, self.columns, self.lengths, self.touch, self.bank, index),
            )
        moves = (*self.moves, index)
        ship = next((ship for ship in self.ships if ship >> index & 1), 0)
        whole = ship and not ship & ~sum(1 << cell for cell in moves)
        return replace(self, moves=moves, answers=(*self.answers, 2 if whole else 1 if ship else 0))

    def returns(self) -> list[float]:
        """Return at the end 1 if all ships are sunk, else 0 or a share.

        The share is that of the ships' cells that are hit.
        """
        if self.player != TERMINAL:
            return [0.0]
        return [
            self.hits / sum(self.lengths)
            if self.pay == "share"
            else float(self.sunk == len(self.lengths))
        ]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of an action or of a layout."""
        return f"layout {index}" if player < 0 else word_of(self.columns, index)

    def told(self, number: int) -> tuple[str, ...]:
        """Return what shot ``number`` showed, as words: the answer, and how the game ended."""
        last = self.player == TERMINAL and number == len(self.moves) - 1
        return (
            ANSWERS[self.answers[number]],
            *(["won" if self.sunk == len(self.lengths) else "lost"] if last else []),
        )

    def key(self, seat: int) -> str:
        """Return all shots and their answers."""
        words = (
            word
            for number, move in enumerate(self.moves)
            for word in (self.name_of(seat, move), *self.told(number))
        )
        return f"shots: {' '.join(words)}"

    def view(self, seat: int) -> str:
        """Return the board as the seat sees it, rows parted by "/".

        "." not shot at, "o" a miss, "x" a hit, "s" one that sank a ship.
        """
        signs = ["."] * self.cells
        for move, answer in zip(self.moves, self.answers, strict=True):
            signs[move] = "oxs"[answer]
        return "/".join(
            "".join(signs[start : start + self.columns])
            for start in range(0, self.cells, self.columns)
        )

    def __str__(self) -> str:
        """Return the shots in order, the board and where the ships lie."""
        return f"{self.key(0)} {self.view(0)} ships {' '.join(map(str, self.ships))}"


def word_of(columns: int, index: int) -> str:
    """Return the word of a cell: "b3" is row b, the second from the top, and column 3."""
    row, column = divmod(index, columns)
    return f"{'abcdefgh'[row]}{column + 1}"


def rules(options: BattleshipOptions) -> Rules:
    """Return the facts of the game."""
    return Rules(
        opening=Sea(**asdict(options), lengths=lengths_of(options.fleet)),
        actions=options.rows * options.columns,
        outcomes=options.layouts,
        length=options.shots,
        least=0.0,
        most=1.0,
        utility="identical",
        seats=1,
        views=True,
    )


register(NAME, BattleshipOptions, rules)
