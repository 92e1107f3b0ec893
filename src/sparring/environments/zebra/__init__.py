"""Logic-grid puzzles, like Einstein's zebra: one seat writes one value a turn."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.bank import BANKS
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, table
from sparring.environments.openspiel.banks import BankGame
from sparring.environments.openspiel.base import State, Style
from sparring.environments.openspiel.fill_in import FillInTable
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import Rules, register
from sparring.environments.options import entry_of
from sparring.environments.zebra.deduction import Board, Clue
from sparring.environments.zebra.puzzles import (
    ATTRIBUTES,
    CLUE_KINDS,
    VALUES,
    clue_words,
    clues_text,
    item_word,
    normal_form,
    puzzle_of,
    read_puzzle,
    word_of,
)

NAME = "zebra"  # the name registered with OpenSpiel


@dataclass(frozen=True, kw_only=True)
class ZebraOptions:
    """Options of ``zebra``."""

    houses: Annotated[int, Field(ge=2, le=5)] = 3
    attributes: Annotated[int, Field(ge=2, le=4)] = 3
    kinds: Literal["places", "links", "order"] = "order"
    level: Literal["any", "deduced", "search"] = "any"
    puzzles: Annotated[int, Field(ge=1, le=100_000)] = 64
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    wrong: Literal["ends", "continues"] = "ends"
    pay: Literal["solved", "share"] = "solved"
    puzzle: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ZebraTable(ZebraOptions, FillInTable):
    """A position: the puzzle, the current board, and the action ids so far."""

    clues: tuple[Clue, ...] = ()

    @property
    def values(self) -> int:
        """The number of values of an attribute."""
        return self.houses

    @property
    def blanks(self) -> int:
        """The number of cells, which are all empty at the start."""
        return self.houses * self.attributes

    @property
    def start(self) -> Hashable:
        """The set of clues that was drawn from the bank."""
        return (self.houses, self.attributes, frozenset(self.clues))

    def with_puzzle(self, index: int) -> ZebraTable:
        """Return the table with its puzzle."""
        clues, solution = self.fixed_puzzle or puzzle_of(
            self.houses, self.attributes, self.kinds, self.level, self.bank, index
        )
        return replace(self, clues=clues, solution=solution, cells=(0,) * self.blanks)

    def word(self, index: int) -> str:
        """Return the word of a value in a cell."""
        return word_of(self.houses, self.attributes, index)

    def text(self, moves: tuple[int, ...]) -> str:
        """Return the clues and the words of moves."""
        return f"{clues_text(self.houses, self.clues)} | {' '.join(map(self.word, moves))}"


def rules(options: ZebraOptions) -> Rules:
    """Return the numbers of actions and turns of the game, and its first table."""
    initial_table = ZebraTable(**asdict(options))
    if options.puzzle:
        puzzle = read_puzzle(options.houses, options.attributes, options.puzzle)
        initial_table = replace(initial_table, fixed_puzzle=puzzle)
    return initial_table.rules(
        actions=options.houses * initial_table.blanks, length=initial_table.blanks
    )


register(NAME, ZebraOptions, rules)


SENTENCES = {
    "is": "House {two} has {one}.",
    "not": "House {two} does not have {one}.",
    "with": "{one} and {two} are in the same house.",
    "without": "{one} and {two} are not in the same house.",
    "left": "The house with {one} is directly to the left of the house with {two}.",
    "before": "The house with {one} is somewhere to the left of the house with {two}.",
    "next": "The house with {one} is next to the house with {two}.",
}


class Zebra(BankGame):
    """Logic-grid (zebra) puzzle for 1 seat: write one value a turn, from clues with one solution.

    Every house has one value of each attribute (colour, drink, pet, food), and no two houses have
    the same value. Chance draws one of ``puzzles`` puzzles, all equally likely, at the start;
    nothing else is random and nothing is hidden. A value in a filled cell is illegal. Every value
    of the attribute is legal in an empty cell, even if another house has it, so most legal moves
    are wrong. No clue is redundant. In brief style a clue is 1 to 3 words: "h1=red", "not h1=red",
    or an item, a kind and an item: "red left tea". The vocabulary has 46 words for 3 houses and 3
    attributes, 22 for 2 and 2, and 130 for 5 and 4.

    Args:
        houses: number of houses, 2 to 5; every attribute has as many values.
        attributes: number of attributes, 2 to 4.
        kinds: what clues say: "places" (a value is in a house, or not), "links" (also: two values
            are "with" each other in one house, or "without"), "order" (also: "left", one value is
            directly left of the other; "before", it is somewhere to the left; "next", it is in the
            next house).
        level: the deduction that the puzzle needs: "deduced" (unit propagation solves it, and needs
            every clue), "search" (unit propagation is not enough; not available for 2 houses or
            kinds "places"), "any" (no condition).
        puzzles: number of puzzles in the bank, 1 to 100,000, built on first use.
        bank: seed of the bank: puzzle number i of a bank depends only on ``houses``,
            ``attributes``, ``kinds``, ``level``, ``bank`` and i. Two banks share puzzles if there
            are only 2 houses.
        wrong: the effect of a value that is not in the solution: "ends" the game, or the game
            "continues" to a full board.
        pay: at the end 1 for a solved puzzle and else 0, or with "share" the share of the cells
            with the solution's value.
        puzzle: a puzzle that replaces the bank: its clues in brief style, such as "h1=red; tea
            left red; not h2=milk".
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, clues without exactly one solution, or a level without a
            puzzle.

    Reference: "Who Owns the Zebra?", Life International, 1962; the task: arXiv 2502.01100
    (ZebraLogic).
    """

    title = "zebra"
    size_option = "puzzles"

    def __init__(self, options: ZebraOptions, *, style: Style = "brief") -> None:
        options = replace(options, puzzle=normal_form(options.puzzle))
        houses, attributes = options.houses, options.attributes
        words = tuple(
            word_of(houses, attributes, index) for index in range(houses * houses * attributes)
        )
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("solver",), words=words, style=style
        )
        self.table: ZebraTable = self.first_table
        self.kinds = CLUE_KINDS["order" if self.table.fixed_puzzle else options.kinds]
        self.rules = _rules(self.table)
        self.first_node().child(0)  # raises ConfigError if the bank has no puzzle

    def private_words(self) -> tuple[str, ...]:
        houses = self.table.houses
        items = (item_word(houses, item) for item in range(self.table.blanks))
        return *self.kinds[1:], *(items if len(self.kinds) > 2 else ())

    def private(self, state: State, seat: int) -> str:
        """Return the clues: words in brief style, numbered sentences in full style."""
        houses, clues = self.table.houses, state.table.clues
        if self.brief:
            return clues_text(houses, clues)
        return "\n".join(
            [
                "The clues:",
                *(f"{number}. {_sentence(houses, clue)}" for number, clue in enumerate(clues, 1)),
            ]
        )

    def position(self, state: State, seat: int) -> str:
        return "\n".join(["The board ('?' is an empty cell):", *self._lines(state.table.cells)])

    def revealed(self, state: State) -> str:
        return "\n".join(["The solution:", *self._lines(state.table.solution)])

    def _lines(self, cells: Board) -> list[str]:
        houses, attributes = self.table.houses, self.table.attributes
        lines = []
        for house in range(houses):
            row = cells[house * attributes : (house + 1) * attributes]
            cell_texts = (
                f"{ATTRIBUTES[number]} {VALUES[number][value - 1] if value else '?'}"
                for number, value in enumerate(row)
            )
            lines.append(f"house {house + 1}: {', '.join(cell_texts)}")
        return lines

    def paint_table(self, canvas: Canvas, position: ZebraTable, seat: int | None) -> None:
        houses, attributes = position.houses, position.attributes
        rows = [("", *(f"house {house + 1}" for house in range(houses)))]
        faint_cells, colours, last_cells = [], {}, []
        for number in range(attributes):
            row = [ATTRIBUTES[number]]
            for house in range(houses):
                cell, table_cell = house * attributes + number, (number + 1, house + 1)
                value, solution_value = position.cells[cell], position.solution[cell]
                if not value:
                    faint_cells.append(table_cell)
                    row.append(VALUES[number][solution_value - 1] if seat is None else "?")
                    continue
                row.append(VALUES[number][value - 1])
                is_wrong = value != solution_value and (seat is None or position.wrong == "ends")
                colours[table_cell] = "red" if is_wrong else "sky"
                if position.moves and position.moves[-1] // houses == cell:
                    last_cells.append(table_cell)
            rows.append(tuple(row))
        table(canvas, rows, faint=faint_cells, colours=colours, marked=last_cells)
        heading(canvas, "Clues")
        clues = "; ".join(clue_words(houses, clue) for clue in position.clues)
        paragraph(canvas, f"{clues}.", most=12, size=14)

    def describe_table(self, position: ZebraTable, seat: int | None) -> str:
        houses, attributes = position.houses, position.attributes
        parts = []
        for house in range(houses):
            row = position.cells[house * attributes : (house + 1) * attributes]
            words = [VALUES[number][value - 1] for number, value in enumerate(row) if value]
            parts.append(f"house {house + 1} has {', '.join(words) or 'nothing'}")
        last_text = ""
        if position.moves:
            last_text = f" {word_of(houses, attributes, position.moves[-1])} was written last."
        mistakes_text = ""
        if seat is None and position.mistakes:
            mistakes_text = f" {position.mistakes} values are wrong."
        return (
            f"{position.cells.count(0)} of {position.blanks} cells are empty: {'; '.join(parts)}."
            f"{last_text}{mistakes_text}"
        )


def _sentence(houses: int, clue: Clue) -> str:
    kind, first, second = clue
    second_text = str(second + 1) if kind in ("is", "not") else item_word(houses, second)
    text = SENTENCES[kind].format(one=item_word(houses, first), two=second_text)
    return text[0].upper() + text[1:]


def _rules(table: ZebraTable) -> str:
    houses, attributes = table.houses, table.attributes
    values_text = "; ".join(
        f"{ATTRIBUTES[number]}: {', '.join(VALUES[number][:houses])}"
        for number in range(attributes)
    )
    wrong_text = (
        "A wrong value, one that is not in the solution, ends the game."
        if table.wrong == "ends"
        else (
            "A value stays where it is written, right or wrong, and you are not told which it is; "
            "the game ends when the board is full."
        )
    )
    pay_text = (
        f"You get 1/{table.blanks} point for every value you wrote that is in the solution."
        if table.pay == "share"
        else "You get 1 point if you solve the puzzle, and 0 otherwise."
    )
    return (
        f"You solve a logic puzzle about {houses} houses in a row, numbered 1 to {houses} from "
        "left to right. Every house has one value of each attribute, and no two houses share one "
        f"({values_text}). The clues leave exactly one solution. On your turn you write one value "
        f"into an empty cell of the board; h2={VALUES[0][0]} writes {VALUES[0][0]} into house "
        f"2. {wrong_text} {pay_text}"
    )


zebra = entry_of(Zebra, ZebraOptions)
