"""Ranks from pairwise matches.

Anchor, round robin, Swiss, single and double elimination. n players.

``scores[i, j]`` is what player i gets in its match against player j; i wins if that is more than
``scores[j, i]``. Nothing is assumed about transitivity. In knock-out matches a tie sends the better
seed on. Ranks begin at 0 for the best; ties share the mean rank.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from sparring.core.records import FloatArray, IntArray

Scheme = Literal["anchor", "round_robin", "swiss", "single_elimination", "double_elimination"]


def tournament_ranks(scheme: Scheme, scores: FloatArray) -> FloatArray:
    """Return the rank of every player, float64 [n].

    Args:
        scheme: "anchor" plays all against player 0 (n - 1 matches), "round_robin" all against all,
            "swiss" ceil(log2 n) rounds between players of like standing, the elimination schemes
            seed by anchor matches first.
        scores: float64 [n, n]; the diagonal is not read.
    """
    if len(scores) < 2:
        return np.zeros(len(scores))
    return _SCHEMES[scheme](scores)


def ranks_by(keys: Sequence[tuple[float, ...]]) -> FloatArray:
    """Return ranks by descending key, ties sharing the mean of their ranks, [n]."""
    ranks = np.zeros(len(keys))
    order = sorted(range(len(keys)), key=lambda player: keys[player], reverse=True)
    place = 0
    for _, tied in itertools.groupby(order, key=lambda player: keys[player]):
        players = list(tied)
        ranks[players] = place + (len(players) - 1) / 2
        place += len(players)
    return ranks


def seed_positions(size: int) -> list[int]:
    """Return the seeds in the order of a standard bracket's slots, for a power of two.

    It is 0 meets the last, 0 and 1 only in the final.
    """
    seeds = [0]
    while len(seeds) < size:
        seeds = [seed for best in seeds for seed in (best, 2 * len(seeds) - 1 - best)]
    return seeds


def _anchor_scores(scores: FloatArray) -> FloatArray:
    """Return each player's score against player 0. For player 0 it is its mean score over these
    matches."""
    against: FloatArray = scores[:, 0].copy()
    against[0] = scores[0, 1:].mean()
    return against


def _anchor(scores: FloatArray) -> FloatArray:
    return ranks_by([(score,) for score in _anchor_scores(scores).tolist()])


def _round_robin(scores: FloatArray) -> FloatArray:
    points = (scores > scores.T) + 0.5 * (scores == scores.T)
    np.fill_diagonal(points, 0.0)
    return ranks_by([(total,) for total in points.sum(axis=1).tolist()])


def _swiss(scores: FloatArray) -> FloatArray:
    """Return ranks by points, then by the sum of the opponents' points (Buchholz)."""
    count = len(scores)
    points = [0.0] * count
    met: list[set[int]] = [set() for _ in range(count)]
    byes: set[int] = set()
    for number in range((count - 1).bit_length()):
        standing = sorted(range(count), key=lambda player: (-points[player], player))
        if count % 2:
            idle = next(
                (player for player in reversed(standing) if player not in byes), standing[-1]
            )
            standing.remove(idle)
            byes.add(idle)
            points[idle] += 1.0
        for a, b in _swiss_pairs(standing, met, first_round=number == 0):
            met[a].add(b)
            met[b].add(a)
            won = (
                1.0 if scores[a, b] > scores[b, a] else 0.5 if scores[a, b] == scores[b, a] else 0.0
            )
            points[a] += won
            points[b] += 1.0 - won
    return ranks_by(
        [(points[player], sum(points[other] for other in met[player])) for player in range(count)]
    )


def _swiss_pairs(
    standing: list[int], met: list[set[int]], *, first_round: bool
) -> list[tuple[int, int]]:
    if first_round:
        half = len(standing) // 2
        return list(zip(standing[:half], standing[half:], strict=True))
    waiting, pairs = list(standing), []
    while waiting:
        player = waiting.pop(0)
        fresh = next((other for other in waiting if other not in met[player]), waiting[0])
        waiting.remove(fresh)
        pairs.append((player, fresh))
    return pairs


class _KnockOut:
    """Matches of an elimination scheme."""

    def __init__(self, scores: FloatArray) -> None:
        self.scores = scores
        seeding = _anchor_scores(scores)
        self.seeds: IntArray = np.argsort(-seeding, kind="stable")
        self.made = [[float(score)] for score in scores[:, 0]]
        self.made[0] = [float(score) for score in scores[0, 1:]]
        self.left = [np.inf] * len(scores)  # round in which a player left; the winner never does

    def play(self, first: int, second: int) -> tuple[int, int]:
        """Return winner and loser of a match; a tie is the first's."""
        a, b = float(self.scores[first, second]), float(self.scores[second, first])
        self.made[first].append(a)
        self.made[second].append(b)
        return (first, second) if a >= b else (second, first)

    def ranks(self) -> FloatArray:
        return ranks_by(
            [(left, sum(made) / len(made)) for left, made in zip(self.left, self.made, strict=True)]
        )


def _single_elimination(scores: FloatArray) -> FloatArray:
    games = _KnockOut(scores)
    count = len(scores)
    slots = [
        int(games.seeds[seed]) if seed < count else None
        for seed in seed_positions(1 << (count - 1).bit_length())
    ]
    number = 0
    while len(slots) > 1:
        going_on: list[int | None] = []
        for first, second in zip(slots[::2], slots[1::2], strict=True):
            if first is None or second is None:
                going_on.append(second if first is None else first)
                continue
            winner, loser = games.play(first, second)
            games.left[loser] = number
            going_on.append(winner)
        slots, number = going_on, number + 1
    return games.ranks()


def _double_elimination(scores: FloatArray) -> FloatArray:
    """Return ranks by the round of the second defeat. In both pools the best seed meets the worst
    and, of an odd number, rests."""
    games = _KnockOut(scores)
    seed = {int(player): place for place, player in enumerate(games.seeds)}
    upper, lower, number = [int(player) for player in games.seeds], list[int](), 0
    while len(upper) + len(lower) > 1:
        if len(upper) == len(lower) == 1:
            _, loser = games.play(upper[0], lower[0])
            games.left[loser] = number
            break
        upper, beaten = _pool(games, upper)
        lower, out = _pool(games, lower)
        for loser in out:
            games.left[loser] = number
        upper.sort(key=seed.__getitem__)
        lower = sorted([*lower, *beaten], key=seed.__getitem__)
        number += 1
    return games.ranks()


def _pool(games: _KnockOut, players: list[int]) -> tuple[list[int], list[int]]:
    """Play one round inside a pool sorted by seed; return who won or rested, and who lost."""
    rest = players[: len(players) % 2]
    playing = players[len(rest) :]
    half = len(playing) // 2
    results = (
        [games.play(a, b) for a, b in zip(playing[:half], playing[: half - 1 : -1], strict=True)]
        if half
        else []
    )
    return rest + [winner for winner, _ in results], [loser for _, loser in results]


_SCHEMES: dict[Scheme, Callable[[FloatArray], FloatArray]] = {
    "anchor": _anchor,
    "round_robin": _round_robin,
    "swiss": _swiss,
    "single_elimination": _single_elimination,
    "double_elimination": _double_elimination,
}
