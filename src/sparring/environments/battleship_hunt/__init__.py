"""Battleship hunt: one seat finds and sinks a hidden fleet with a limited number of shots."""

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
from sparring.environments.battleship_hunt.fleets import MAX_SHIPS, fleet_placements
from sparring.environments.drawing.boards import BoardCell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.banks import BankGame
from sparring.environments.openspiel.base import State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import check_range, entry_of

# the name registered with OpenSpiel; OpenSpiel's own "battleship" is a game for two
NAME = "battleship_hunt"
ANSWERS = ("miss", "hit", "sunk")
# smallest share of random placements that must be valid, so that rejection sampling is fast
MIN_LAYOUT_SHARE = 1e-4
BLOCK_SIZE = 256  # number of random placements drawn at once


def lengths_of(fleet: str) -> tuple[int, ...]:
    """Return the lengths of the ships of a fleet written as "3 2 2", descending.

    Raises:
        ConfigError: the fleet is not 1 to 4 positive integers.
    """
    words = fleet.split()
    if not 1 <= len(words) <= MAX_SHIPS or not all(
        word.isascii() and word.isdigit() and int(word) > 0 for word in words
    ):
        raise ConfigError(
            f"{NAME}: fleet={fleet!r} must be the lengths of 1 to {MAX_SHIPS} ships, separated by "
            'spaces; write fleet="3 2".'
        )
    return tuple(sorted(map(int, words), reverse=True))


@lru_cache(maxsize=256)
def check_fleet_fits(rows: int, columns: int, lengths: tuple[int, ...], touch: bool) -> None:
    """Check that a fleet fits, and that its layouts are not too rare for rejection sampling.

    Raises:
        ConfigError: the fleet does not fit, or its layouts are too rare.
    """
    all_placements = fleet_placements(rows, columns, lengths, touch)
    share = all_placements.tally().num_ordered / max(1, prod(map(len, all_placements.masks)))
    if share < MIN_LAYOUT_SHARE:
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
    """Return layout number ``index`` of a bank by rejection sampling, all layouts equally likely.

    Returns:
        each ship's cells as a bit mask; ships of equal length are in ascending order.
    """
    all_placements = fleet_placements(rows, columns, lengths, touch)
    ships = range(len(lengths))
    stream = (
        Stream.from_seed(bank)
        .child(f"{NAME} {rows} {columns} {' '.join(map(str, lengths))} {int(touch)}")
        .child(index)
    )
    generator, num_placements = stream.generator(), [len(masks) for masks in all_placements.masks]
    while True:
        block = generator.integers(0, num_placements, size=(BLOCK_SIZE, len(lengths)))
        for indices in block.tolist():
            if all(
                all_placements.compatible[ship][other][indices[ship], indices[other]]
                for ship in ships
                for other in range(ship)
            ):
                masks = [int(all_placements.masks[ship][indices[ship]]) for ship in ships]
                return tuple(sorted(masks, key=lambda mask: (-mask.bit_count(), mask)))


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
    """A position: the ships, the cells shot at and the answers, both in order of the shots.

    Action ids are the cells in reading order; an answer is an index into ``ANSWERS``.
    """

    lengths: tuple[int, ...]  # lengths of the ships of the fleet
    ships: tuple[int, ...] = ()  # each ship's cells as a bit mask; () before they are drawn
    moves: tuple[int, ...] = ()
    answers: tuple[int, ...] = ()

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.rows * self.columns

    @property
    def shots_left(self) -> int:
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
        """The layout that was drawn from the bank."""
        return (self.rows, self.columns, self.ships)

    @property
    def player(self) -> int:
        if not self.ships:
            return CHANCE
        return TERMINAL if not self.shots_left or self.sunk == len(self.lengths) else 0

    def legal(self) -> list[int]:
        return [cell for cell in range(self.cells) if cell not in self.moves]

    def draws(self) -> range:
        return range(self.layouts)

    def after(self, index: int) -> Sea:
        if not self.ships:
            return replace(
                self,
                ships=fleet_of(self.rows, self.columns, self.lengths, self.touch, self.bank, index),
            )
        moves = (*self.moves, index)
        ship = next((ship for ship in self.ships if ship >> index & 1), 0)
        is_sunk = ship and not ship & ~sum(1 << cell for cell in moves)
        return replace(
            self, moves=moves, answers=(*self.answers, 2 if is_sunk else 1 if ship else 0)
        )

    def returns(self) -> list[float]:
        """Return the share of ship cells hit, or whether the fleet is sunk; 0 before the end."""
        if self.player != TERMINAL:
            return [0.0]
        return [
            self.hits / sum(self.lengths)
            if self.pay == "share"
            else float(self.sunk == len(self.lengths))
        ]

    def name_of(self, player: int, index: int) -> str:
        return f"layout {index}" if player < 0 else word_of(self.columns, index)

    def feedback(self, number: int) -> tuple[str, ...]:
        """Return the words after shot ``number``: its answer, and at the end the result."""
        is_last = self.player == TERMINAL and number == len(self.moves) - 1
        return (
            ANSWERS[self.answers[number]],
            *(["won" if self.sunk == len(self.lengths) else "lost"] if is_last else []),
        )

    def key(self, seat: int) -> str:
        """Return all shots and their answers."""
        words = (
            word
            for number, move in enumerate(self.moves)
            for word in (self.name_of(seat, move), *self.feedback(number))
        )
        return f"shots: {' '.join(words)}"

    def view(self, seat: int) -> str:
        """Return the board: "." no shot, "o" a miss, "x" a hit, "s" a hit that sank a ship."""
        characters = ["."] * self.cells
        for move, answer in zip(self.moves, self.answers, strict=True):
            characters[move] = "oxs"[answer]
        return "/".join(
            "".join(characters[start : start + self.columns])
            for start in range(0, self.cells, self.columns)
        )

    def __str__(self) -> str:
        """Return the shots in order, the board and the ships."""
        return f"{self.key(0)} {self.view(0)} ships {' '.join(map(str, self.ships))}"


def word_of(columns: int, index: int) -> str:
    """Return the word of a cell: "b3" is row b, the second from the top, and column 3."""
    row, column = divmod(index, columns)
    return f"{'abcdefgh'[row]}{column + 1}"


def rules(options: BattleshipOptions) -> Rules:
    """Return the numbers of actions and turns of the game, and its first table."""
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


ANSWER_SENTENCES = ("a miss.", "a hit.", "a hit, and a ship is sunk.")


class BattleshipHunt(BankGame):
    """Battleship for 1 seat: find and sink a hidden fleet with a limited number of shots.

    Every shot gets the answer miss, hit or sunk.

    At the start chance draws one of the ``layouts`` layouts of the bank, all equally likely;
    nothing else is random. Each layout of the bank is a uniform draw from all ways to place the
    ships across or down without overlap. "sunk" is the answer to the shot that hits the last cell
    of a ship; the answer does not say which ship. A second shot at a cell is illegal. The game ends
    when all ships are sunk or no shot is left. In brief style the answer is one word, and the last
    turn adds "won" or "lost".

    OpenSpiel's ``battleship`` is another game: two seats place ships and shoot at each other.

    From easy to hard, with shots: 3 x 3, "2", 5; 4 x 4, "3 2", 10; 6 x 6, "3 2 2", 20; 8 x 8,
    "4 3 2", 35.

    Args:
        rows: number of rows, 1 to 8.
        columns: number of columns, 1 to 8.
        fleet: lengths of 1 to 4 ships, such as "3 2 2"; a ship is at most as long as the longer
            side of the board.
        shots: number of shots, from the number of ship cells to the number of all cells.
        layouts: number of layouts in the bank, 1 to 100,000.
        bank: seed of the bank: layout number i depends only on ``rows``, ``columns``,
            ``fleet``, ``touch``, ``bank`` and i.
        touch: whether ships may lie side by side or corner to corner.
        pay: "sunk": 1 if all ships are sunk, else 0; "share": the share of the ships' cells that
            are hit.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number is out of range, or the fleet does not fit, or fewer than 1 of 10,000
            random placements of the fleet are valid.

    Reference: Milton Bradley, "Battleship", 1967; Fiat and Shamir, "How to find a battleship",
    1989; Sevenster, "Battleships as a decision problem", 2004.
    """

    title = "battleship"
    size_option = "layouts"

    def __init__(self, options: BattleshipOptions, *, style: Style = "brief") -> None:
        rows, columns, lengths = options.rows, options.columns, lengths_of(options.fleet)
        if lengths[0] > max(rows, columns):
            raise ConfigError(
                f"{NAME}: fleet={options.fleet!r} has a ship longer than the board; write "
                f"lengths up to {max(rows, columns)}."
            )
        check_fleet_fits(rows, columns, lengths, options.touch)
        check_range(f"{NAME}: shots", options.shots, sum(lengths), rows * columns)
        # fleets that differ only in the order of their ships are equal
        options = replace(options, fleet=" ".join(map(str, lengths)))
        cells = range(options.rows * options.columns)
        words = tuple(word_of(options.columns, cell) for cell in cells)
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("hunter",), words=words, style=style
        )
        self.columns = options.columns
        self.rules = _rules_text(self.first_table)

    def private_words(self) -> tuple[str, ...]:
        return (*ANSWERS, "won", "lost")

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the answers from ply ``since`` - 1 on; with ``since`` 0 all shots and answers."""
        table, texts = state.table, []
        for event in state.trail:
            if event.player != CHANCE and event.ply + 1 >= since:
                word, feedback = self.words[event.action], table.feedback(event.ply)
                if self.brief:
                    texts += [*([] if since else [word]), *feedback]
                    continue
                texts.append(f"You shot at {word}: {ANSWER_SENTENCES[table.answers[event.ply]]}")
                texts += [
                    "All ships are sunk." if result == "won" else "You have no shots left."
                    for result in feedback[1:]
                ]
        return texts

    def position(self, state: State, seat: int) -> str:
        table = state.table
        column_names = "  " + " ".join(str(column + 1) for column in range(self.columns))
        lines = [
            f"{'abcdefgh'[number]} {' '.join(row)}"
            for number, row in enumerate(table.view(0).split("/"))
        ]
        legend = "The board ('.' not shot at, 'o' a miss, 'x' a hit, 's' a hit that sank a ship):"
        num_afloat = len(table.lengths) - table.sunk
        return "\n".join(
            [
                legend,
                column_names,
                *lines,
                f"Shots left: {table.shots_left}. Ships left: {num_afloat}.",
            ]
        )

    def revealed(self, state: State) -> str:
        table = state.table
        cells = (
            [self.words[cell] for cell in range(table.cells) if ship >> cell & 1]
            for ship in table.ships
        )
        return f"The ships: {'; '.join(' '.join(ship) for ship in cells)}."

    def paint_table(self, canvas: Canvas, table: Sea, seat: int | None) -> None:
        ship_cells = sum(table.ships) if seat is None else 0
        answers = dict(zip(table.moves, table.answers, strict=True))
        last_cell = table.moves[-1] if table.moves else -1
        cells = [
            _cell(answers.get(cell), bool(ship_cells >> cell & 1), cell == last_cell)
            for cell in range(table.cells)
        ]
        board = [
            cells[start : start + table.columns] for start in range(0, table.cells, table.columns)
        ]
        columns = [str(column + 1) for column in range(table.columns)]
        grid(canvas, board, rows="abcdefgh"[: table.rows], columns=columns)
        paragraph(canvas, _status_sentence(table), colour="dim")

    def describe_table(self, table: Sea, seat: int | None) -> str:
        hit_cells = [
            word_of(table.columns, move)
            for move, answer in zip(table.moves, table.answers, strict=True)
            if answer
        ]
        ships = ""
        if seat is None:
            ship_texts = (
                " ".join(
                    word_of(table.columns, cell) for cell in range(table.cells) if ship >> cell & 1
                )
                for ship in table.ships
            )
            ships = f" The ships lie on {'; '.join(ship_texts)}."
        return f"{_status_sentence(table)} Hit so far: {', '.join(hit_cells) or 'nothing'}.{ships}"


def _cell(answer: int | None, has_ship: bool, is_last: bool) -> BoardCell:
    fill = "sky" if has_ship else "none"
    if answer is None:
        return BoardCell(fill=fill)
    if not answer:
        return BoardCell(fill="panel", shape="dot", colour="dim", marked=is_last)
    if answer == 1:
        colour = "black" if has_ship else "red"
        return BoardCell("X", fill=fill, colour=colour, marked=is_last, bold=True)
    return BoardCell("X", fill=fill, shape="disc", colour="red", marked=is_last, bold=True)


def _status_sentence(table: Sea) -> str:
    num_afloat = len(table.lengths) - table.sunk
    left_text = f"{table.shots_left} shots and {num_afloat} of {len(table.lengths)} ships are left."
    if not table.moves:
        return left_text
    word = word_of(table.columns, table.moves[-1])
    return f"The last shot is {word}: {ANSWERS[table.answers[-1]]}; {left_text}"


def _rules_text(table: Sea) -> str:
    lengths, num_cells = table.lengths, sum(table.lengths)
    placement = "Ships lie straight, across or down, and never overlap" + (
        "; they may touch." if table.touch else " or touch, not even at corners."
    )
    payoff_rule = (
        f"You get 1/{num_cells} point for every cell of a ship that you hit."
        if table.pay == "share"
        else "You get 1 point if all ships are sunk, else 0."
    )
    return (
        f"You hunt a hidden fleet on {table.rows} rows and {table.columns} "
        f"columns: {len(lengths)} ship(s), of {', '.join(map(str, lengths))} cell(s). {placement} "
        "On your turn you shoot at a cell that you have not shot at before; b3 is row b (rows from "
        "the top: a, b, ...), column 3 (columns from the left). You are told miss, hit, or, when "
        "every cell of the ship has been hit, that it is sunk, but not which ship it is. You "
        f"have {table.shots} shots; the game ends when they are spent or all ships are "
        f"sunk. {payoff_rule}"
    )


battleship_hunt = entry_of(BattleshipHunt, BattleshipOptions)
