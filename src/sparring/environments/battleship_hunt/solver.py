"""Solver: where the ships of battleship_hunt lie.

It counts the layouts that agree, and finds best play while these are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from math import log
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sparring.core.errors import OracleError
from sparring.core.records import Judgement
from sparring.environments.base import SearchablePlay
from sparring.environments.battleship_hunt import Sea, fleet_of
from sparring.environments.battleship_hunt.fleets import Flags, Floats, Masks, Tally, Waters, waters

Fleet = tuple[int, ...]  # each ship's cells as bits


class LongSearchError(Exception):
    """A search met more beliefs than it may."""


class Search:
    """Best play against some fleets, all equally likely, by looking at every belief once.

    A fleet may be among them twice.

    A belief is a set of fleets, as bits, with the cells shot at. Values are sums over its fleets:
    of those that are sunk in time or, with ``share``, of the cells that are still hit. All fleets
    have as many cells, so in a belief as many are left in all of them.
    """

    def __init__(self, fleets: list[Fleet], cells: int, share: bool, beliefs: int) -> None:
        self.share, self.most = share, beliefs
        self.inside: list[int] = [0] * cells  # per cell the fleets with a ship there
        # per cell the ships there, each with its fleets
        self.through: list[dict[int, int]] = [{} for _ in range(cells)]
        for number, fleet in enumerate(fleets):
            for ship in fleet:
                for cell in (cell for cell in range(cells) if ship >> cell & 1):
                    self.inside[cell] |= 1 << number
                    self.through[cell][ship] = self.through[cell].get(ship, 0) | 1 << number
        self._known: dict[tuple[int, int, int], int] = {}

    def bound(self, fleets: int, afloat: int, left: int) -> int:
        """Return the most that ``left`` shots get of ``afloat`` cells, the fleet known."""
        return fleets * min(afloat, left) if self.share else fleets * (afloat <= left)

    def shooting(self, alive: int, shot: int, afloat: int, left: int, cell: int) -> int:
        """Return what a shot, and best play after it, will get."""
        hit, after = alive & self.inside[cell], shot | 1 << cell
        sunk = 0
        for ship, fleets in self.through[cell].items():
            if not ship & ~after:
                sunk |= fleets
        total = self.value(alive & ~hit, after, afloat, left - 1)
        total += self.value(hit & sunk, after, afloat - 1, left - 1) + self.value(
            hit & ~sunk, after, afloat - 1, left - 1
        )
        return total + hit.bit_count() if self.share else total

    def value(self, alive: int, shot: int, afloat: int, left: int) -> int:
        """Return what best play will get.

        Raises:
            LongSearchError: too many beliefs were looked at.
        """
        top = self.bound(alive.bit_count(), afloat, left)
        if not top:
            return 0
        hits = [alive & fleets for fleets in self.inside]
        options = [
            (cell, hit.bit_count()) for cell, hit in enumerate(hits) if hit and not shot >> cell & 1
        ]
        if len(options) == afloat:  # there is one fleet, or they differ in which ship is which
            return top
        at = alive, shot & sum(1 << cell for cell, hit in enumerate(hits) if hit), left
        found = self._known.get(at)
        if found is None:
            if len(self._known) >= self.most:
                raise LongSearchError
            self._known[at] = 0  # counted before it is known; no belief leads back to itself
            self._known[at] = found = self._best(alive, shot, afloat, left, options)
        return found

    def _best(
        self, alive: int, shot: int, afloat: int, left: int, options: list[tuple[int, int]]
    ) -> int:
        """Return the most that a shot will get, of cells with the fleets that each hits."""
        number, best = alive.bit_count(), 0
        ranked = []
        for cell, hit in options:
            most = (
                self.share * hit
                + self.bound(hit, afloat - 1, left - 1)
                + self.bound(number - hit, afloat, left - 1)
            )
            ranked.append((-most, -hit, cell))
        for most, _, cell in sorted(ranked):
            if -most <= best:
                break
            best = max(best, self.shooting(alive, shot, afloat, left, cell))
        return best


ORACLE = "posterior"  # that asks this solver

GREEDY = 0.5  # the certainty of a verdict from the probability to hit


class Seen(NamedTuple):
    """What the answers say, as bits of cells."""

    shot: int
    hits: int  # the sinking ones too
    # the cell of each answer "sunk", and the hits up to it: the ship is among them
    sinkings: tuple[tuple[int, int], ...]

    def allows(self, masks: Masks) -> Flags:
        """Return which placements of a ship agree with the answers in the ship's cells.

        A ship not wholly shot at was hit or not touched; a whole one was sunk by the last shot at
        it, and by no other.
        """
        sinking = np.uint64(sum(cell for cell, _ in self.sinkings))
        untouched = masks & np.uint64(self.shot & ~self.hits) == 0
        whole = np.zeros(len(masks), dtype=bool)
        for cell, hits in self.sinkings:
            whole |= (masks & sinking == np.uint64(cell)) & (masks & ~np.uint64(hits) == 0)
        afloat = (masks & sinking == 0) & (masks & ~np.uint64(self.hits) != 0)
        found: Flags = untouched & (whole | afloat)
        return found


def seen(table: Sea) -> Seen:
    """Return what the hunter knows."""
    shot = hits = 0
    sinkings = []
    for move, answer in zip(table.moves, table.answers, strict=True):
        shot |= 1 << move
        hits |= (answer > 0) << move
        if answer == 2:
            sinkings.append((1 << move, hits))
    return Seen(shot, hits, tuple(sinkings))


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the board as it is seen, and the hits before each that sank a ship."""
    return f"{state.table.view(0)} {sorted(seen(state.table).sinkings)}"


@lru_cache(maxsize=8)
def _bank(
    rows: int, columns: int, lengths: tuple[int, ...], touch: bool, bank: int, layouts: int
) -> tuple[Fleet, ...]:
    return tuple(fleet_of(rows, columns, lengths, touch, bank, index) for index in range(layouts))


class Posterior(NamedTuple):
    """The probability of a ship in each cell, how many layouts agree, how uncertain that is."""

    chances: Floats  # [cells]
    # with prior "bank", layouts of the bank, the same fleet as often as the bank has it
    fleets: int
    entropy: float
    # the fleets themselves if they are at most as many as asked for, else nothing
    some: list[Fleet]


def posterior_of(table: Sea, prior: Literal["uniform", "bank"], most: int = 0) -> Posterior:
    """Return what may be hidden, given the answers.

    The fleets themselves if they are at most ``most``.

    Raises:
        OracleError: the answers agree with no layout.
    """
    known = seen(table)
    water = waters(table.rows, table.columns, table.lengths, table.touch)
    usable = [known.allows(masks) for masks in water.masks]
    found = (
        _from_bank(table, water, usable, known, most)
        if prior == "bank"
        else _from_counts(water, usable, known, most)
    )
    if found is None:
        raise OracleError(
            f"Oracle 'posterior': no layout agrees with the board {table.view(0)!r}; judge states "
            "that were played."
        )
    return found


def _from_counts(water: Waters, usable: list[Flags], known: Seen, most: int) -> Posterior | None:
    tally: Tally = water.tally(usable, known.hits)
    if not tally.fleets:
        return None
    some = list(water.fleets(tally, known.hits)) if tally.fleets <= most else []
    return Posterior(tally.chances(water), tally.fleets, log(tally.fleets), some)


def _from_bank(
    table: Sea, water: Waters, usable: list[Flags], known: Seen, most: int
) -> Posterior | None:
    places = [set(masks[flags].tolist()) for masks, flags in zip(water.masks, usable, strict=True)]
    layouts = _bank(
        table.rows, table.columns, table.lengths, table.touch, table.bank, table.layouts
    )
    agree = [
        fleet
        for fleet in layouts
        if all(ship in some for ship, some in zip(fleet, places, strict=True))
        and not known.hits & ~_union(fleet)
    ]
    if not agree:
        return None
    cover = [_union(fleet) for fleet in agree]
    chances = np.array(
        [sum(mask >> cell & 1 for mask in cover) / len(agree) for cell in range(table.cells)]
    )
    entropy = sum(many / len(agree) * log(len(agree) / many) for many in Counter(agree).values())
    return Posterior(chances, len(agree), entropy, agree if len(agree) <= most else [])


def _union(fleet: Iterable[int]) -> int:
    return sum(fleet)


def battleship_hunt(
    state: SearchablePlay,
    *,
    prior: Literal["uniform", "bank"] = "uniform",
    worlds: Annotated[int, Field(ge=0)] = 64,
    beliefs: Annotated[int, Field(ge=0)] = 1000,
) -> Judgement:
    """Exact value of each shot in battleship_hunt while few layouts are left.

    Before, its exact chance to hit.

    What: with at most ``worlds`` layouts left and a search of at most ``beliefs`` beliefs, a shot
    is worth what best play after it gets: exact. Else it is worth the probability that it hits, in
    units of the game. With ``pay`` "sunk" this is that probability; with "share" it is the share of
    the ships' cells that are hit with this shot if nothing is hit later. The best shots are those
    of the largest value.
    When to use: through oracle ``posterior``, on game ``battleship_hunt``.
    Mathematics: a layout agrees if each ship alone agrees with the answers in its cells and the
    ships cover all hits. If a ship is not wholly shot at, the answers in its cells are hits. If it
    is wholly shot at, the last shot sank it. n layouts agree, n_c of them with a ship in cell c:
        P(ship in c | answers) = n_c / n
    by ``games.battleship_hunt.fleets``, in integers. Best play with k shots left is
        V(B, k) = max_c [hits(B, c) + sum_a V(B_c=a, k - 1)]
    summed over the layouts in B and the answers a. Cells that no layout of B has are passed over.
    So are those whose value, if the layout were known, is not above the best so far.
        entropy = log n
    For a bank that has a layout more than once it is -sum P log P over different layouts.
    Pitfalls: the shot that hits most likely is not always best play: a miss can tell more, and
    "sunk" can matter more than a hit. Where this probability replaces the value the certainty is
    0.5. That marks an approximation and is no probability. ``bound`` is then the largest possible
    error, mostly wide (0 for the last shot). When too few shots are left to sink all, every shot is
    worth 0 with ``pay`` "sunk", exactly, and all are best. Four ships on 8 x 8 take 0.1 s, fewer
    0.01 s; a search that fails adds up to 0.2 s.
    Reference: Kaelbling et al., "Planning and acting in partially observable stochastic domains",
    1998; Fiat and Shamir, 1989.
    Verified by: tests/environments/battleship_hunt/test_solver.py,
    tests/environments/battleship_hunt/test_fleets.py, tests/contract/test_beliefs.py.

    Args:
        prior: what is known beforehand. "uniform" (default): every layout that the rules allow is
            equally likely. This is the model of the game, which knows nothing of its bank. "bank":
            only the layouts of the bank are possible, as for a player who has learned it by heart.
        worlds: most layouts left for which best play is worked out, at least 0. 0 never works it
            out.
        beliefs: most beliefs that the search looks at before the probability is given instead, at
            least 0. The count starts anew with every state, so a verdict depends only on the state.
    """
    table: Sea = state.table
    found = posterior_of(table, prior, worlds)
    legal = table.legal()
    afloat = sum(table.lengths) - table.hits
    values = _searched(table, found.some, afloat, beliefs) if found.some else None
    if values is None and table.pay != "share" and afloat > table.left:
        values = [0.0] * len(legal)
    if values is not None:
        return Judgement(values=values, entropy=found.entropy)
    values, bound = _hitting(table, [float(found.chances[cell]) for cell in legal])
    return Judgement(
        values=values, certainty=GREEDY if bound else 1.0, bound=bound, entropy=found.entropy
    )


def _hitting(table: Sea, chances: list[float]) -> tuple[list[float], float]:
    """Return probabilities to hit in the game's units, and how far best play can be from them."""
    total, left, later = sum(table.lengths), table.left - 1, 0.0
    afloat = total - table.hits
    if table.pay == "share":
        if left:  # nobody can hit more later than one who knows the layout
            later = max(
                chance * min(afloat - 1, left) + (1.0 - chance) * min(afloat, left)
                for chance in chances
            )
        return [(table.hits + chance) / total for chance in chances], later / total
    if left:  # a miss loses if every shot is needed
        later = max(max(chance, 1.0 - chance if left >= afloat else 0.0) for chance in chances)
    return chances, later


def _searched(table: Sea, fleets: list[Fleet], afloat: int, beliefs: int) -> list[float] | None:
    """Return what best play after each legal shot gets, None if that takes too long."""
    search, shot = (
        Search(fleets, table.cells, table.pay == "share", beliefs),
        sum(1 << move for move in table.moves),
    )
    every, total = (1 << len(fleets)) - 1, sum(table.lengths)
    try:
        sums = [search.shooting(every, shot, afloat, table.left, cell) for cell in table.legal()]
    except LongSearchError:
        return None
    return [
        (table.hits + one / len(fleets)) / total if table.pay == "share" else one / len(fleets)
        for one in sums
    ]
