"""Sokoban: one seat pushes boxes onto goals."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.drawing.boards import BoardCell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.banks import BankGame
from sparring.environments.openspiel.base import State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import check_range, entry_of
from sparring.environments.sokoban.distances import (
    DIRECTIONS,
    Floor,
    cells_of,
    goal_positions,
    layers,
    layers_between,
    mask_of,
    position_of,
    step,
)

MAX_FLOORS = 500  # largest number of random floors to try for a room
MAX_SIDE = 7  # largest number of rows and of columns
MAX_BOXES = 3
CONTENTS = {  # character -> the things in its cell
    "@": "agent",
    "+": "agent goal",
    "$": "box",
    "*": "box goal",
    ".": "goal",
    "#": "wall",
    "-": "",
    "_": "",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """A floor with the agent's cell and the bit mask of the boxes."""

    floor: Floor
    agent: int
    boxes: int


@lru_cache(maxsize=16384)
def room_of(
    rows: int,
    columns: int,
    boxes: int,
    walls: int,
    shortest: int,
    longest: int,
    bank: int,
    index: int,
) -> Room:
    """Return room number ``index`` of a bank, from a backward search from the solved positions.

    Raises:
        ConfigError: no random floor has a room with such a solution.
    """
    stream = Stream.from_seed(bank).child(
        f"sokoban {rows} {columns} {boxes} {walls} {shortest} {longest}"
    )
    generator = stream.child(index).generator()
    for _ in range(MAX_FLOORS):
        cells = generator.permutation(rows * columns)[: walls + boxes]
        floor = Floor(
            rows=rows, columns=columns, walls=mask_of(cells[:walls]), goals=mask_of(cells[walls:])
        )
        layers_by_length = layers_between(floor, boxes, shortest, longest)
        if layers_by_length:
            layer = layers_by_length[generator.integers(len(layers_by_length))]
            agent, box_mask = position_of(layer[generator.integers(len(layer))])
            return Room(floor=floor, agent=agent, boxes=box_mask)
    raise ConfigError(
        f"sokoban: shortest={shortest} with rows={rows}, columns={columns}, boxes={boxes} and "
        f"walls={walls}: no room was found on {MAX_FLOORS} floors; write a smaller shortest, a "
        "larger room, or other walls."
    )


def read_room(text: str, moves: int) -> Room:
    """Return the room of a text, rows separated by "/", without the wall around it.

    Raises:
        ConfigError: the text is not a room of 1 to 7 rows and columns with one agent, 1 to 3 boxes,
            as many goals and a solution in ``moves``.
    """
    lines = [line.strip() for line in text.split("/")]
    rows, columns = len(lines), len(lines[0])
    bad_char = next((char for line in lines for char in line if char not in CONTENTS), None)
    if (
        bad_char is not None
        or any(len(line) != columns for line in lines)
        or not (1 <= rows <= MAX_SIDE and 1 <= columns <= MAX_SIDE)
    ):
        problem = f"has {rows} rows of {', '.join(str(len(line)) for line in lines)} cells"
        if bad_char is not None:
            problem = f"holds {bad_char!r}"
        raise ConfigError(
            f"sokoban: room={text!r} {problem}; write 1 to {MAX_SIDE} rows of 1 to {MAX_SIDE} "
            f"of {' '.join(CONTENTS)}, separated by '/', such as '@$./---'."
        )
    contents = [CONTENTS[char].split() for line in lines for char in line]
    cells = {
        kind: [cell for cell, kinds in enumerate(contents) if kind in kinds]
        for kind in ("agent", "box", "goal", "wall")
    }
    agents, boxes, goals = (len(cells[kind]) for kind in ("agent", "box", "goal"))
    if agents != 1 or not 1 <= boxes <= MAX_BOXES or goals != boxes:
        raise ConfigError(
            f"sokoban: room={text!r} has {agents} agent(s), {boxes} box(es) and {goals} goal(s); "
            f"write one agent, 1 to {MAX_BOXES} boxes and as many goals."
        )
    floor = Floor(
        rows=rows, columns=columns, walls=mask_of(cells["wall"]), goals=mask_of(cells["goal"])
    )
    room = Room(floor=floor, agent=cells["agent"][0], boxes=mask_of(cells["box"]))
    if room.boxes == floor.goals or _solution_length(room, boxes, moves) is None:
        problem = f"has no solution within moves={moves}"
        if room.boxes == floor.goals:
            problem = "is solved already"
        raise ConfigError(
            f"sokoban: room={text!r} {problem}; write a room whose shortest solution has 1 "
            f"to {moves} moves, or more moves."
        )
    return room


def _solution_length(room: Room, boxes: int, limit: int) -> int | None:
    """Return the length of the shortest solution; None if it is longer than ``limit``."""
    start = (room.agent, room.boxes)
    for length, layer in enumerate(
        islice(layers(room.floor, goal_positions(room.floor, boxes, boxes)), limit + 1)
    ):
        if start in map(position_of, layer):
            return length
    return None


NAME = "sokoban"  # the name registered with OpenSpiel


@dataclass(frozen=True, kw_only=True)
class SokobanOptions:
    """Options of ``sokoban``."""

    rows: Annotated[int, Field(ge=4, le=MAX_SIDE)] = 4
    columns: Annotated[int, Field(ge=4, le=MAX_SIDE)] = 4
    boxes: Annotated[int, Field(ge=1, le=MAX_BOXES)] = 1
    walls: Annotated[int, Field(ge=0)] = 2
    shortest: Annotated[int, Field(ge=1, le=200)] = 3
    longest: Annotated[int, Field(ge=1, le=200)] = 8
    moves: Annotated[int, Field(ge=1, le=200)] = 12
    rooms: Annotated[int, Field(ge=1, le=100_000)] = 64
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    blocked: Literal["illegal", "waits"] = "illegal"
    pay: Literal["solved", "share"] = "solved"
    cost: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    room: str = ""


@dataclass(frozen=True, slots=True)
class SokobanTable(Table):
    """A position: the room (None before the draw), the agent, the boxes, and the moves so far."""

    options: SokobanOptions
    fixed_puzzle: Room | None = None  # the room of option ``room``, if any
    room: Room | None = None
    agent: int = 0
    boxes: int = 0
    moves: tuple[int, ...] = ()

    @property
    def start(self) -> Hashable:
        """The room that was drawn from the bank."""
        return self.room

    @property
    def player(self) -> int:
        if self.room is None:
            return CHANCE
        return TERMINAL if self.solved or len(self.moves) == self.options.moves else 0

    @property
    def floor(self) -> Floor:
        """The floor of the room that was drawn."""
        if self.room is None:
            raise ValueError("No room is drawn yet.")
        return self.room.floor

    @property
    def solved(self) -> bool:
        """Whether every box is on a goal."""
        return self.boxes == self.floor.goals

    def legal(self) -> list[int]:
        """Return the possible directions; all four if blocked moves are legal."""
        return [
            move
            for move in range(4)
            if self.options.blocked == "waits" or step(self.floor, self.agent, self.boxes, move)
        ]

    def draws(self) -> range:
        return range(1 if self.fixed_puzzle else self.options.rooms)

    def after(self, index: int) -> SokobanTable:
        if self.room is None:
            options = self.options
            size = (options.rows, options.columns, options.boxes, options.walls)
            lengths = (options.shortest, options.longest)
            room = self.fixed_puzzle or room_of(*size, *lengths, options.bank, index)
            return replace(self, room=room, agent=room.agent, boxes=room.boxes)
        agent, boxes = step(self.floor, self.agent, self.boxes, index) or (self.agent, self.boxes)
        return replace(self, agent=agent, boxes=boxes, moves=(*self.moves, index))

    def returns(self) -> list[float]:
        """Return 1 for a solved room, else 0 or the share of boxes on goals, less costs."""
        if self.player != TERMINAL:
            return [0.0]
        return [self.pay_for((self.boxes & self.floor.goals).bit_count(), len(self.moves))]

    def pay_for(self, num_on_goals: int, moves: int) -> float:
        """Return the payoff for ``num_on_goals`` boxes on goals after ``moves`` moves."""
        boxes = self.boxes.bit_count()
        pays_share = self.options.pay == "share"
        return (
            num_on_goals / boxes if pays_share else float(num_on_goals == boxes)
        ) - self.options.cost * moves

    def name_of(self, player: int, index: int) -> str:
        return f"room {index}" if player < 0 else DIRECTIONS[index]

    def words(self) -> list[str]:
        """Return the words of all things with their cells, and of the number of moves left."""
        groups = [
            ("agent", [self.agent]),
            ("box", cells_of(self.boxes)),
            ("goal", cells_of(self.floor.goals)),
        ]
        if self.floor.walls:
            groups.append(("wall", cells_of(self.floor.walls)))
        words = [word for kind, cells in groups for word in (kind, *map(self.cell, cells))]
        return [*words, "moves", str(self.options.moves - len(self.moves))]

    def cell(self, index: int) -> str:
        """Return the word of a cell: "r1c2" is row 1, column 2."""
        row, column = divmod(index, self.floor.columns)
        return f"r{row + 1}c{column + 1}"

    def initial(self) -> SokobanTable:
        """Return the table before the first move."""
        room = self.room
        return self if room is None else replace(self, agent=room.agent, boxes=room.boxes, moves=())

    def key(self, seat: int) -> str:
        """Return the room and all moves in their order."""
        return " ".join([*self.initial().words(), *(DIRECTIONS[move] for move in self.moves)])

    def view(self, seat: int) -> str:
        """Return the position without its history."""
        return " ".join(self.words()) if self.room else "no room yet"

    def __str__(self) -> str:
        """Return the view of the seat; nothing is hidden."""
        return self.view(0)


def rules(options: SokobanOptions) -> Rules:
    """Return the numbers of actions and moves of the game, and its first table."""
    fixed_room = read_room(options.room, options.moves) if options.room else None
    return Rules(
        opening=SokobanTable(options, fixed_room),
        actions=len(DIRECTIONS),
        outcomes=1 if fixed_room else options.rooms,
        length=options.moves,
        least=0.0 - options.cost * options.moves,
        most=1.0,
        utility="identical",
        seats=1,
        hidden=False,
        views=True,
    )


register(NAME, SokobanOptions, rules)


CHARACTER_OF = {
    "": "-",
    "wall": "#",
    "goal": ".",
    "box": "$",
    "box goal": "*",
    "agent": "@",
    "agent goal": "+",
}


class Sokoban(BankGame):
    """Sokoban for 1 seat: walk up, down, left and right, and push every box onto a goal.

    Chance draws one of ``rooms`` rooms, all equally likely, at the start; nothing else is random
    and nothing is hidden. A search backwards from the solved positions finds the length of every
    room's shortest solution. A push is irreversible; a push against a wall or a second box is
    impossible. A wrong push can make the room unsolvable; the game then continues without
    a notice until no move is left. In brief style every prompt has the whole position: "agent r1c1
    box r2c2 goal r3c3 wall r4c1 r4c2 moves 11". The vocabulary has rows * columns + moves + 14
    words.

    Args:
        rows: number of rows, 4 to 7, without the wall around the room.
        columns: number of columns, 4 to 7.
        boxes: number of boxes and of goals, 1 to 3.
        walls: number of cells inside that are walls, 0 to a third of all.
        shortest: smallest length of a room's shortest solution, in moves, at least 1.
        longest: largest length; all lengths in this range that a floor has are equally likely.
        moves: largest number of moves in a game, ``longest`` to 200.
        rooms: number of rooms in the bank, 1 to 100,000, built on first use.
        bank: seed of the bank: room number i depends only on ``rows`` to ``longest``, ``bank``
            and i. Two banks can share rooms, especially small rooms.
        blocked: a move into a wall, or into a box that cannot move, is "illegal", or the agent
            "waits": the move is legal, changes nothing and costs a move.
        pay: "solved": 1 for a solved room, else 0; "share": the share of boxes on goals at the
            end.
        cost: cost of every move, 0 to 1, with or without a push.
        room: a room that replaces the bank, without the wall around it, such as "@$.-/-#--": rows
            separated by "/", with "@" agent, "$" box, "." goal, "*" box on a goal, "+" agent on a
            goal, "#" wall and "-" floor; 1 to 7 rows and columns, and a solution in ``moves``.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, a room without a solution, or lengths that no room has.

    Reference: Culberson, "Sokoban is PSPACE-complete", 1997; Junghanns and Schaeffer, "Sokoban:
    enhancing general single-agent search methods using domain knowledge", 2001 (deadlocks); rooms
    solved backwards: Taylor and Parberry, 2011.
    """

    title = "sokoban"
    size_option = "rooms"

    def __init__(self, options: SokobanOptions, *, style: Style = "brief") -> None:
        shortest, longest, moves = options.shortest, options.longest, options.moves
        check_range("sokoban: walls", options.walls, 0, options.rows * options.columns // 3)
        if not options.room and not shortest <= longest <= moves:
            raise ConfigError(
                f"sokoban: shortest={shortest}, longest={longest}, moves={moves} leave rooms that "
                "cannot be solved; write shortest <= longest <= moves."
            )
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("pusher",), words=DIRECTIONS, style=style
        )
        table = self.first_table
        sizes = table.fixed_puzzle.floor if table.fixed_puzzle else options
        self.rows, self.columns = sizes.rows, sizes.columns
        self.rules = _rules(table)
        self.first_node().child(0)  # raises ConfigError if the bank has no room

    def private_words(self) -> tuple[str, ...]:
        cells = [
            f"r{row + 1}c{column + 1}" for row in range(self.rows) for column in range(self.columns)
        ]
        numbers = map(str, range(self.max_turns + 1))
        return ("agent", "box", "goal", "wall", "moves", *cells, *numbers)

    def private(self, state: State, seat: int) -> str:
        """Return the initial room in brief style."""
        return " ".join(state.table.initial().words()) if self.brief else ""

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the position in brief style (at first also the moves), the moves in full style."""
        moves = [DIRECTIONS[event.action] for event in state.trail if event.player != CHANCE]
        if self.brief:
            return (
                state.table.words() if since else [*moves, *(state.table.words() if moves else [])]
            )
        if since:
            return [_end_text(state.table)] if state.done else []
        texts = [f"Your moves so far: {', '.join(moves)}."] if moves else []
        return [*texts, _end_text(state.table)] if state.done else texts

    def position(self, state: State, seat: int) -> str:
        table = state.table
        characters = [_character(table, cell) for cell in range(self.rows * self.columns)]
        wall_line = "#" * (self.columns + 2)
        lines = [
            f"#{''.join(characters[start : start + self.columns])}#"
            for start in range(0, len(characters), self.columns)
        ]
        title = f"The room (you have {self.max_turns - len(table.moves)} move(s) left):"
        return "\n".join([title, wall_line, *lines, wall_line])

    def paint_table(self, canvas: Canvas, table: SokobanTable, seat: int | None) -> None:
        rows, columns = table.floor.rows, table.floor.columns
        board = [
            [_cell(table, row * columns + column) for column in range(columns)]
            for row in range(rows)
        ]
        names = [f"c{column + 1}" for column in range(columns)]
        grid(canvas, board, rows=[f"r{row + 1}" for row in range(rows)], columns=names)
        paragraph(canvas, _moves_text(table), colour="dim")

    def describe_table(self, table: SokobanTable, seat: int | None) -> str:
        num_on_goals = (table.boxes & table.floor.goals).bit_count()
        return (
            f"{num_on_goals} of {table.boxes.bit_count()} boxes are on goals. {_moves_text(table)} "
            f"The room: {' '.join(table.words()[:-2])}."
        )


def _cell(table: SokobanTable, cell: int) -> BoardCell:
    is_goal = bool(table.floor.goals >> cell & 1)
    if table.floor.walls >> cell & 1:
        return BoardCell(fill="rule")
    if table.boxes >> cell & 1:
        return BoardCell(shape="square", colour="green" if is_goal else "orange", marked=is_goal)
    if cell == table.agent:
        return BoardCell("@", shape="disc", colour="blue", bold=True, marked=is_goal)
    return BoardCell(shape="ring", colour="green") if is_goal else BoardCell()


def _moves_text(table: SokobanTable) -> str:
    moves_left = table.options.moves - len(table.moves)
    if not table.moves:
        return f"{moves_left} moves are left."
    return f"The last move is {DIRECTIONS[table.moves[-1]]}; {moves_left} moves are left."


def _character(table: SokobanTable, cell: int) -> str:
    kind = "agent" if cell == table.agent else ""
    if table.boxes >> cell & 1 or table.floor.walls >> cell & 1:
        kind = "box" if table.boxes >> cell & 1 else "wall"
    return CHARACTER_OF[f"{kind} goal".strip() if table.floor.goals >> cell & 1 else kind]


def _end_text(table: SokobanTable) -> str:
    return "The room is solved." if table.solved else "You have no moves left."


def _rules(table: SokobanTable) -> str:
    blocked_text = (
        "is allowed, changes nothing and costs the move"
        if table.options.blocked == "waits"
        else "is illegal"
    )
    unsolved_text = (
        "the share of boxes that are on goals when the moves are spent"
        if table.options.pay == "share"
        else "0 points if not"
    )
    options = table.options
    cost_text = f", less {options.cost:g} point(s) for every move" if options.cost else ""
    return (
        f"You play Sokoban: push every box onto a goal, in at most {options.moves} moves. In the "
        "picture '@' is you, '$' a box, '.' a goal, '*' a box on a goal, '+' you on a goal, '#' a "
        "wall and '-' empty floor. On your turn you move one cell up, down, left or right. If a "
        "box is there you push it one cell further, which needs that cell to be free of walls and "
        "boxes. You can push one box at a time and never pull. A move into a wall, or into a box "
        f"that cannot be pushed, {blocked_text}. The game ends when every box is on a goal or the "
        "moves are spent; nobody tells you when a box can no longer be brought to a goal. You get "
        f"1 point if every box is on a goal, and {unsolved_text}{cost_text}."
    )


sokoban = entry_of(Sokoban, SokobanOptions)
