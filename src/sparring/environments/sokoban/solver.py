"""Solver: sokoban, by the length of the shortest solution of every position.

They are found by one search backwards from the goals.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from sparring.core.errors import OracleError
from sparring.core.records import Judgement
from sparring.environments.base import SearchablePlay
from sparring.environments.sokoban import SokobanTable
from sparring.environments.sokoban.distances import Distances, Floor, distances

ORACLE = "constraint"  # that asks this solver
# what oracle ``graded`` pays, as released: a move on a shortest solution, another one that leaves a
# solution, and one after which there is none
TIERS = {"shortest": 2.0, "other": 0.0, "deadlock": 0.0}

MOST_POSITIONS = 1_000_000  # of a room; every room of up to 7 rows, 7 columns and 3 boxes has fewer
KEPT_ROOMS = 128  # floors whose distances are remembered, at most 10 MB for each number of boxes


def sokoban(
    state: SearchablePlay,
    *,
    right: Literal["solution", "forced"] = "solution",
    lost: Literal["abstain", "solution"] = "abstain",
    solver: Literal["backtracking", "z3"] = "backtracking",
) -> Judgement | None:
    """Whether each move of sokoban keeps a solution within the moves that are left.

    The shortest solution of every position tells.

    What: a move is worth what the game pays if all later ones are the best, costs of moves
    included.
    When to use: through oracle ``constraint``, on game ``sokoban`` of any size. Oracle ``graded``
    puts moves into tiers: on a shortest solution ("shortest", 2), any other that leaves a solution
    ("other", 0), and one that leaves none ("deadlock", 0, as released; ``pay: {deadlock: -2}``
    tells it apart). The moves that are left do not count there, and a room that is lost already
    gets no verdict.
    Mathematics: d(s) is the least number of moves from s to a solved room. It is found by
    breadth-first search along moves taken back from all solved positions at once. The positions
    that it does not meet are exactly the deadlocks. With m moves left a move to s' is right if and
    only if
        d(s') <= m - 1
    A right move is worth
        value = 1 - cost * (all moves up to the solution)
    and any other move
        value = -cost * (all moves of the game)
    plus, where the share is paid, the largest j / boxes with d_j(s') <= m - 1, d_j the least moves
    until j boxes are on goals.
    Pitfalls: where moves cost, moves that keep a solution differ in value. With ``right``
    "solution" all of them are ``best``, not only those of the largest value. Walking back and forth
    is right as long as enough moves are left: "forced" tells it from progress. A room of more than
    1,000,000 positions gets no verdict; the game has none.
    Reference: Junghanns and Schaeffer, "Sokoban: enhancing general single-agent search methods
    using domain knowledge", 2001 (deadlocks); the task: arXiv 2605.10325.
    Verified by: tests/environments/sokoban/test_solver.py,
    tests/environments/sokoban/test_sokoban.py.

    Args:
        right: which moves are best. "solution" (default): every move that keeps a solution.
            "forced": only those on a shortest solution.
        lost: what is said of a position without a solution in the moves left, where only a solved
            room pays. "abstain" (default): nothing. "solution": moves are judged by the solution
            that more moves would allow, 1 on a shortest one, else 0; ``bound`` is the distance to
            what they truly pay, which is the same for all. A deadlock has no such solution and gets
            no verdict in any case.
        solver: "backtracking" (default), here the exact search. There is no "z3".
    """
    table = _table(state, solver)
    boxes = table.boxes.bit_count()
    found = solutions(table.floor, boxes, boxes)
    if found is None:
        return None
    children: list[SokobanTable] = [table.after(index) for index in state.legal_indices()]
    left = table.options.moves - len(table.moves) - 1  # after the move
    ways = [found.of(child.agent, child.boxes) for child in children]
    keeps = [way is not None and way <= left for way in ways]
    if not any(keeps) and table.options.pay != "share":
        return None if lost == "abstain" else _beyond(table, ways)
    values = [
        _value(child, way if keep else None, left)
        for child, way, keep in zip(children, ways, keeps, strict=True)
    ]
    if not any(keeps):
        return Judgement(values=values)
    return Judgement(values=values, best=_shortest(ways) if right == "forced" else keeps)


def tiers(state: SearchablePlay) -> list[str] | None:
    """Return the tier of each legal move, or None without a solution or with too many positions."""
    table = _table(state, "backtracking")
    boxes = table.boxes.bit_count()
    found = solutions(table.floor, boxes, boxes)
    if found is None:
        return None
    children = [table.after(index) for index in state.legal_indices()]
    ways = [found.of(child.agent, child.boxes) for child in children]
    if all(way is None for way in ways):
        return None
    return [
        "shortest" if best else "deadlock" if way is None else "other"
        for best, way in zip(_shortest(ways), ways, strict=True)
    ]


def reference(state: SearchablePlay) -> tuple[str, ...] | None:
    """Return the first shortest plan in the order of the moves; None with too many positions."""
    table = _table(state, "backtracking").opened()
    boxes = table.boxes.bit_count()
    found = solutions(table.floor, boxes, boxes)
    if found is None:
        return None
    while not table.solved:
        children = [table.after(index) for index in table.legal()]
        table = children[
            _shortest([found.of(child.agent, child.boxes) for child in children]).index(True)
        ]
    return tuple(table.name_of(0, move) for move in table.moves)


@lru_cache(maxsize=KEPT_ROOMS)
def solutions(floor: Floor, boxes: int, number: int) -> Distances | None:
    """Return least moves from each position to ``number`` boxes on goals; None if too many."""
    return distances(floor, boxes, number, MOST_POSITIONS)


def _table(state: SearchablePlay, solver: str) -> SokobanTable:
    table = getattr(state, "table", None)
    if not isinstance(table, SokobanTable):
        raise OracleError(
            f"Puzzle 'sokoban' was asked about a state of {state.game.name!r}; judge states of "
            "sokoban."
        )
    if state.seat < 0:
        why = "is finished" if state.done else "waits for chance"
        raise OracleError(
            f"Puzzle 'sokoban' was asked about a state that {why}, at ply {state.plies}; judge "
            "states with a move to make."
        )
    if solver != "backtracking":
        raise OracleError(
            f"Puzzle 'sokoban' has no solver {solver!r}; write solver='backtracking', which is "
            "exact here too."
        )
    return table


def _shortest(ways: list[int | None]) -> list[bool]:
    least = min(way for way in ways if way is not None)
    return [way == least for way in ways]


def _beyond(table: SokobanTable, ways: list[int | None]) -> Judgement | None:
    """Return the judgement by a solution longer than the moves left; None in a deadlock."""
    if all(way is None for way in ways):
        return None
    return Judgement(
        values=[float(ok) for ok in _shortest(ways)],
        bound=1.0 + table.options.cost * table.options.moves,
    )


def _value(child: SokobanTable, way: int | None, left: int) -> float:
    """Return what best play pays after a move; ``way`` None: the room cannot be solved in time."""
    boxes = child.boxes.bit_count()
    if way is not None:
        return child.paid(boxes, len(child.moves) + way)
    home = 0
    for number in range(boxes - 1, 0, -1) if child.options.pay == "share" else ():
        near = solutions(child.floor, boxes, number)
        length = None if near is None else near.of(child.agent, child.boxes)
        if length is not None and length <= left:
            home = number
            break
    return child.paid(home, child.options.moves)
