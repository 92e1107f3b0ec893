"""Process reward: the rank of the action among the legal ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from sparring.core.records import Episode, Turn
from sparring.methods.oracles.base import TIE

NEEDS = {"verdicts"}
READS = "turn"


def action_rank(
    episode: Episode, *, ties: Literal["level", "mean"] = "level"
) -> tuple[float | None, ...]:
    """Grade each turn by the rank of its action among all legal ones, as the oracle values them.

    1 the best, 0 the worst.

    What: only the order of the values counts, not how far they are apart.
    When to use: with an oracle whose values rank actions better than they measure them, such as a
    search with few simulations. Also where ``best_action`` is 1 too rarely to learn from.
    Mathematics: with ``ties`` "level"
        r_t = 1 - b / (l - 1), and 1 where l = 1
    l is the number of different values and b the number of those above the action's. With ``ties``
    "mean"
        r_t = (w + e / 2) / (n - 1), and 1/2 where n = 1
    Of the n - 1 other actions w are worth less and e the same.
    Shapes: one number per turn, None where the oracle abstained.
    Pitfalls: with "level" a game of three values (won, drawn, lost) has three grades at most, and
    where all actions are equally good each gets 1. With "mean" the best action gets less than 1
    where others are as good. A reply that is no legal action gets 0, as the worst. The sum over a
    game is larger in long games. Ranks are those of the values: where an oracle calls fewer actions
    best than have the largest value, use ``best_action``. It is shaping: set ``reorder_outcomes``
    to have it whole.
    Reference: none; "mean" is the mid-rank of statistics, scaled to [0, 1].
    Verified by: tests/methods/rewards/test_verdict_rewards.py.

    Args:
        ties: how actions of one value are graded; by either rule they share a grade. "level"
            (default) counts different values, so each of the best actions gets 1. "mean" counts
            actions, so the grades of a state's legal actions have mean 1/2, and a state in which
            all actions are equally good pays as much as any other.
    """
    return tuple(_grade(turn, by_level=ties == "level") for turn in episode.turns)


def _grade(turn: Turn, *, by_level: bool) -> float | None:
    if turn.verdict is None:
        return None
    if turn.event != "ok" or turn.action is None:
        return 0.0
    ranks = _ranks(turn.verdict.values)
    own = ranks[turn.verdict.actions.index(turn.action)]
    if by_level:
        return own / max(ranks) if max(ranks) else 1.0
    others = len(ranks) - 1
    less, same = sum(rank < own for rank in ranks), ranks.count(own) - 1
    return (less + same / 2) / others if others else 0.5


def _ranks(values: Sequence[float]) -> list[int]:
    """Return per value how many different ones lie below it. Values as close as an oracle's ties
    are one."""
    tie = TIE * max(1.0, *map(abs, values))
    ordered = sorted(range(len(values)), key=values.__getitem__)
    ranks, rank = [0] * len(values), 0
    for before, this in pairwise(ordered):
        rank += values[this] - values[before] > tie
        ranks[this] = rank
    return ranks
