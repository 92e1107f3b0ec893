"""Solver of minesweeper: mine probabilities from counts of the consistent layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import comb, log, prod
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import OracleError
from sparring.core.records import SolverResult
from sparring.environments.base import SearchablePlay
from sparring.environments.minesweeper import Minefield, mines_of, neighbours, order_of

Constraint = tuple[tuple[int, ...], int]  # closed cells, and how many of them hold mines

# a polynomial in the number of mines is one int with this many bits per coefficient; counts stay
# below 2^70, as there are at most 64 cells
BITS = 128
CELLS = 64


def mine_counts(
    constraints: Sequence[Constraint], cells: Iterable[int], mines: int
) -> tuple[dict[int, int], int]:
    """Return (consistent layouts with a mine in each cell, number of consistent layouts).

    Args:
        constraints: groups of closed cells with the number of mines among them.
        cells: all closed cells, at most 64, including those of the constraints.
        mines: number of mines in all closed cells.

    Raises:
        ValueError: more than 64 cells.
    """
    classes: dict[tuple[int, ...], list[int]] = {}
    groups_of: dict[int, list[int]] = {cell: [] for cell in cells}
    if len(groups_of) > CELLS:
        raise ValueError(f"mine_counts: {len(groups_of)} closed cells; write at most {CELLS}.")
    for number, (group_cells, _) in enumerate(constraints):
        for cell in group_cells:
            groups_of[cell].append(number)
    for cell, groups_of_cell in groups_of.items():
        classes.setdefault(tuple(groups_of_cell), []).append(cell)
    other_cells = classes.pop((), [])  # cells without a constraint
    is_possible = all(group_cells or not count for group_cells, count in constraints)
    numbers = [count for _, count in constraints]
    components = [_solve_component(component, numbers) for component in _components(classes)]
    num_rest = len(other_cells)
    product = prod(total for total, _ in components) if is_possible else 0
    layouts = _count(product, num_rest, mines)
    counts = dict.fromkeys(other_cells, _count(product, num_rest - 1, mines - 1) if num_rest else 0)
    for number, (_, groups) in enumerate(components):
        other_layouts = (
            prod(total for other, (total, _) in enumerate(components) if other != number)
            if is_possible
            else 0
        )
        for group, polynomial in groups.items():
            count = _count(polynomial * other_layouts, num_rest, mines) // len(classes[group])
            counts.update(dict.fromkeys(classes[group], count))
    return counts, layouts


def _count(polynomial: int, num_rest: int, mines: int) -> int:
    """Return the number of layouts; mines outside the polynomial lie in any other cells."""
    total, num_mines, mask = 0, 0, (1 << BITS) - 1
    while polynomial and num_mines <= mines:
        total += (polynomial & mask) * comb(num_rest, mines - num_mines)
        polynomial >>= BITS
        num_mines += 1
    return total


def _components(
    classes: dict[tuple[int, ...], list[int]],
) -> list[dict[tuple[int, ...], list[int]]]:
    """Return the components: classes of equivalent cells that constraints connect."""
    components: list[tuple[set[int], list[tuple[int, ...]]]] = []
    for group in classes:
        constraints, groups, other_components = set(group), [group], []
        for component in components:
            if constraints.isdisjoint(component[0]):
                other_components.append(component)
            else:
                constraints |= component[0]
                groups += component[1]
        components = [*other_components, (constraints, groups)]
    return [
        {group: classes[group] for group in sorted(groups, key=lambda group: classes[group][0])}
        for _, groups in components
    ]


def _solve_component(
    groups: dict[tuple[int, ...], list[int]], counts: list[int]
) -> tuple[int, dict[tuple[int, ...], int]]:
    """Return (polynomial of a component's layouts, polynomial of each group's mines over layouts).

    The state is the number of mines that each constraint still needs. A forward pass over the
    groups computes the ways to reach each state, and a backward pass the ways to the end, as
    polynomials.
    """
    order = list(groups)
    numbers = sorted({number for group in order for number in group})
    index_of = {number: i for i, number in enumerate(numbers)}
    steps = [([index_of[number] for number in group], len(groups[group])) for group in order]
    free_cells = [sum(size for group, size in steps if i in group) for i in range(len(numbers))]
    forward: list[dict[tuple[int, ...], int]] = [{tuple(counts[number] for number in numbers): 1}]
    moves: list[list[tuple[tuple[int, ...], int, tuple[int, ...]]]] = []
    for group, size in steps:
        for i in group:
            free_cells[i] -= size
        states: dict[tuple[int, ...], int] = {}
        choices = []
        for mines_left, ways in forward[-1].items():
            for mines in range(
                max(0, *(mines_left[i] - free_cells[i] for i in group)),
                min(size, *(mines_left[i] for i in group)) + 1,
            ):
                still_needed = list(mines_left)
                for i in group:
                    still_needed[i] -= mines
                state = tuple(still_needed)
                states[state] = states.get(state, 0) + (ways * comb(size, mines) << BITS * mines)
                choices.append((mines_left, mines, state))
        forward.append(states)
        moves.append(choices)
    return sum(forward[-1].values()), _mine_sums(order, [size for _, size in steps], forward, moves)


def _mine_sums(
    order: list[tuple[int, ...]],
    sizes: list[int],
    forward: list[dict[tuple[int, ...], int]],
    moves: list[list[tuple[tuple[int, ...], int, tuple[int, ...]]]],
) -> dict[tuple[int, ...], int]:
    """Return the polynomial of each group's mines, summed over layouts, by a backward pass."""
    backward, sums = dict.fromkeys(forward[-1], 1), {}
    for number in range(len(order) - 1, -1, -1):
        values: dict[tuple[int, ...], int] = {}
        total = 0
        for mines_left, mines, state in moves[number]:
            ways = backward.get(state, 0) * comb(sizes[number], mines) << BITS * mines
            values[mines_left] = values.get(mines_left, 0) + ways
            total += mines * forward[number][mines_left] * ways
        backward, sums[order[number]] = values, total
    return sums


COUNT_BITS = 4  # bits of a number of mines around a cell


class LongMinesweeperSearchError(Exception):
    """A search needed more beliefs than its limit."""


def layouts_of(
    constraints: Sequence[Constraint], cells: Sequence[int], mines: int
) -> Iterator[int]:
    """Yield every layout that agrees with the constraints.

    Args:
        constraints: groups of closed cells with the number of mines among them.
        cells: all closed cells, including those of the constraints.
        mines: number of mines in all closed cells.
    """
    groups = [*constraints, (tuple(cells), mines)]
    constraints_of_cell = {
        cell: [number for number, (group, _) in enumerate(groups) if cell in group]
        for cell in cells
    }
    order = sorted(cells, key=lambda cell: (-len(constraints_of_cell[cell]), cell))
    free_cells, mines_left = [len(group) for group, _ in groups], [count for _, count in groups]

    def place_mines(index: int, layout: int) -> Iterator[int]:
        if any(not 0 <= count <= size for count, size in zip(mines_left, free_cells, strict=True)):
            return
        if index == len(order):
            yield layout
            return
        cell = order[index]
        for number in constraints_of_cell[cell]:
            free_cells[number] -= 1
        yield from place_mines(index + 1, layout)
        for number in constraints_of_cell[cell]:
            mines_left[number] -= 1
        yield from place_mines(index + 1, layout | 1 << cell)
        for number in constraints_of_cell[cell]:
            free_cells[number] += 1
            mines_left[number] += 1

    yield from place_mines(0, 0)


class Sweeper:
    """Best play by reveals only.

    A value is an integer, a sum over layouts: a cleared layout counts 1. With ``share`` each layout
    counts its cells that are open at the end.

    Args:
        layouts: possible layouts as bit masks of the mines, all with the same number of mines.
        around: the cells around each cell.
        share: whether the game pays the share of the safe cells that are open.
        beliefs: largest number of beliefs of the search.
    """

    def __init__(
        self, layouts: Sequence[int], around: Sequence[Sequence[int]], share: bool, beliefs: int
    ) -> None:
        self.layouts, self.around, self.share, self.limit = list(layouts), around, share, beliefs
        self.all_cells = (1 << len(around)) - 1
        masks = [sum(1 << other for other in cells) for cells in around]
        self._counts = [
            [(layout & cells).bit_count() for cells in masks] for layout in self.layouts
        ]
        self._counts_as_bits = [
            sum(count << COUNT_BITS * cell for cell, count in enumerate(counts))
            for counts in self._counts
        ]
        self.num_safe = len(around) - (self.layouts[0].bit_count() if self.layouts else 0)
        self._opened_by: dict[tuple[int, int], int] = {}
        self._mask_cache: dict[int, int] = {}
        self._values: dict[tuple[tuple[int, ...], int], int] = {}

    @property
    def win_value(self) -> int:
        """The value of a cleared layout."""
        return self.num_safe if self.share else 1

    def value_of_reveal(self, candidates: Sequence[int], open_mask: int, cell: int) -> int:
        """Return the value of a reveal followed by best play; ``candidates``: possible layouts.

        Raises:
            LongMinesweeperSearchError: the search needs more beliefs than its limit.
        """
        beliefs: dict[tuple[int, int], list[int]] = {}
        num_lost = 0
        for number in candidates:
            if self.layouts[number] >> cell & 1:
                num_lost += 1
                continue
            next_open_mask = open_mask | self._cells_opened(number, cell)
            beliefs.setdefault(
                (
                    next_open_mask,
                    self._counts_as_bits[number] & self._mask_of(next_open_mask & ~open_mask),
                ),
                [],
            ).append(number)
        total = num_lost * open_mask.bit_count() if self.share else 0
        for (next_open_mask, _), numbers in beliefs.items():
            total += self._value(tuple(numbers), next_open_mask)
        return total

    def _value(self, candidates: tuple[int, ...], open_mask: int) -> int:
        if len(candidates) == 1 or open_mask.bit_count() == self.num_safe:
            return len(candidates) * self.win_value
        total = self._values.get((candidates, open_mask))
        if total is None:
            if len(self._values) >= self.limit:
                raise LongMinesweeperSearchError
            # this entry counts towards the limit; the search below it never reads it
            self._values[candidates, open_mask] = 0
            self._values[candidates, open_mask] = total = self._best(candidates, open_mask)
        return total

    def _best(self, candidates: tuple[int, ...], open_mask: int) -> int:
        """Return the value of a safe reveal, or without one the best value by branch and bound."""
        certain_mines, cells = self.all_cells, self.all_cells & ~open_mask
        possible_mines = 0
        for number in candidates:
            possible_mines |= self.layouts[number]
            certain_mines &= self.layouts[number]
        if safe_cells := cells & ~possible_mines:
            return self.value_of_reveal(
                candidates, open_mask, (safe_cells & -safe_cells).bit_length() - 1
            )
        bounds, pay = [], open_mask.bit_count() if self.share else 0
        for cell in range(len(self.around)):
            if (cells & ~certain_mines) >> cell & 1:
                num_lost = sum(self.layouts[number] >> cell & 1 for number in candidates)
                bounds.append(
                    (-((len(candidates) - num_lost) * self.win_value + num_lost * pay), cell)
                )
        best_value = 0
        for minus_bound, cell in sorted(bounds):
            if -minus_bound <= best_value:
                break
            best_value = max(best_value, self.value_of_reveal(candidates, open_mask, cell))
        return best_value

    def _cells_opened(self, number: int, cell: int) -> int:
        open_mask = self._opened_by.get((number, cell))
        if open_mask is None:
            open_mask, queue = 1 << cell, [cell]
            while queue:
                next_cell = queue.pop()
                if not self._counts[number][next_cell]:
                    cells = [
                        other for other in self.around[next_cell] if not open_mask >> other & 1
                    ]
                    open_mask |= sum(1 << other for other in cells)
                    queue += cells
            self._opened_by[number, cell] = open_mask
        return open_mask

    def _mask_of(self, cells: int) -> int:
        """Return the mask of the bits of ``_counts_as_bits`` for a set of cells."""
        bits = self._mask_cache.get(cells)
        if bits is None:
            bits = sum(
                (1 << COUNT_BITS) - 1 << COUNT_BITS * cell
                for cell in range(len(self.around))
                if cells >> cell & 1
            )
            self._mask_cache[cells] = bits
        return bits


ORACLE = "posterior"  # the oracle that calls this solver
# rewards of oracle ``graded``: a safe reveal, the least risky reveal if none is safe, a flag of a
# certain mine, any other reveal, any other flag
TIERS = {"safe": 2.0, "guess": 1.0, "flag": 1.0, "risky": 0.0, "wrong_flag": -1.0}


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the visible board, and for a bank the first cell revealed."""
    table = state.table
    return f"{table.view(0)} {table.moves[0] if table.moves and prior == 'bank' else ''}"


def minesweeper(
    state: SearchablePlay,
    *,
    prior: Literal["uniform", "bank"] = "uniform",
    worlds: Annotated[int, Field(ge=0)] = 0,
    beliefs: Annotated[int, Field(ge=1)] = 2000,
) -> SolverResult:
    """Exact probability that each action of minesweeper survives, over all consistent layouts.

    What: the value of a reveal is the probability that the cell has no mine. The value of a flag is
    the probability that the cell has a mine. The best actions are the safest. If at most ``worlds``
    layouts are left, the value of a reveal is the value of best play after it, which also counts
    information.
    When to use: through oracle ``posterior``, on game ``minesweeper``. Oracle ``graded`` puts
    actions into tiers by these probabilities: safe reveals ("safe", 2), the least risky reveals if
    none is safe ("guess", 1), flags of certain mines ("flag", 1), other reveals ("risky", 0), other
    flags ("wrong_flag", -1).
    Mathematics:
        P(mine in c | board) = n_c / n
    where n layouts agree with all counts, flags and the number of mines, and n_c of them have a
    mine in c. Closed cells that touch the same counts form one group. Groups that counts connect
    form a component. Each component gives a polynomial in its number of mines, and the remaining
    k mines lie in the U untouched cells in C(U, k) ways. Sums of integers make the result exact.
        value = s + (1 - s) * l
        entropy = log n
    where s is the probability to survive and l the payoff after a loss (0, or the share of open
    cells).
    The value of best play is
        V(B) = max_c sum_a V(B_c=a)
    where B is a set of layouts, and a runs over the results of a reveal of c: a mine, or counts.
    The search always reveals a cell that is safe in all of B, because a win needs this cell.
    Pitfalls: the safest reveal is not always best play: a riskier cell can give more information.
    The value is an upper bound, because it ignores later losses. ``bound`` is the value's distance
    from the loss, 0 if the board is fully known. A flag of a sure mine equals a safe reveal. Before
    the first reveal every cell is best; ``worlds`` separates them (3x4, 2 mines: 55 layouts). Games
    with flags have no values of best play. With "bank" time grows with the number of layouts.
    Reference: Studholme, "Minesweeper as a constraint satisfaction problem", 2000; arXiv
    2605.10325.
    Verified by: tests/methods/oracles/test_puzzles.py,
    tests/environments/minesweeper/test_solver.py, tests/environments/minesweeper/test_mines.py,
    tests/environments/minesweeper/test_sweeping.py.

    Args:
        prior: "uniform" (default): every set of mines outside the first cell revealed is equally
            likely; this is the model of the game without its bank. "bank": only the layouts of the
            bank are possible, as for a player who has memorised the bank.
        worlds: largest number of layouts for which best play is computed. The default 0, as in
            the paper, never computes it.
        beliefs: largest number of beliefs in the search for best play, at least 1. If it needs
            more, the values are those without best play. A judgement depends only on the state.
    """
    table: Minefield = state.table
    risks, num_layouts = mine_probabilities(table, prior)
    if num_layouts <= worlds and not table.flags:
        best_values = _best_play(table, prior, list(risks), beliefs)
        if best_values is not None:
            return SolverResult(values=best_values, entropy=log(num_layouts))
    value_of_loss = (
        len(table.open_cells) / (table.cells - table.mines) if table.pay == "share" else 0.0
    )
    values = []
    for index in state.legal_indices():
        chance = risks[index % table.cells]
        survival = chance if index >= table.cells else 1.0 - chance
        values.append(survival + (1.0 - survival) * value_of_loss)
    is_known = bool(table.open_cells) and all(chance in (0.0, 1.0) for chance in risks.values())
    return SolverResult(
        values=values,
        bound=0.0 if is_known else max(values) - value_of_loss,
        entropy=log(num_layouts),
    )


def tiers(state: SearchablePlay) -> list[str]:
    """Return the tier of each legal action, by the exact probability of a mine."""
    table: Minefield = state.table
    risks, _ = mine_probabilities(table, "uniform")
    min_risk = min(risks.values())
    best_tier = "guess" if min_risk > 0.0 else "safe"
    names = []
    for index in state.legal_indices():
        chance = risks[index % table.cells]
        if index >= table.cells:
            names.append("flag" if chance == 1.0 else "wrong_flag")
        else:
            names.append(best_tier if chance == min_risk < 1.0 else "risky")
    return names


def _best_play(
    table: Minefield, prior: Literal["uniform", "bank"], cells: list[int], beliefs: int
) -> list[float] | None:
    around = neighbours(table.rows, table.columns)
    open_mask = sum(1 << cell for cell in table.open_cells)
    values: list[float] = []
    for cell in cells:
        if not values or not open_mask:  # before the first reveal, the layouts depend on the cell
            sweeper = Sweeper(
                _layouts(table, prior, cells, cell), around, table.pay == "share", beliefs
            )
        try:
            total = sweeper.value_of_reveal(range(len(sweeper.layouts)), open_mask, cell)
        except LongMinesweeperSearchError:
            return None
        values.append(total / len(sweeper.layouts) / sweeper.win_value)
    return values


def _layouts(
    table: Minefield, prior: Literal["uniform", "bank"], cells: list[int], cell: int
) -> list[int]:
    """Return the layouts that agree with the board, or with the first reveal of ``cell``."""
    if prior == "bank":
        return (
            _bank_layouts(table)
            if table.open_cells
            else list(_bank_masks(table.cells, table.mines, table.layouts, table.bank, cell))
        )
    closed_cells = cells if table.open_cells else [other for other in cells if other != cell]
    return list(layouts_of(_constraints(table, cells), closed_cells, table.mines))


def mine_probabilities(
    table: Minefield, prior: Literal["uniform", "bank"]
) -> tuple[dict[int, float], int]:
    """Return (probability of a mine in each closed cell without a flag, number of layouts).

    The layouts are those that agree with the board; before the first reveal, which is always safe,
    all probabilities are 0.

    Raises:
        OracleError: no layout agrees with the board.
    """
    cells = [
        cell
        for cell in range(table.cells)
        if cell not in table.open_cells and cell not in table.flag_cells
    ]
    if not table.open_cells:
        return dict.fromkeys(cells, 0.0), table.layouts if prior == "bank" else comb(
            table.cells - 1, table.mines
        )
    counts, layouts = (
        _bank_counts(table, cells)
        if prior == "bank"
        else mine_counts(_constraints(table, cells), cells, table.mines - len(table.flag_cells))
    )
    if not layouts:
        raise OracleError(
            f"Oracle 'posterior': no layout agrees with the board {table.view(0)!r}; judge states "
            "that were played."
        )
    return {cell: counts[cell] / layouts for cell in cells}, layouts


def _constraints(table: Minefield, cells: list[int]) -> list[Constraint]:
    around, closed_cells = neighbours(table.rows, table.columns), set(cells)
    constraints = []
    for cell in sorted(table.open_cells):
        num_flags = sum(other in table.flag_cells for other in around[cell])
        closed_neighbours = tuple(other for other in around[cell] if other in closed_cells)
        if closed_neighbours:
            constraints.append((closed_neighbours, table.count(cell) - num_flags))
    return constraints


def _bank_counts(table: Minefield, cells: list[int]) -> tuple[dict[int, int], int]:
    layouts = _bank_layouts(table)
    return {cell: sum(layout >> cell & 1 for layout in layouts) for cell in cells}, len(layouts)


def _bank_layouts(table: Minefield) -> list[int]:
    around = neighbours(table.rows, table.columns)
    numbers = [
        (sum(1 << other for other in around[cell]), table.count(cell)) for cell in table.open_cells
    ]
    open_mask, flag_mask = (
        sum(1 << cell for cell in cells) for cells in (table.open_cells, table.flag_cells)
    )
    return [
        layout
        for layout in _bank_masks(
            table.cells, table.mines, table.layouts, table.bank, table.moves[0]
        )
        if not layout & open_mask
        and layout & flag_mask == flag_mask
        and all((layout & mask).bit_count() == number for mask, number in numbers)
    ]


@lru_cache(maxsize=256)
def _bank_masks(cells: int, mines: int, layouts: int, bank: int, first: int) -> tuple[int, ...]:
    """Return the layouts of a bank as bit masks, given the first cell revealed."""
    return tuple(
        sum(1 << cell for cell in mines_of(order_of(cells, bank, index), mines, first))
        for index in range(layouts)
    )
