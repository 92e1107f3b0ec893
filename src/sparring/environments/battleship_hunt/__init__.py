"""Battleship hunt: one seat finds and sinks a hidden fleet with a limited number of shots."""

from __future__ import annotations

from dataclasses import asdict, replace

from sparring.core.errors import ConfigError
from sparring.environments.battleship_hunt.rules import (
    ANSWERS,
    NAME,
    BattleshipOptions,
    Sea,
    check_room,
    lengths_of,
    word_of,
)
from sparring.environments.drawing.boards import Cell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.banks import Banked
from sparring.environments.openspiel.base import CHANCE, Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.options import check_range, with_options

SAID = ("a miss.", "a hit.", "a hit, and a ship is sunk.")


class BattleshipHunt(Banked):
    """One seat shoots at cells; the sea answers miss, hit or sunk."""

    title = "battleship"
    counted = "layouts"

    def __init__(self, options: BattleshipOptions, style: Style) -> None:
        cells = range(options.rows * options.columns)
        words = tuple(word_of(options.columns, cell) for cell in cells)
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("hunter",), words=words, style=style
        )
        self.columns = options.columns
        self.rules = _rules(self.first_table)

    def private_words(self) -> tuple[str, ...]:
        """Return the answers, and how a game can end."""
        return (*ANSWERS, "won", "lost")

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the answers to the shots from ply ``since`` - 1 on.

        In the opening the shots are returned too.
        """
        table, out = state.table, []
        for event in state.trail:
            if event.player != CHANCE and event.ply + 1 >= since:
                word, told = self.words[event.action], table.told(event.ply)
                if self.brief:
                    out += [*([] if since else [word]), *told]
                    continue
                out.append(f"You shot at {word}: {SAID[table.answers[event.ply]]}")
                out += [
                    "All ships are sunk." if end == "won" else "You have no shots left."
                    for end in told[1:]
                ]
        return out

    def position(self, state: State, seat: int) -> str:
        """Return the board as the seat sees it, and what is left."""
        table = state.table
        head = "  " + " ".join(str(column + 1) for column in range(self.columns))
        lines = [
            f"{'abcdefgh'[number]} {' '.join(row)}"
            for number, row in enumerate(table.view(0).split("/"))
        ]
        legend = "The board ('.' not shot at, 'o' a miss, 'x' a hit, 's' a hit that sank a ship):"
        ships = len(table.lengths) - table.sunk
        return "\n".join([legend, head, *lines, f"Shots left: {table.left}. Ships left: {ships}."])

    def revealed(self, state: State) -> str:
        """Return the cells of every ship."""
        table = state.table
        cells = (
            [self.words[cell] for cell in range(table.cells) if ship >> cell & 1]
            for ship in table.ships
        )
        return f"The ships: {'; '.join(' '.join(ship) for ship in cells)}."

    def paint_table(self, canvas: Canvas, table: Sea, seat: int | None) -> None:
        """Draw a sea: a dot is a miss, a cross a hit, a filled cross the hit that sank a ship."""
        ships = sum(table.ships) if seat is None else 0
        answers = dict(zip(table.moves, table.answers, strict=True))
        last = table.moves[-1] if table.moves else -1
        cells = [
            _cell(answers.get(cell), bool(ships >> cell & 1), cell == last)
            for cell in range(table.cells)
        ]
        board = [
            cells[start : start + table.columns] for start in range(0, table.cells, table.columns)
        ]
        columns = [str(column + 1) for column in range(table.columns)]
        grid(canvas, board, rows="abcdefgh"[: table.rows], columns=columns)
        paragraph(canvas, _news(table), colour="dim")

    def describe_table(self, table: Sea, seat: int | None) -> str:
        """Return the last shot, what is left, and where was hit."""
        hit = [
            word_of(table.columns, move)
            for move, answer in zip(table.moves, table.answers, strict=True)
            if answer
        ]
        ships = ""
        if seat is None:
            said = (
                " ".join(
                    word_of(table.columns, cell) for cell in range(table.cells) if ship >> cell & 1
                )
                for ship in table.ships
            )
            ships = f" The ships lie on {'; '.join(said)}."
        return f"{_news(table)} Hit so far: {', '.join(hit) or 'nothing'}.{ships}"


def _cell(answer: int | None, ship: bool, last: bool) -> Cell:
    """Return a cell of the picture."""
    fill = "sky" if ship else "none"
    if answer is None:
        return Cell(fill=fill)
    if not answer:
        return Cell(fill="panel", shape="dot", colour="dim", marked=last)
    if answer == 1:
        return Cell("X", fill=fill, colour="black" if ship else "red", marked=last, bold=True)
    return Cell("X", fill=fill, shape="disc", colour="red", marked=last, bold=True)


def _news(table: Sea) -> str:
    """Return the last shot and what is left."""
    afloat = len(table.lengths) - table.sunk
    left = f"{table.left} shots and {afloat} of {len(table.lengths)} ships are left."
    if not table.moves:
        return left
    word = word_of(table.columns, table.moves[-1])
    return f"The last shot is {word}: {ANSWERS[table.answers[-1]]}; {left}"


def _rules(table: Sea) -> str:
    """Return the rules in full style."""
    lengths, cells = table.lengths, sum(table.lengths)
    lies = "Ships lie straight, across or down, and never overlap" + (
        "; they may touch." if table.touch else " or touch, not even at corners."
    )
    paid = (
        f"You get 1/{cells} point for every cell of a ship that you hit."
        if table.pay == "share"
        else "You get 1 point if all ships are sunk, else 0."
    )
    return (
        f"You hunt a hidden fleet on {table.rows} rows and {table.columns} "
        f"columns: {len(lengths)} ship(s), of {', '.join(map(str, lengths))} cell(s). {lies} On "
        "your turn you shoot at a cell that you have not shot at before; b3 is row b (rows from "
        "the top: a, b, ...), column 3 (columns from the left). You are told miss, hit, or, when "
        "every cell of the ship has been hit, that it is sunk, but not which ship it is. You "
        f"have {table.shots} shots; the game ends when they are spent or all ships are "
        f"sunk. {paid}"
    )


@with_options(BattleshipOptions)
def battleship_hunt(options: BattleshipOptions, *, style: Style = "brief") -> Game:
    """Battleship for 1 seat: find and sink a hidden fleet with a limited number of shots.

    Each shot is answered miss, hit or sunk.

    Chance draws one of ``layouts`` layouts of the fleet, all equally likely, at the start; nothing
    else is random. A layout is drawn from all ways to lay the ships straight, across or down,
    without overlap, each as likely as any other. "sunk" is the answer to the shot that hits the
    last cell of a ship, which ship is not said. A cell can be shot at once; again is illegal. The
    game ends when all ships are sunk or no shot is left. In brief style a turn is answered by one
    word, and the last also by "won" or "lost".

    Not OpenSpiel's ``battleship``, in which two seats lay ships and shoot at each other.

    Easy to hard: 3 x 3, "2", 5 shots; 4 x 4, "3 2", 10; 6 x 6, "3 2 2", 20; 8 x 8, "4 3 2", 35.

    Args:
        rows: 1 to 8.
        columns: 1 to 8.
        fleet: length of each ship, 1 to 4 ships, such as "3 2 2"; one is at most as long as the
            longer side of the board.
        shots: at least the number of the ships' cells, at most that of all cells.
        layouts: number of layouts in the bank, 1 to 100,000.
        bank: seed of the bank: layout number i depends on ``rows``, ``columns``, ``fleet``,
            ``touch``, ``bank`` and i alone.
        touch: whether ships may lie side by side or corner to corner.
        pay: 1 if all ships are sunk, else 0; or with "share" the share of the ships' cells that are
            hit.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or a fleet that does not fit, or fits in less than 1 of
            10,000 ways to drop its ships.

    Reference: Milton Bradley, "Battleship", 1967; Fiat and Shamir, "How to find a battleship",
    1989; Sevenster, "Battleships as a decision problem", 2004.
    """
    rows, columns, lengths = options.rows, options.columns, lengths_of(options.fleet)
    if lengths[0] > max(rows, columns):
        raise ConfigError(
            f"{NAME}: fleet={options.fleet!r} has a ship longer than the board; write lengths up "
            f"to {max(rows, columns)}."
        )
    check_room(rows, columns, lengths, options.touch)
    check_range(f"{NAME}: shots", options.shots, sum(lengths), rows * columns)
    # one fleet, one game, in whatever order it was written
    return BattleshipHunt(replace(options, fleet=" ".join(map(str, lengths))), style)
