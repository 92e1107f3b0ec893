"""Ranks players by pairwise matches: anchor, round robin, Swiss, single and double elimination.

``scores[i, j]`` is the score of player i in its match against player j; i wins if this is above
``scores[j, i]``. Results need not be transitive. In a knock-out match, the better seed wins a tie.
The best rank is 0; tied players share the mean of their ranks.
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
        scheme: "anchor": every player plays player 0 (n - 1 matches); "round_robin": every two
            players play; "swiss": ceil(log2 n) rounds between players with similar points; the
            elimination schemes first seed by anchor matches.
        scores: float64 [n, n]; the diagonal is ignored.
    """
    if len(scores) < 2:
        return np.zeros(len(scores))
    return _SCHEMES[scheme](scores)


def ranks_by(keys: Sequence[tuple[float, ...]]) -> FloatArray:
    """Return ranks by descending key, [n]; tied players share the mean of their ranks."""
    ranks = np.zeros(len(keys))
    order = sorted(range(len(keys)), key=lambda player: keys[player], reverse=True)
    num_better = 0
    for _, tied_players in itertools.groupby(order, key=lambda player: keys[player]):
        players = list(tied_players)
        ranks[players] = num_better + (len(players) - 1) / 2
        num_better += len(players)
    return ranks


def seed_positions(num_slots: int) -> list[int]:
    """Return the seeds in the order of a standard bracket's slots; ``num_slots`` is a power of two.

    Seed 0 first plays the last seed; seeds 0 and 1 can play each other only in the final.
    """
    seeds = [0]
    while len(seeds) < num_slots:
        seeds = [seed for best in seeds for seed in (best, 2 * len(seeds) - 1 - best)]
    return seeds


def _anchor_scores(scores: FloatArray) -> FloatArray:
    """Return each player's score against player 0, and for player 0 its mean score, [n]."""
    anchor_scores: FloatArray = scores[:, 0].copy()
    anchor_scores[0] = scores[0, 1:].mean()
    return anchor_scores


def _anchor(scores: FloatArray) -> FloatArray:
    return ranks_by([(score,) for score in _anchor_scores(scores).tolist()])


def _round_robin(scores: FloatArray) -> FloatArray:
    points = (scores > scores.T) + 0.5 * (scores == scores.T)
    np.fill_diagonal(points, 0.0)
    return ranks_by([(total,) for total in points.sum(axis=1).tolist()])


def _swiss(scores: FloatArray) -> FloatArray:
    num_players = len(scores)
    points = [0.0] * num_players
    opponents: list[set[int]] = [set() for _ in range(num_players)]
    byes: set[int] = set()
    for round_index in range((num_players - 1).bit_length()):
        players_by_points = sorted(range(num_players), key=lambda player: (-points[player], player))
        if num_players % 2:
            bye_player = next(
                (player for player in reversed(players_by_points) if player not in byes),
                players_by_points[-1],
            )
            players_by_points.remove(bye_player)
            byes.add(bye_player)
            points[bye_player] += 1.0
        for a, b in _swiss_pairs(players_by_points, opponents, first_round=round_index == 0):
            opponents[a].add(b)
            opponents[b].add(a)
            points_a = (
                1.0 if scores[a, b] > scores[b, a] else 0.5 if scores[a, b] == scores[b, a] else 0.0
            )
            points[a] += points_a
            points[b] += 1.0 - points_a
    return ranks_by(
        [(total, sum(points[other] for other in opponents[n])) for n, total in enumerate(points)]
    )


def _swiss_pairs(
    players_by_points: list[int], opponents: list[set[int]], *, first_round: bool
) -> list[tuple[int, int]]:
    if first_round:
        half = len(players_by_points) // 2
        return list(zip(players_by_points[:half], players_by_points[half:], strict=True))
    players, pairs = list(players_by_points), []
    while players:
        player = players.pop(0)
        opponent = next((other for other in players if other not in opponents[player]), players[0])
        players.remove(opponent)
        pairs.append((player, opponent))
    return pairs


class _KnockOut:
    """Matches of an elimination scheme."""

    def __init__(self, scores: FloatArray) -> None:
        self.scores = scores
        # the player of each seed
        self.seeds: IntArray = np.argsort(-_anchor_scores(scores), kind="stable")
        self.match_scores = [[float(score)] for score in scores[:, 0]]
        self.match_scores[0] = [float(score) for score in scores[0, 1:]]
        self.exit_rounds = [np.inf] * len(scores)  # round of each player's exit; inf: the winner

    def play(self, first: int, second: int) -> tuple[int, int]:
        """Return the winner and the loser of a match; the first player wins a tie."""
        first_score = float(self.scores[first, second])
        second_score = float(self.scores[second, first])
        self.match_scores[first].append(first_score)
        self.match_scores[second].append(second_score)
        return (first, second) if first_score >= second_score else (second, first)

    def ranks(self) -> FloatArray:
        return ranks_by(
            [
                (exit_round, sum(match_scores) / len(match_scores))
                for exit_round, match_scores in zip(
                    self.exit_rounds, self.match_scores, strict=True
                )
            ]
        )


def _single_elimination(scores: FloatArray) -> FloatArray:
    bracket = _KnockOut(scores)
    num_players = len(scores)
    slots = [
        int(bracket.seeds[seed]) if seed < num_players else None
        for seed in seed_positions(1 << (num_players - 1).bit_length())
    ]
    round_index = 0
    while len(slots) > 1:
        winners: list[int | None] = []
        for first, second in zip(slots[::2], slots[1::2], strict=True):
            if first is None or second is None:
                winners.append(second if first is None else first)
                continue
            winner, loser = bracket.play(first, second)
            bracket.exit_rounds[loser] = round_index
            winners.append(winner)
        slots, round_index = winners, round_index + 1
    return bracket.ranks()


def _double_elimination(scores: FloatArray) -> FloatArray:
    """Return ranks by the round of the second defeat.

    The upper pool has the players without a defeat, the lower pool those with one. In each pool
    the best seed plays the worst; if the number of players is odd, the best rests.
    """
    bracket = _KnockOut(scores)
    seed_of = {int(player): seed for seed, player in enumerate(bracket.seeds)}
    upper_pool, lower_pool, round_index = [int(player) for player in bracket.seeds], list[int](), 0
    while len(upper_pool) + len(lower_pool) > 1:
        if len(upper_pool) == len(lower_pool) == 1:
            _, loser = bracket.play(upper_pool[0], lower_pool[0])
            bracket.exit_rounds[loser] = round_index
            break
        upper_pool, losers = _play_pool(bracket, upper_pool)
        lower_pool, eliminated_players = _play_pool(bracket, lower_pool)
        for loser in eliminated_players:
            bracket.exit_rounds[loser] = round_index
        upper_pool.sort(key=seed_of.__getitem__)
        lower_pool = sorted([*lower_pool, *losers], key=seed_of.__getitem__)
        round_index += 1
    return bracket.ranks()


def _play_pool(bracket: _KnockOut, players: list[int]) -> tuple[list[int], list[int]]:
    """Play one round of a pool sorted by seed; return the players that stay, and the losers."""
    byes = players[: len(players) % 2]
    playing = players[len(byes) :]
    half = len(playing) // 2
    results = (
        [bracket.play(a, b) for a, b in zip(playing[:half], playing[: half - 1 : -1], strict=True)]
        if half
        else []
    )
    return byes + [winner for winner, _ in results], [loser for _, loser in results]


_SCHEMES: dict[Scheme, Callable[[FloatArray], FloatArray]] = {
    "anchor": _anchor,
    "round_robin": _round_robin,
    "swiss": _swiss,
    "single_elimination": _single_elimination,
    "double_elimination": _double_elimination,
}
