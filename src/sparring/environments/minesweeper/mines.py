"""Counting layouts of mines that agree with what is known.

Exact, by components of the cells that counts connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb, prod

Constraint = tuple[tuple[int, ...], int]  # closed cells, and how many of them hold mines

# a polynomial in the number of mines is one int, this many bits a coefficient: at most 64 cells, so
# counts stay below 2^70
BITS = 128
CELLS = 64


def mine_counts(
    constraints: Sequence[Constraint], cells: Iterable[int], mines: int
) -> tuple[dict[int, int], int]:
    """Return cell -> number of consistent layouts with a mine there, and of all of them.

    Args:
        constraints: groups of closed cells with the number of mines among them.
        cells: all closed cells, at most 64, those of the constraints among them.
        mines: how many mines lie in all of them together.

    Raises:
        ValueError: more than 64 cells.
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    member: dict[int, list[int]] = {cell: [] for cell in cells}
    if len(member) > CELLS:
        raise ValueError(f"mine_counts: {len(member)} closed cells; write at most {CELLS}.")
    for number, (some, _) in enumerate(constraints):
        for cell in some:
            member[cell].append(number)
    for cell, within in member.items():
        alike.setdefault(tuple(within), []).append(cell)
    loose = alike.pop((), [])
    possible = all(some or not count for some, count in constraints)
    parts = [_component(part, [count for _, count in constraints]) for part in _components(alike)]
    every = prod(total for total, _ in parts) if possible else 0
    layouts = _weigh(every, len(loose), mines)
    counts = dict.fromkeys(loose, _weigh(every, len(loose) - 1, mines - 1) if loose else 0)
    for number, (_, groups) in enumerate(parts):
        others = (
            prod(total for place, (total, _) in enumerate(parts) if place != number)
            if possible
            else 0
        )
        for group, expected in groups.items():
            share = _weigh(expected * others, len(loose), mines) // len(alike[group])
            counts.update(dict.fromkeys(alike[group], share))
    return counts, layouts


def _weigh(polynomial: int, loose: int, mines: int) -> int:
    """Return the number of layouts.

    The mines that a polynomial's terms leave over lie anywhere in the loose cells.
    """
    total, used, mask = 0, 0, (1 << BITS) - 1
    while polynomial and used <= mines:
        total += (polynomial & mask) * comb(loose, mines - used)
        polynomial >>= BITS
        used += 1
    return total


def _components(alike: dict[tuple[int, ...], list[int]]) -> list[dict[tuple[int, ...], list[int]]]:
    """Return groups of like cells, parted into those that constraints connect.

    Each is in the order of its first cells.
    """
    parts: list[tuple[set[int], list[tuple[int, ...]]]] = []
    for within in alike:
        near, groups, apart = set(within), [within], []
        for part in parts:
            if near.isdisjoint(part[0]):
                apart.append(part)
            else:
                near |= part[0]
                groups += part[1]
        parts = [*apart, (near, groups)]
    return [
        {within: alike[within] for within in sorted(groups, key=lambda group: alike[group][0])}
        for _, groups in parts
    ]


def _component(
    groups: dict[tuple[int, ...], list[int]], counts: list[int]
) -> tuple[int, dict[tuple[int, ...], int]]:
    """Return the polynomial of a component's layouts, and one per group.

    That of a group is of the mines in it summed over layouts.

    A pass over the groups keeps, per vector of mines that constraints still lack, the polynomial of
    the ways to get there; a pass back the ways from there to the end.
    """
    order = list(groups)
    used = sorted({number for within in order for number in within})
    place = {number: at for at, number in enumerate(used)}
    steps = [([place[number] for number in within], len(groups[within])) for within in order]
    room = [sum(size for within, size in steps if at in within) for at in range(len(used))]
    ahead: list[dict[tuple[int, ...], int]] = [{tuple(counts[number] for number in used): 1}]
    moves: list[list[tuple[tuple[int, ...], int, tuple[int, ...]]]] = []
    for within, size in steps:
        for at in within:
            room[at] -= size
        reached: dict[tuple[int, ...], int] = {}
        taken = []
        for lacks, ways in ahead[-1].items():
            for mines in range(
                max(0, *(lacks[at] - room[at] for at in within)),
                min(size, *(lacks[at] for at in within)) + 1,
            ):
                left = list(lacks)
                for at in within:
                    left[at] -= mines
                after = tuple(left)
                reached[after] = reached.get(after, 0) + (ways * comb(size, mines) << BITS * mines)
                taken.append((lacks, mines, after))
        ahead.append(reached)
        moves.append(taken)
    return sum(ahead[-1].values()), _expected(order, [size for _, size in steps], ahead, moves)


def _expected(
    order: list[tuple[int, ...]],
    sizes: list[int],
    ahead: list[dict[tuple[int, ...], int]],
    moves: list[list[tuple[tuple[int, ...], int, tuple[int, ...]]]],
) -> dict[tuple[int, ...], int]:
    """Return per group the polynomial of the mines in it summed over layouts.

    It is found by a pass back over the steps.
    """
    back, found = dict.fromkeys(ahead[-1], 1), {}
    for number in range(len(order) - 1, -1, -1):
        before: dict[tuple[int, ...], int] = {}
        total = 0
        for lacks, mines, after in moves[number]:
            ways = back.get(after, 0) * comb(sizes[number], mines) << BITS * mines
            before[lacks] = before.get(lacks, 0) + ways
            total += mines * ahead[number][lacks] * ways
        back, found[order[number]] = before, total
    return found
