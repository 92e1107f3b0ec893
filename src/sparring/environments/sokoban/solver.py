"""Solver of sokoban: the shortest solution of every position, by one backward search."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from sparring.core.errors import OracleError
from sparring.core.records import SolverResult
from sparring.environments.base import SearchablePlay
from sparring.environments.sokoban import SokobanTable
from sparring.environments.sokoban.distances import Distances, Floor, distances

ORACLE = "constraint"  # the oracle that calls this solver
# rewards of oracle ``graded``, as in its authors' code: a move of a shortest solution, another move
# that keeps a solution, and a move after which no solution exists
TIERS = {"shortest": 2.0, "other": 0.0, "deadlock": 0.0}

MAX_POSITIONS = 1_000_000  # positions of a room; 7 rows, 7 columns and 3 boxes have fewer
MAX_CACHED_ROOMS = 128  # floors with cached distances, at most 10 MB for each number of boxes


def sokoban(
    state: SearchablePlay,
    *,
    right: Literal["solution", "forced"] = "solution",
    lost: Literal["abstain", "solution"] = "abstain",
    solver: Literal["backtracking", "z3"] = "backtracking",
) -> SolverResult | None:
    """Whether each move of sokoban keeps a solution within the moves left, by shortest solutions.

    What: the value of a move is the return with best play after it, minus the cost of moves.
    When to use: through oracle ``constraint``, on game ``sokoban`` of any size. Oracle ``graded``
    puts moves into tiers: moves of a shortest solution ("shortest", 2), other moves that keep a
    solution ("other", 0), and moves after which no solution exists ("deadlock", 0 as in the
    authors' code; ``pay: {deadlock: -2}`` lowers it). Tiers ignore the limit of moves, and a
    deadlocked room is not judged.
    Mathematics: d(s) is the least number of moves from s to a solved room, by breadth-first search
    along reversed moves from all solved positions at once. The positions that the search does not
    reach are exactly the deadlocks. With m moves left a move to s' is right if and only if
        d(s') <= m - 1
    A right move has
        value = 1 - cost * (all moves up to the solution)
    and any other move
        value = -cost * (all moves of the game)
    With ``pay: share`` add the largest j / boxes with d_j(s') <= m - 1, where d_j is the least
    number of moves to j boxes on goals.
    Pitfalls: if moves cost, moves that keep a solution differ in value. With ``right`` "solution"
    all of them are ``best``, not only those of the largest value. Walking back and forth is right
    while enough moves are left; "forced" accepts only moves of a shortest solution. A room of more
    than 1,000,000 positions is not judged; rooms of the game have fewer.
    Reference: Junghanns and Schaeffer, "Sokoban: enhancing general single-agent search methods
    using domain knowledge", 2001 (deadlocks); the task: arXiv 2605.10325.
    Verified by: tests/environments/sokoban/test_solver.py,
    tests/environments/sokoban/test_sokoban.py.

    Args:
        right: the moves that are best. "solution" (default): every move that keeps a solution.
            "forced": only moves of a shortest solution.
        lost: the judgement of a position without a solution in the moves left, if only a solved
            room pays. "abstain" (default): no judgement. "solution": 1 for moves of a shortest
            solution, which needs more moves than are left, and 0 for others; ``bound`` is the
            distance to the true payoff, which is equal for all moves. Deadlocks are not judged.
        solver: "backtracking" (default), here the exact search; "z3" is not available.
    """
    table = _table(state, solver)
    boxes = table.boxes.bit_count()
    goal_distances = solutions(table.floor, boxes, boxes)
    if goal_distances is None:
        return None
    children: list[SokobanTable] = [table.after(index) for index in state.legal_indices()]
    moves_left = table.options.moves - len(table.moves) - 1  # after the move
    lengths = [goal_distances.distance_of(child.agent, child.boxes) for child in children]
    keeps_solution = [length is not None and length <= moves_left for length in lengths]
    if not any(keeps_solution) and table.options.pay != "share":
        return None if lost == "abstain" else _by_longer_solution(table, lengths)
    values = [
        _value(child, length if is_right else None, moves_left)
        for child, length, is_right in zip(children, lengths, keeps_solution, strict=True)
    ]
    if not any(keeps_solution):
        return SolverResult(values=values)
    best = _are_shortest(lengths) if right == "forced" else keeps_solution
    return SolverResult(values=values, best=best)


def tiers(state: SearchablePlay) -> list[str] | None:
    """Return the tier of each legal move; None without a solution or with too many positions."""
    table = _table(state, "backtracking")
    boxes = table.boxes.bit_count()
    goal_distances = solutions(table.floor, boxes, boxes)
    if goal_distances is None:
        return None
    children = [table.after(index) for index in state.legal_indices()]
    lengths = [goal_distances.distance_of(child.agent, child.boxes) for child in children]
    if all(length is None for length in lengths):
        return None
    return [
        "shortest" if is_shortest else "deadlock" if length is None else "other"
        for is_shortest, length in zip(_are_shortest(lengths), lengths, strict=True)
    ]


def reference(state: SearchablePlay) -> tuple[str, ...] | None:
    """Return the first shortest plan in the order of the moves; None with too many positions."""
    table = _table(state, "backtracking").initial()
    boxes = table.boxes.bit_count()
    goal_distances = solutions(table.floor, boxes, boxes)
    if goal_distances is None:
        return None
    while not table.solved:
        children = [table.after(index) for index in table.legal()]
        lengths = [goal_distances.distance_of(child.agent, child.boxes) for child in children]
        table = children[_are_shortest(lengths).index(True)]
    return tuple(table.name_of(0, move) for move in table.moves)


@lru_cache(maxsize=MAX_CACHED_ROOMS)
def solutions(floor: Floor, boxes: int, num_on_goals: int) -> Distances | None:
    """Return distances to ``num_on_goals`` boxes on goals; None if there are too many positions."""
    return distances(floor, boxes, num_on_goals, MAX_POSITIONS)


def _table(state: SearchablePlay, solver: str) -> SokobanTable:
    table = getattr(state, "table", None)
    if not isinstance(table, SokobanTable):
        raise OracleError(
            f"Puzzle 'sokoban' cannot judge a state of {state.game.name!r}; judge sokoban states."
        )
    if state.seat < 0:
        status = "is finished" if state.done else "waits for chance"
        raise OracleError(
            f"Puzzle 'sokoban' cannot judge a state that {status}, at ply {state.plies}; judge "
            "states with a move to make."
        )
    if solver != "backtracking":
        raise OracleError(
            f"Puzzle 'sokoban' has no solver {solver!r}; write solver='backtracking', which is "
            "exact here too."
        )
    return table


def _are_shortest(lengths: list[int | None]) -> list[bool]:
    shortest = min(length for length in lengths if length is not None)
    return [length == shortest for length in lengths]


def _by_longer_solution(table: SokobanTable, lengths: list[int | None]) -> SolverResult | None:
    """Return a judgement by the shortest solution, which is too long; None in a deadlock."""
    if all(length is None for length in lengths):
        return None
    return SolverResult(
        values=[float(is_shortest) for is_shortest in _are_shortest(lengths)],
        bound=1.0 + table.options.cost * table.options.moves,
    )


def _value(child: SokobanTable, length: int | None, moves_left: int) -> float:
    """Return the value of best play after a move; ``length`` None: no solution in time."""
    boxes = child.boxes.bit_count()
    if length is not None:
        return child.pay_for(boxes, len(child.moves) + length)
    num_on_goals = 0
    for number in range(boxes - 1, 0, -1) if child.options.pay == "share" else ():
        distances_to = solutions(child.floor, boxes, number)
        least = None if distances_to is None else distances_to.distance_of(child.agent, child.boxes)
        if least is not None and least <= moves_left:
            num_on_goals = number
            break
    return child.pay_for(num_on_goals, child.options.moves)
