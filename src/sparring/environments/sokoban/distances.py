"""Moves of sokoban, and the distances of all positions to a solved room by one backward search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

DIRECTIONS = ("down", "left", "right", "up")  # the directions in the order of action ids
MAX_LOOP_POSITIONS = 1000  # for fewer positions a Python loop is faster than numpy
_SHIFT = 6  # number of bits for the agent's cell in a key, enough for 64 cells
_STEPS = ((1, 0), (0, -1), (0, 1), (-1, 0))
_OPPOSITE = (3, 2, 1, 0)  # the opposite direction

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """The fixed part of a room: cells row * columns + column as bit masks, with walls around."""

    rows: int
    columns: int
    walls: int = 0
    goals: int = 0


def cells_of(mask: int) -> list[int]:
    """Return the cells of a bit mask, ascending."""
    return [cell for cell in range(mask.bit_length()) if mask >> cell & 1]


def mask_of(cells: npt.NDArray[np.int64] | list[int] | tuple[int, ...]) -> int:
    """Return the bit mask of different cells."""
    return sum(1 << int(cell) for cell in cells)


@lru_cache(maxsize=4096)
def neighbours(floor: Floor) -> tuple[tuple[int, ...], ...]:
    """Return the neighbour of each cell in each direction, -1 for a wall; [cells][4]."""
    result = []
    for cell in range(floor.rows * floor.columns):
        row, column = divmod(cell, floor.columns)
        adjacent = [(row + down, column + right) for down, right in _STEPS]
        are_inside = [0 <= r < floor.rows and 0 <= c < floor.columns for r, c in adjacent]
        indices = [r * floor.columns + c for r, c in adjacent]
        result.append(
            tuple(
                index if is_inside and not floor.walls >> index & 1 else -1
                for index, is_inside in zip(indices, are_inside, strict=True)
            )
        )
    return tuple(result)


def step(floor: Floor, agent: int, boxes: int, direction: int) -> tuple[int, int] | None:
    """Return (agent, boxes) after a step or a push, None if a wall or a box blocks the move."""
    neighbour_of = neighbours(floor)
    target = neighbour_of[agent][direction]
    if target < 0:
        return None
    if not boxes >> target & 1:
        return target, boxes
    box_target = neighbour_of[target][direction]
    if box_target < 0 or boxes >> box_target & 1:
        return None
    return target, boxes ^ 1 << target ^ 1 << box_target


def key_of(agent: int, boxes: int) -> int:
    """Return a position as one number."""
    return boxes << _SHIFT | agent


def position_of(key: int) -> tuple[int, int]:
    """Return (agent, boxes) of a position given as one number."""
    return int(key) & (1 << _SHIFT) - 1, int(key) >> _SHIFT


def goal_positions(floor: Floor, boxes: int, num_on_goals: int) -> Keys:
    """Return all positions with at least ``num_on_goals`` boxes on goals, ascending."""
    free_cells = [cell for cell in range(floor.rows * floor.columns) if not floor.walls >> cell & 1]
    placements = [
        mask
        for mask in map(mask_of, combinations(free_cells, boxes))
        if (mask & floor.goals).bit_count() >= num_on_goals
    ]
    return np.sort(
        np.array(
            [key_of(a, mask) for mask in placements for a in free_cells if not mask >> a & 1],
            np.int64,
        )
    )


def layers(floor: Floor, start: Keys) -> Iterator[Keys]:
    """Yield the positions 0, 1, 2, ... moves from the nearest position of ``start``, ascending.

    This is a breadth-first search along reversed moves: a step, or a step that pulls a box.
    """
    neighbour_of = np.array(neighbours(floor), np.int64)
    visited = layer = start
    while len(layer):
        yield layer
        previous = np.unique(
            np.concatenate(
                [_predecessors(neighbour_of, layer, direction) for direction in range(4)]
            )
        )
        index = np.searchsorted(visited, previous)
        layer = previous[visited[np.minimum(index, len(visited) - 1)] != previous]
        visited = np.sort(np.concatenate([visited, layer]), kind="stable")


def _predecessors(neighbour_of: Keys, keys: Keys, direction: int) -> Keys:
    """Return the positions from which a move in a direction leads to one of ``keys``."""
    agent, boxes = keys & (1 << _SHIFT) - 1, keys >> _SHIFT
    source = neighbour_of[agent, _OPPOSITE[direction]]  # the agent's cell before the move
    is_free = source >= 0
    agent, boxes, source = agent[is_free], boxes[is_free], source[is_free]
    is_free = (boxes >> source & 1) == 0
    agent, boxes, source = agent[is_free], boxes[is_free], source[is_free]
    target = neighbour_of[agent, direction]  # the cell of a box that the move pushed
    is_push = (target >= 0) & ((boxes >> np.maximum(target, 0) & 1) == 1)
    bit = np.int64(1)
    boxes_before = boxes[is_push] ^ bit << target[is_push] ^ bit << agent[is_push]
    return np.concatenate([boxes << _SHIFT | source, boxes_before << _SHIFT | source[is_push]])


@dataclass(frozen=True, slots=True)
class Distances:
    """The least number of moves from each position to a target that can be reached."""

    keys: Keys  # [N] the positions as numbers, ascending
    moves: npt.NDArray[np.int16]  # [N] the least number of moves from each position

    def distance_of(self, agent: int, boxes: int) -> int | None:
        """Return the least number of moves, None if the target cannot be reached."""
        key = key_of(agent, boxes)
        index = int(np.searchsorted(self.keys, key))
        return (
            int(self.moves[index]) if index < len(self.keys) and self.keys[index] == key else None
        )


def distances(floor: Floor, boxes: int, num_on_goals: int, budget: int) -> Distances | None:
    """Return distances to ``num_on_goals`` boxes on goals; None for over ``budget`` positions."""
    num_positions = max_positions(floor, boxes)
    if num_positions > budget:
        return None
    if num_positions <= MAX_LOOP_POSITIONS:
        return _distances_one_by_one(floor, goal_positions(floor, boxes, num_on_goals).tolist())
    by_depth = list(layers(floor, goal_positions(floor, boxes, num_on_goals)))
    keys = np.concatenate(by_depth)
    moves = np.repeat(np.arange(len(by_depth), dtype=np.int16), [len(layer) for layer in by_depth])
    order = np.argsort(keys)
    return Distances(keys[order], moves[order])


def layers_between(floor: Floor, boxes: int, shortest: int, longest: int) -> list[Keys]:
    """Return the positions of each distance to a solved room from ``shortest`` to ``longest``."""
    start = goal_positions(floor, boxes, boxes)
    if max_positions(floor, boxes) > MAX_LOOP_POSITIONS:
        return list(islice(layers(floor, start), shortest, longest + 1))
    to_solved = _distances_one_by_one(floor, start.tolist())
    max_depth = min(longest, int(to_solved.moves.max()))
    return [to_solved.keys[to_solved.moves == depth] for depth in range(shortest, max_depth + 1)]


def _distances_one_by_one(floor: Floor, start: list[int]) -> Distances:
    """Return the distances to ``start`` by a loop, which is faster for few positions."""
    neighbour_of, moves, layer = neighbours(floor), dict.fromkeys(start, 0), start
    depth = 0
    while layer:
        depth += 1
        previous = []
        for key in layer:
            agent, boxes = key & (1 << _SHIFT) - 1, key >> _SHIFT
            for direction, opposite in enumerate(_OPPOSITE):
                source = neighbour_of[agent][opposite]
                if source < 0 or boxes >> source & 1:
                    continue
                target = neighbour_of[agent][direction]
                box_masks = [boxes]
                if target >= 0 and boxes >> target & 1:
                    box_masks.append(boxes ^ 1 << target ^ 1 << agent)
                for mask in box_masks:
                    key_before = mask << _SHIFT | source
                    if key_before not in moves:
                        moves[key_before] = depth
                        previous.append(key_before)
        layer = previous
    keys = np.array(sorted(moves), np.int64)
    return Distances(keys, np.array([moves[key] for key in keys.tolist()], np.int16))


def max_positions(floor: Floor, boxes: int) -> int:
    """Return an upper bound on the number of positions of ``boxes`` boxes and the agent."""
    num_cells = floor.rows * floor.columns - floor.walls.bit_count()
    bound = num_cells - boxes
    for count in range(boxes):
        bound = bound * (num_cells - count) // (count + 1)
    return bound
