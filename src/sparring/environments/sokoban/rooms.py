"""Rooms of sokoban: drawn so that their shortest solution is known, or read from text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.sokoban.distances import (
    Floor,
    between,
    homes,
    layers,
    mask_of,
    position_of,
)

TRIES = 500  # floors on which a room is sought
LARGEST = 7  # rows and columns
MOST_BOXES = 3
SIGNS = {
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
    """A floor with the agent and the boxes on it; boxes as a bit mask."""

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
    """Return room number ``index`` of a bank.

    Solved backwards from its goals, so its shortest solution has a known length.

    Raises:
        ConfigError: no such room was found.
    """
    stream = Stream.from_seed(bank).child(
        f"sokoban {rows} {columns} {boxes} {walls} {shortest} {longest}"
    )
    generator = stream.child(index).generator()
    for _ in range(TRIES):
        chosen = generator.permutation(rows * columns)[: walls + boxes]
        floor = Floor(
            rows=rows, columns=columns, walls=mask_of(chosen[:walls]), goals=mask_of(chosen[walls:])
        )
        found = between(floor, boxes, shortest, longest)
        if found:
            layer = found[generator.integers(len(found))]
            agent, placed = position_of(layer[generator.integers(len(layer))])
            return Room(floor=floor, agent=agent, boxes=placed)
    raise ConfigError(
        f"sokoban: shortest={shortest} with rows={rows}, columns={columns}, boxes={boxes} and "
        f"walls={walls}: no such room was found on {TRIES} floors; write a smaller shortest, a "
        "larger room, or other walls."
    )


def read_room(text: str, moves: int) -> Room:
    """Return the room written in text, rows parted by "/", without the wall around it.

    Raises:
        ConfigError: not a room of 1 to 7 rows and columns with one agent, 1 to 3 boxes, as many
            goals and a solution in ``moves``.
    """
    lines = [line.strip() for line in text.split("/")]
    rows, columns = len(lines), len(lines[0])
    wrong = next((sign for line in lines for sign in line if sign not in SIGNS), None)
    if (
        wrong is not None
        or any(len(line) != columns for line in lines)
        or not (1 <= rows <= LARGEST and 1 <= columns <= LARGEST)
    ):
        what = (
            f"holds {wrong!r}"
            if wrong is not None
            else f"has {rows} rows of {', '.join(str(len(line)) for line in lines)} cells"
        )
        raise ConfigError(
            f"sokoban: room={text!r} {what}; write 1 to {LARGEST} rows of 1 to {LARGEST} "
            f"of {' '.join(SIGNS)}, parted by '/', as '@$./---'."
        )
    kinds = [SIGNS[sign].split() for line in lines for sign in line]
    places = {
        kind: [cell for cell, held in enumerate(kinds) if kind in held]
        for kind in ("agent", "box", "goal", "wall")
    }
    agents, boxes, goals = (len(places[kind]) for kind in ("agent", "box", "goal"))
    if agents != 1 or not 1 <= boxes <= MOST_BOXES or goals != boxes:
        raise ConfigError(
            f"sokoban: room={text!r} has {agents} agent(s), {boxes} box(es) and {goals} goal(s); "
            f"write one agent, 1 to {MOST_BOXES} boxes and as many goals."
        )
    floor = Floor(
        rows=rows, columns=columns, walls=mask_of(places["wall"]), goals=mask_of(places["goal"])
    )
    room = Room(floor=floor, agent=places["agent"][0], boxes=mask_of(places["box"]))
    if room.boxes == floor.goals or _length(room, boxes, moves) is None:
        what = (
            "is solved already"
            if room.boxes == floor.goals
            else f"has no solution within moves={moves}"
        )
        raise ConfigError(
            f"sokoban: room={text!r} {what}; write a room whose shortest solution has 1 "
            f"to {moves} moves, or more moves."
        )
    return room


def _length(room: Room, boxes: int, most: int) -> int | None:
    """Return the length of the shortest solution, None if it is over ``most`` or there is none."""
    here = (room.agent, room.boxes)
    for length, layer in enumerate(
        islice(layers(room.floor, homes(room.floor, boxes, boxes)), most + 1)
    ):
        if here in map(position_of, layer):
            return length
    return None
