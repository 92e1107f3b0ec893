"""Process reward: the rank of the action among the legal actions."""

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
    """Grade each turn by the rank of its action in the oracle's values, from 1 (best) to 0 (worst).

    What: only the order of the values counts, not their differences.
    When to use: with an oracle whose ranking is better than its values, such as a search with few
    simulations. Also if ``best_action`` is 1 too rarely for learning.
    Mathematics: with ``ties`` "level"
        r_t = 1 - b / (l - 1), and 1 where l = 1
    The state has l different values; b of them are above the action's value. With ``ties`` "mean"
        r_t = (w + e / 2) / (n - 1), and 1/2 where n = 1
    Among the n - 1 other actions, w have a smaller value and e have an equal value.
    Shapes: one number per turn, None where the oracle abstained.
    Pitfalls:
        - With "level" a game of three values (won, drawn, lost) has at most three grades. If all
          actions are equally good, each gets 1.
        - With "mean" the best action gets less than 1 if other actions are equally good.
        - An illegal reply gets 0.
        - The sum over an episode is larger in long episodes.
        - Only the values give the ranks. Use ``best_action`` if the oracle's best actions are not
          all actions of the largest value.
        - The reward is shaping: set ``reorder_outcomes`` for the unscaled reward.
    Reference: none; "mean" is the mid-rank of statistics, scaled to [0, 1].
    Verified by: tests/methods/rewards/test_verdict_rewards.py.

    Args:
        ties: how to grade; actions of equal value get equal grades. "level" (default) counts
            different values, so each of the best actions gets 1. "mean" counts actions, so the
            grades of a state's legal actions have mean 1/2, also if all actions are equally good.
    """
    return tuple(_grade(turn, by_level=ties == "level") for turn in episode.turns)


def _grade(turn: Turn, *, by_level: bool) -> float | None:
    if turn.verdict is None:
        return None
    if turn.event != "ok" or turn.action is None:
        return 0.0
    ranks = _ranks(turn.verdict.values)
    played_rank = ranks[turn.verdict.actions.index(turn.action)]
    if by_level:
        return played_rank / max(ranks) if max(ranks) else 1.0
    num_others = len(ranks) - 1
    num_smaller, num_equal = sum(rank < played_rank for rank in ranks), ranks.count(played_rank) - 1
    return (num_smaller + num_equal / 2) / num_others if num_others else 0.5


def _ranks(values: Sequence[float]) -> list[int]:
    """Return the number of different smaller values per value, with the oracle's tolerance."""
    tolerance = TIE * max(1.0, *map(abs, values))
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, rank = [0] * len(values), 0
    for previous, current in pairwise(order):
        rank += values[current] - values[previous] > tolerance
        ranks[current] = rank
    return ranks
