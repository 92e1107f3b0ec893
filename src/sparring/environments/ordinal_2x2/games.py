"""The 144 ordinal 2x2 games with their numbers, names and families.

A seat's pattern has its ranks of the four outcomes (1 is the worst, 4 the best) in this order of
(own choice, other's choice): (one, one), (one, two), (two, one), (two, two). All four ranks differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

Pattern = tuple[int, ...]
"""Four ranks, at 2 * own choice + the other's choice."""

Ordinal = tuple[Pattern, Pattern]
"""The patterns of seats 0 and 1."""

RANKS = (1, 2, 3, 4)
CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))  # choices of seats 0 and 1
FAMILIES = (*("win_win", "cyclic", "dilemma", "coordination"), *("one_dominant", "both_dominant"))
# symmetric games by pattern; choice 0 is to cooperate, yield or hunt
NAMED: Mapping[str, Pattern] = MappingProxyType(
    {
        "prisoners_dilemma": (3, 1, 4, 2),
        "chicken": (3, 2, 4, 1),
        "battle_of_the_sexes": (1, 3, 4, 2),  # both yielding is worse than both insisting
        "leader": (2, 3, 4, 1),  # both insisting is worse than both yielding
        "stag_hunt": (4, 1, 3, 2),
        "deadlock": (2, 1, 4, 3),
    }
)


def swap_choices(game: Ordinal, swaps: tuple[int, int]) -> Ordinal:
    """Return a game with the choices of some seats swapped.

    Args:
        game: the patterns.
        swaps: 1 for each seat whose choices are swapped, else 0.
    """
    return (_swap_pattern(game[0], *swaps), _swap_pattern(game[1], *swaps[::-1]))


def _swap_pattern(pattern: Pattern, own_swap: int, other_swap: int) -> Pattern:
    return tuple(pattern[2 * (first ^ own_swap) + (second ^ other_swap)] for first, second in CELLS)


def exchange_seats(game: Ordinal) -> Ordinal:
    """Return a game with its seats exchanged."""
    return game[::-1]


def normalise(game: Ordinal) -> Ordinal:
    """Return a game with its choices in canonical order.

    In this order each seat has rank 4 where the other seat makes its second choice. Exactly one of
    the four orders has this property, because only a swap of the other's choices moves rank 4.
    """
    swap_of_1, swap_of_0 = (pattern.index(4) % 2 == 0 for pattern in game)
    return swap_choices(game, (int(swap_of_0), int(swap_of_1)))


@cache
def all_games() -> tuple[Ordinal, ...]:
    """Return all games in canonical order, [144], sorted by seat 0's pattern, then seat 1's."""
    patterns = list(itertools.permutations(RANKS))
    return tuple(sorted({normalise((first, second)) for first in patterns for second in patterns}))


def number_of(game: Ordinal) -> int:
    """Return the number of a game, 1 to 144, for any order of its choices."""
    return all_games().index(normalise(game)) + 1


def rank(game: Ordinal, seat: int, choices: Sequence[int]) -> int:
    """Return a seat's rank of an outcome, given the choices of seats 0 and 1."""
    return game[seat][2 * choices[seat] + choices[1 - seat]]


def is_best_response(game: Ordinal, seat: int, choices: Sequence[int]) -> bool:
    """Return whether a seat's choice is the best response to the other's choice."""
    deviation = tuple(choice ^ (player == seat) for player, choice in enumerate(choices))
    return rank(game, seat, choices) > rank(game, seat, deviation)


def is_equilibrium(game: Ordinal, choices: Sequence[int]) -> bool:
    """Return whether both choices are best responses: a Nash equilibrium in pure strategies."""
    return all(is_best_response(game, seat, choices) for seat in (0, 1))


def rank_sum(game: Ordinal, choices: Sequence[int]) -> int:
    """Return the sum of both seats' ranks of an outcome."""
    return sum(rank(game, seat, choices) for seat in (0, 1))


def is_joint_maximum(game: Ordinal, choices: Sequence[int]) -> bool:
    """Return whether no outcome has a larger sum of ranks."""
    return rank_sum(game, choices) == max(rank_sum(game, cell) for cell in CELLS)


def has_dominant(game: Ordinal, seat: int) -> bool:
    """Return whether a seat has a dominant choice."""
    best_choices = {
        choice
        for choice, other in CELLS
        if is_best_response(game, seat, (choice, other) if seat == 0 else (other, choice))
    }
    return len(best_choices) == 1


def family(game: Ordinal) -> str:
    """Return the family of a game: the first of ``FAMILIES`` that fits.

    win_win: one outcome is best for both. cyclic: no pure equilibrium. dilemma: both seats prefer
    another outcome to the only pure equilibrium. coordination: two pure equilibria. In the other
    games one seat has, or both seats have, a dominant choice.
    """
    if any(rank_sum(game, cell) == 8 for cell in CELLS):
        return "win_win"
    equilibria = [cell for cell in CELLS if is_equilibrium(game, cell)]
    if not equilibria:
        return "cyclic"
    if len(equilibria) > 1:
        return "coordination"
    if any(
        all(rank(game, seat, cell) > rank(game, seat, equilibria[0]) for seat in (0, 1))
        for cell in CELLS
    ):
        return "dilemma"
    return "both_dominant" if has_dominant(game, 0) and has_dominant(game, 1) else "one_dominant"


def select_games(selection: str) -> tuple[int, ...]:
    """Return the numbers of the selected games.

    Args:
        selection: "all", a family, a name, or numbers with spaces between, such as "1 17".

    Raises:
        ValueError: ``selection`` has another form.
    """
    numbers = range(1, len(all_games()) + 1)
    if selection == "all":
        return tuple(numbers)
    if selection in FAMILIES:
        return tuple(number for number in numbers if family(all_games()[number - 1]) == selection)
    if selection in NAMED:
        return (number_of((NAMED[selection],) * 2),)
    picks = tuple(int(part) for part in selection.split())
    if not picks or not set(picks) <= set(numbers) or len(set(picks)) < len(picks):
        raise ValueError(selection)
    return picks
