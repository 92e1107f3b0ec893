"""Sokoban as an OpenSpiel game for one seat: the rooms and the rules, no wording."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.bank import BANKS
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.sokoban.distances import (
    DIRECTIONS,
    Floor,
    cells_of,
    moved,
)
from sparring.environments.sokoban.rooms import LARGEST, MOST_BOXES, Room, read_room, room_of

NAME = "sokoban"  # the name registered with OpenSpiel


@dataclass(frozen=True, kw_only=True)
class SokobanOptions:
    """Options of ``sokoban``."""

    rows: Annotated[int, Field(ge=4, le=LARGEST)] = 4
    columns: Annotated[int, Field(ge=4, le=LARGEST)] = 4
    boxes: Annotated[int, Field(ge=1, le=MOST_BOXES)] = 1
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
    """A position: the room, where agent and boxes are now, and the moves so far.

    The room is None before it is drawn, moves are ids of directions.
    """

    options: SokobanOptions
    only: Room | None = None  # the one room, if it is given
    room: Room | None = None
    agent: int = 0
    boxes: int = 0
    moves: tuple[int, ...] = ()

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: the room."""
        return self.room

    @property
    def player(self) -> int:
        """The pusher, or chance at the start.

        The end is when the room is solved or the moves are spent.
        """
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
        """Return the directions in which the agent can step or push.

        They are all four where blocked moves are allowed.
        """
        return [
            move
            for move in range(4)
            if self.options.blocked == "waits" or moved(self.floor, self.agent, self.boxes, move)
        ]

    def draws(self) -> range:
        """Return the numbers of the rooms."""
        return range(1 if self.only else self.options.rooms)

    def after(self, index: int) -> SokobanTable:
        """Return the table with its room, or after a move."""
        if self.room is None:
            room = self.only or self._room(index)
            return replace(self, room=room, agent=room.agent, boxes=room.boxes)
        agent, boxes = moved(self.floor, self.agent, self.boxes, index) or (self.agent, self.boxes)
        return replace(self, agent=agent, boxes=boxes, moves=(*self.moves, index))

    def _room(self, index: int) -> Room:
        """Return room number ``index`` of the bank."""
        o = self.options
        return room_of(o.rows, o.columns, o.boxes, o.walls, o.shortest, o.longest, o.bank, index)

    def returns(self) -> list[float]:
        """Return at the end 1 for a solved room, else 0 or the share of boxes on goals.

        The cost of the moves is subtracted.
        """
        return [
            self.paid((self.boxes & self.floor.goals).bit_count(), len(self.moves))
            if self.player == TERMINAL
            else 0.0
        ]

    def paid(self, home: int, spent: int) -> float:
        """Return what a play pays that ends with so many boxes on goals, after so many moves."""
        boxes = self.boxes.bit_count()
        share = self.options.pay == "share"
        return (home / boxes if share else float(home == boxes)) - self.options.cost * spent

    def name_of(self, player: int, index: int) -> str:
        """Return the name of a move, or of a room."""
        return f"room {index}" if player < 0 else DIRECTIONS[index]

    def told(self) -> list[str]:
        """Return the position in words: where everything is, and the moves left."""
        groups = [
            ("agent", [self.agent]),
            ("box", cells_of(self.boxes)),
            ("goal", cells_of(self.floor.goals)),
        ]
        if self.floor.walls:
            groups.append(("wall", cells_of(self.floor.walls)))
        out = [
            word
            for kind, cells in groups
            for word in (kind, *(self.cell(place) for place in cells))
        ]
        return [*out, "moves", str(self.options.moves - len(self.moves))]

    def cell(self, place: int) -> str:
        """Return the word of a cell: "r1c2" is row 1, column 2."""
        row, column = divmod(place, self.floor.columns)
        return f"r{row + 1}c{column + 1}"

    def opened(self) -> SokobanTable:
        """Return the table as it was before the first move."""
        room = self.room
        return self if room is None else replace(self, agent=room.agent, boxes=room.boxes, moves=())

    def key(self, seat: int) -> str:
        """Return the room and all moves in their order."""
        return " ".join([*self.opened().told(), *(DIRECTIONS[move] for move in self.moves)])

    def view(self, seat: int) -> str:
        """Return the position, however it was reached."""
        return " ".join(self.told()) if self.room else "no room yet"

    def __str__(self) -> str:
        """Return what the seat sees: nothing is hidden."""
        return self.view(0)


def rules(options: SokobanOptions) -> Rules:
    """Return the facts of the game."""
    only = read_room(options.room, options.moves) if options.room else None
    return Rules(
        opening=SokobanTable(options, only),
        actions=len(DIRECTIONS),
        outcomes=1 if only else options.rooms,
        length=options.moves,
        least=0.0 - options.cost * options.moves,
        most=1.0,
        utility="identical",
        seats=1,
        hidden=False,
        views=True,
    )


register(NAME, SokobanOptions, rules)
