"""Solver: where the mines of minesweeper lie, by counting the layouts that agree with the board."""

from __future__ import annotations

from functools import lru_cache
from math import comb, log
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import OracleError
from sparring.core.records import Judgement
from sparring.environments.base import SearchablePlay
from sparring.environments.minesweeper.mines import Constraint, mine_counts
from sparring.environments.minesweeper.rules import Minefield, mines_of, neighbours, order_of
from sparring.environments.minesweeper.sweeping import LongSearchError, Sweeper, layouts_of

ORACLE = "posterior"  # that asks this solver
# what oracle ``graded`` pays: a reveal that is sure, or the least risky where none is; a flag of a
# sure mine; any other reveal; any other flag
TIERS = {"safe": 2.0, "guess": 1.0, "flag": 1.0, "risky": 0.0, "wrong_flag": -1.0}


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the board as it is seen, and for a bank the first cell revealed.

    It decides where the mines of a layout lie.
    """
    table = state.table
    return f"{table.view(0)} {table.moves[0] if table.moves and prior == 'bank' else ''}"


def minesweeper(
    state: SearchablePlay,
    *,
    prior: Literal["uniform", "bank"] = "uniform",
    worlds: Annotated[int, Field(ge=0)] = 0,
    beliefs: Annotated[int, Field(ge=1)] = 2000,
) -> Judgement:
    """Exact probability that each action of minesweeper survives.

    It comes from counting the layouts that agree with the board.

    What: a reveal is worth the probability that the cell holds no mine, a flag that it does; the
    best actions are the safest. With ``worlds``, where few enough layouts are left, a reveal is
    worth what best play after it gets. Then the information of a cell counts too.
    When to use: through oracle ``posterior``, on game ``minesweeper``. Oracle ``graded`` puts
    actions into tiers by the same probabilities: a sure reveal ("safe", 2), where none is sure the
    least risky ("guess", 1), a sure flag ("flag", 1), any other reveal ("risky", 0), any other flag
    ("wrong_flag", -1).
    Mathematics:
        P(mine in c | board) = n_c / n
    with n the layouts that agree with all counts, flags and the number of mines, and n_c those with
    a mine in c. Closed cells that the same counts touch are one group. Groups that counts connect
    are a component. Each component gives a polynomial in its number of mines, and the mines left
    over lie in the U untouched cells in C(U, k) ways. All are integers, so exact.
        value = s + (1 - s) * l
        entropy = log n
    with s the probability to survive and l what a loss pays now (0, or the share open). Best play:
        V(B) = max_c sum_a V(B_c=a)
    summed over the layouts in B and what c shows in them, a mine or the counts that open. A cell
    that is safe in all of B is revealed at once, because it has to be.
    Pitfalls: the safest reveal is not always best play: a riskier cell can tell more. The value is
    then an upper bound, as if nothing were lost later. ``bound`` is its distance from the loss, and
    0 where the board is fully known. A flag of a sure mine is as good as a safe reveal. Before the
    first reveal every cell is best; ``worlds`` tells them apart (3x4, 2 mines: 55 layouts). Best
    play is not worked out for games with flags. With "bank" time grows with the number of layouts.
    Reference: Studholme, "Minesweeper as a constraint satisfaction problem", 2000; arXiv
    2605.10325.
    Verified by: tests/methods/oracles/test_posterior.py,
    tests/environments/minesweeper/test_solver.py, tests/environments/minesweeper/test_mines.py,
    tests/environments/minesweeper/test_sweeping.py.

    Args:
        prior: what is known beforehand. "uniform" (default): every set of mines outside the first
            cell revealed is equally likely. This is the model of the game, which knows nothing of
            its bank. "bank": only the layouts of the bank are possible, as for a player who has
            learned it by heart.
        worlds: most layouts left for which best play is worked out, at least 0. The default 0, as
            in the paper, never works it out.
        beliefs: most beliefs that the search looks at before the probability is given instead, at
            least 1. A verdict depends only on the state.
    """
    table: Minefield = state.table
    risk, layouts = mine_probabilities(table, prior)
    if layouts <= worlds and not table.flags:
        played = _best_play(table, prior, list(risk), beliefs)
        if played is not None:
            return Judgement(values=played, entropy=log(layouts))
    lost = len(table.opened) / (table.cells - table.mines) if table.pay == "share" else 0.0
    values = []
    for index in state.legal_indices():
        mined = risk[index % table.cells]
        safe = mined if index >= table.cells else 1.0 - mined
        values.append(safe + (1.0 - safe) * lost)
    known = bool(table.opened) and all(chance in (0.0, 1.0) for chance in risk.values())
    return Judgement(
        values=values, bound=0.0 if known else max(values) - lost, entropy=log(layouts)
    )


def tiers(state: SearchablePlay) -> list[str]:
    """Return the tier of each legal action, by the exact probability of a mine."""
    table: Minefield = state.table
    risk, _ = mine_probabilities(table, "uniform")
    least = min(risk.values())
    reveal = "guess" if least > 0.0 else "safe"
    found = []
    for index in state.legal_indices():
        mined = risk[index % table.cells]
        if index >= table.cells:
            found.append("flag" if mined == 1.0 else "wrong_flag")
        else:
            found.append(reveal if mined == least < 1.0 else "risky")
    return found


def _best_play(
    table: Minefield, prior: Literal["uniform", "bank"], closed: list[int], beliefs: int
) -> list[float] | None:
    """Return what best play after each reveal gets, in the game's units.

    None if that takes too long.
    """
    around = neighbours(table.rows, table.columns)
    opened = sum(1 << cell for cell in table.opened)
    values: list[float] = []
    for cell in closed:
        if not values or not opened:  # the first reveal decides where mines can lie
            sweeper = Sweeper(
                _layouts(table, prior, closed, cell), around, table.pay == "share", beliefs
            )
        try:
            total = sweeper.revealing(range(len(sweeper.mined)), opened, cell)
        except LongSearchError:
            return None
        values.append(total / len(sweeper.mined) / sweeper.win)
    return values


def _layouts(
    table: Minefield, prior: Literal["uniform", "bank"], closed: list[int], cell: int
) -> list[int]:
    """Return the layouts that agree with the board.

    Before the first reveal those that do when ``cell`` is revealed.
    """
    if prior == "bank":
        return (
            _agreeing(table)
            if table.opened
            else list(_bank(table.cells, table.mines, table.layouts, table.bank, cell))
        )
    within = closed if table.opened else [other for other in closed if other != cell]
    return list(layouts_of(_constraints(table, closed), within, table.mines))


def mine_probabilities(
    table: Minefield, prior: Literal["uniform", "bank"]
) -> tuple[dict[int, float], int]:
    """Return closed cell without a flag -> exact probability of a mine, and a number.

    It is the number of layouts that agree with the board.

    Before the first reveal, which is always safe, the probabilities are 0.

    Raises:
        OracleError: the board agrees with no layout.
    """
    closed = [
        cell
        for cell in range(table.cells)
        if cell not in table.opened and cell not in table.flagged
    ]
    if not table.opened:
        return dict.fromkeys(closed, 0.0), table.layouts if prior == "bank" else comb(
            table.cells - 1, table.mines
        )
    counts, layouts = _from_bank(table, closed) if prior == "bank" else _from_counts(table, closed)
    if not layouts:
        raise OracleError(
            f"Oracle 'posterior': no layout agrees with the board {table.view(0)!r}; judge states "
            "that were played."
        )
    return {cell: counts[cell] / layouts for cell in closed}, layouts


def _from_counts(table: Minefield, closed: list[int]) -> tuple[dict[int, int], int]:
    """Return the number of layouts with a mine in each closed cell, and of all layouts.

    They are counted among every set of mines.
    """
    return mine_counts(_constraints(table, closed), closed, table.mines - len(table.flagged))


def _constraints(table: Minefield, closed: list[int]) -> list[Constraint]:
    """Return what the counts on the board say of the closed cells."""
    around, unknown = neighbours(table.rows, table.columns), set(closed)
    constraints = []
    for cell in sorted(table.opened):
        flagged = sum(other in table.flagged for other in around[cell])
        near = tuple(other for other in around[cell] if other in unknown)
        if near:
            constraints.append((near, table.number(cell) - flagged))
    return constraints


def _from_bank(table: Minefield, closed: list[int]) -> tuple[dict[int, int], int]:
    """Return the same numbers among the layouts of the game's bank."""
    agree = _agreeing(table)
    return {cell: sum(mined >> cell & 1 for mined in agree) for cell in closed}, len(agree)


def _agreeing(table: Minefield) -> list[int]:
    """Return the layouts of the game's bank that agree with the board."""
    around = neighbours(table.rows, table.columns)
    seen = [
        (sum(1 << other for other in around[cell]), table.number(cell)) for cell in table.opened
    ]
    opened, flagged = (sum(1 << cell for cell in cells) for cells in (table.opened, table.flagged))
    return [
        mined
        for mined in _bank(table.cells, table.mines, table.layouts, table.bank, table.moves[0])
        if not mined & opened
        and mined & flagged == flagged
        and all((mined & near).bit_count() == number for near, number in seen)
    ]


@lru_cache(maxsize=256)
def _bank(cells: int, mines: int, layouts: int, bank: int, first: int) -> tuple[int, ...]:
    """Return the layouts of a bank as sets of bits, given the first cell revealed."""
    return tuple(
        sum(1 << cell for cell in mines_of(order_of(cells, bank, index), mines, first))
        for index in range(layouts)
    )
