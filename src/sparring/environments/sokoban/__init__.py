"""Sokoban: one seat pushes boxes onto goals."""

from __future__ import annotations

from dataclasses import asdict

from sparring.core.errors import ConfigError
from sparring.environments.drawing.boards import Cell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.banks import Banked
from sparring.environments.openspiel.base import CHANCE, Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.options import check_range, with_options
from sparring.environments.sokoban.distances import DIRECTIONS
from sparring.environments.sokoban.rules import NAME, SokobanOptions, SokobanTable

PICTURE = {
    "": "-",
    "wall": "#",
    "goal": ".",
    "box": "$",
    "box goal": "*",
    "agent": "@",
    "agent goal": "+",
}


class Sokoban(Banked):
    """One seat walks through a room and pushes every box onto a goal."""

    title = "sokoban"
    counted = "rooms"

    def __init__(self, options: SokobanOptions, style: Style) -> None:
        super().__init__(
            load(NAME, asdict(options)),
            name=NAME,
            roles=("pusher",),
            words=DIRECTIONS,
            style=style,
        )
        table = self.first_table
        size = table.only.floor if table.only else options
        self.rows, self.columns = size.rows, size.columns
        self.rules = _rules(table)

    def private_words(self) -> tuple[str, ...]:
        """Return the words of a position: cells, what is on them, and the moves left."""
        cells = [
            f"r{row + 1}c{column + 1}" for row in range(self.rows) for column in range(self.columns)
        ]
        return (
            "agent",
            "box",
            "goal",
            "wall",
            "moves",
            *cells,
            *map(str, range(self.max_turns + 1)),
        )

    def private(self, state: State, seat: int) -> str:
        """Return the room as it was at the start in brief style."""
        return " ".join(state.table.opened().told()) if self.brief else ""

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return in brief style the whole position after each turn, in full style the moves.

        In the opening it is the position after all moves.
        """
        moves = [DIRECTIONS[event.action] for event in state.trail if event.player != CHANCE]
        if self.brief:
            return state.table.told() if since else [*moves, *(state.table.told() if moves else [])]
        if since:
            return [_end(state.table)] if state.done else []
        told = [f"Your moves so far: {', '.join(moves)}."] if moves else []
        return [*told, _end(state.table)] if state.done else told

    def position(self, state: State, seat: int) -> str:
        """Return the picture of the room, the wall around it drawn too."""
        table = state.table
        signs = [_sign(table, cell) for cell in range(self.rows * self.columns)]
        edge = "#" * (self.columns + 2)
        lines = [
            f"#{''.join(signs[start : start + self.columns])}#"
            for start in range(0, len(signs), self.columns)
        ]
        left = self.max_turns - len(table.moves)
        return "\n".join([f"The room (you have {left} move(s) left):", edge, *lines, edge])

    def paint_table(self, canvas: Canvas, table: SokobanTable, seat: int | None) -> None:
        """Draw a room; nothing of it is hidden.

        A wall is filled, a goal is a ring, a box is a square (green on a goal), the agent a disc.
        """
        rows, columns = table.floor.rows, table.floor.columns
        board = [
            [_cell(table, row * columns + column) for column in range(columns)]
            for row in range(rows)
        ]
        names = [f"c{column + 1}" for column in range(columns)]
        grid(canvas, board, rows=[f"r{row + 1}" for row in range(rows)], columns=names)
        paragraph(canvas, _moves(table), colour="dim")

    def describe_table(self, table: SokobanTable, seat: int | None) -> str:
        """Return where everything is, and how many moves are left."""
        home = (table.boxes & table.floor.goals).bit_count()
        return (
            f"{home} of {table.boxes.bit_count()} boxes are on goals. {_moves(table)} "
            f"The room: {' '.join(table.told()[:-2])}."
        )


def _cell(table: SokobanTable, place: int) -> Cell:
    """Return a cell of the picture."""
    goal = bool(table.floor.goals >> place & 1)
    if table.floor.walls >> place & 1:
        return Cell(fill="rule")
    if table.boxes >> place & 1:
        return Cell(shape="square", colour="green" if goal else "orange", marked=goal)
    if place == table.agent:
        return Cell("@", shape="disc", colour="blue", bold=True, marked=goal)
    return Cell(shape="ring", colour="green") if goal else Cell()


def _moves(table: SokobanTable) -> str:
    """Return the last move, and how many are left."""
    left = table.options.moves - len(table.moves)
    if not table.moves:
        return f"{left} moves are left."
    return f"The last move is {DIRECTIONS[table.moves[-1]]}; {left} moves are left."


def _sign(table: SokobanTable, cell: int) -> str:
    """Return the sign of a cell."""
    held = (
        "agent"
        if cell == table.agent
        else "box"
        if table.boxes >> cell & 1
        else "wall"
        if table.floor.walls >> cell & 1
        else ""
    )
    return PICTURE[f"{held} goal".strip() if table.floor.goals >> cell & 1 else held]


def _end(table: SokobanTable) -> str:
    """Return the sentence for the end of a game."""
    return "The room is solved." if table.solved else "You have no moves left."


def _rules(table: SokobanTable) -> str:
    """Return the rules in full style."""
    blocked = (
        "is allowed, changes nothing and costs the move"
        if table.options.blocked == "waits"
        else "is illegal"
    )
    lost = (
        "the share of boxes that are on goals when the moves are spent"
        if table.options.pay == "share"
        else "0 points if not"
    )
    options = table.options
    cost = f", less {options.cost:g} point(s) for every move" if options.cost else ""
    return (
        f"You play Sokoban: push every box onto a goal, in at most {options.moves} moves. In the "
        "picture '@' is you, '$' a box, '.' a goal, '*' a box on a goal, '+' you on a goal, '#' a "
        "wall and '-' empty floor. On your turn you move one cell up, down, left or right. If a "
        "box is there you push it one cell further, which needs that cell to be free of walls and "
        "boxes. You can push one box at a time and never pull. A move into a wall, or into a box "
        f"that cannot be pushed, {blocked}. The game ends when every box is on a goal or the "
        "moves are spent; nobody tells you when a box can no longer be brought to a goal. You get "
        f"1 point if every box is on a goal, and {lost}{cost}."
    )


@with_options(SokobanOptions)
def sokoban(options: SokobanOptions, *, style: Style = "brief") -> Game:
    """Sokoban for 1 seat: walk up, down, left and right, and push every box onto a goal.

    A push cannot be taken back.

    Chance draws one of ``rooms`` rooms, all equally likely, at the start; nothing else is random
    and nothing is hidden. Every room has a solution, found backwards from its goals, so the length
    of its shortest one is known. A push against a wall or a second box cannot be made. A wrong push
    can make the room unsolvable; the game then goes on until the moves are spent, and nothing says
    so. In brief style every turn tells the whole position: "agent r1c1 box r2c2 goal r3c3 wall r4c1
    r4c2 moves 11". Words: rows * columns, moves and 14 more.

    Args:
        rows: 4 to 7; the wall around the room is not counted.
        columns: 4 to 7.
        boxes: 1 to 3, and as many goals.
        walls: cells inside that are walls, 0 to a third of all.
        shortest: least length of a room's shortest solution, in moves, at least 1.
        longest: most of it; the lengths in between that a floor has are equally likely.
        moves: moves in one game, ``longest`` to 200.
        rooms: number of rooms in the bank, 1 to 100,000; each is made when it is first drawn.
        bank: seed of the bank: room number i depends on ``rows`` to ``longest``, ``bank`` and i
            alone. Two banks can share rooms, the more the smaller they are.
        blocked: a move that nothing can follow, into a wall or a box that does not give way, is
            "illegal", or the agent "waits": it is legal, changes nothing and costs the move.
        pay: 1 for a solved room and else 0, or else the share of boxes that are on goals when the
            moves are spent.
        cost: what every move costs, 0 to 1, whether it pushes or not.
        room: this one room instead of a bank, without the wall around it: "@$.-/-#--", rows parted
            by "/", of "@" agent, "$" box, "." goal, "*" box on a goal, "+" agent on a goal, "#"
            wall and "-" floor; 1 to 7 rows and columns, and a solution in ``moves``.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, a room without a solution, or lengths for which no room
            is found.

    Reference: Culberson, "Sokoban is PSPACE-complete", 1997; Junghanns and Schaeffer, "Sokoban:
    enhancing general single-agent search methods using domain knowledge", 2001 (deadlocks); rooms
    solved backwards: Taylor and Parberry, 2011.
    """
    shortest, longest, moves = options.shortest, options.longest, options.moves
    check_range("sokoban: walls", options.walls, 0, options.rows * options.columns // 3)
    if not options.room and not shortest <= longest <= moves:
        raise ConfigError(
            f"sokoban: shortest={shortest}, longest={longest}, moves={moves} leave rooms that "
            "cannot be solved; write shortest <= longest <= moves."
        )
    made = Sokoban(options, style)
    made.first_node().child(0)  # a room that cannot be found is refused here
    return made
