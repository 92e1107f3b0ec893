"""Credit: Shapley values over the trained seats of an episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import CreditError
from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import trajectory_returns
from sparring.ops.groups import group_counts, group_ids, group_sum
from sparring.ops.normal_form import MAX_PLAYERS, shapley_values

# game -> coalition as "0,2" -> number of episodes, sum of their worths
Worths = dict[str, dict[str, tuple[float, float]]]


def shapley(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    worth: Literal["mean", "sum"] = "mean",
    empty: float = 0.0,
    baseline: bool = False,
    decay: Annotated[float, Field(gt=0, le=1)] = 0.95,
) -> Credit:
    """Share an episode's worth among its trained seats by their contributions to coalitions.

    What: The seats of an episode that learn are a coalition. The running means of the worths of
    coalitions tell what a seat adds to a coalition.
    When to use: runs whose matchmaker gives the learner different sets of seats (one seat beside
    bots, pairs of seats, all seats).
    Mathematics: v(S) is the mean worth of the episodes in which exactly the seats in S learnt, over
    earlier batches. An episode of coalition S and worth w sets v(S) = w and gives seat i
        phi_i = sum over T in S without i of
            |T|! (|S| - |T| - 1)! / |S|! (v(T with i) - v(T))
    for all its turns. ``baseline`` subtracts phi_i for w equal to the running mean of v(S), at
    first 0. If coalition T was never seen, v(T) is the mean v of the seen coalitions within S of
    equal size. Without such a coalition, v(T) is interpolated between the nearest sizes; v of the
    empty coalition and of S are known.
    Shapes: advantages [N]; state {game: {"0,2": [n, sum of worths]}}; metrics value/GAME/SEAT: phi
    of the seats in the largest coalition.
    Pitfalls:
        - The worth w enters every phi_i with the factor 1 / |S|.
        - The differences between the seats of one coalition come from earlier batches. So they
          change only the baselines; the expected gradient is that of w / |S|.
        - With ``baseline``, which lowers the variance, all seats of an episode get exactly
          (w - v(S)) / |S|.
        - The metrics hold the Shapley values themselves.
        - At most 8 seats learn.
    Reference: Shapley, 1953; as credit for agents: Wang et al., 2020 (arXiv 1907.05707). The
    characteristic function v is ours.
    Verified by: tests/methods/credit/test_role_baselines.py.

    Args:
        worth: the worth of an episode: the "mean" of the trained seats' returns (default), for
            teams with one payoff, or their "sum", for seats with their own payoffs.
        empty: v of the empty coalition, the worth without the learner, in reward units; the
            default is 0.
        baseline: true subtracts phi_i of the running mean of v(S), which lowers the variance.
            False (default) does not.
        decay: factor per batch on the running sums behind v, above 0 and at most 1. 1 forgets
            nothing; the default 0.95 averages over about 20 batches.

    Raises:
        CreditError: more than 8 seats of an episode learn.
    """
    returns, first_rows = trajectory_returns(turns)
    seats, games = turns.seat[first_rows], turns.game[first_rows]
    episodes, num_episodes = group_ids(turns.episode[first_rows])
    most_seats = int(group_counts(episodes, num_episodes).max(initial=0))
    if seats.max(initial=0) >= 62 or most_seats > MAX_PLAYERS:
        raise CreditError(
            f"credit 'shapley': {most_seats} seats of one episode learn; train at most "
            f"{MAX_PLAYERS} seats, with numbers from 0 to 61."
        )
    masks = np.zeros(num_episodes, dtype=np.int64)  # a bit for each seat that learns
    np.bitwise_or.at(masks, episodes, np.int64(1) << seats)
    game_ids = np.zeros(num_episodes, dtype=np.int64)
    game_ids[episodes] = games
    worths = group_sum(returns, episodes, num_episodes)
    if worth == "mean":
        worths = worths / np.maximum(group_counts(episodes, num_episodes), 1)
    old_worths = {
        game: {name: (entry[0], entry[1]) for name, entry in table.items()}
        for game, table in state.items()
    }
    shares = _shares(turns, old_worths, (seats, episodes, masks, game_ids), worths, empty, baseline)
    new_worths = _update_worths(turns, old_worths, masks, game_ids, worths, decay)
    lengths = np.diff(np.append(first_rows, len(turns.reward)))
    return Credit(
        advantages=np.repeat(shares, lengths), state=new_worths, metrics=_metrics(new_worths, empty)
    )


def _shares(
    turns: TurnTable,
    tables: Worths,
    columns: tuple[IntArray, IntArray, IntArray, IntArray],
    worths: FloatArray,
    empty: float,
    baseline: bool,
) -> FloatArray:
    seats, episodes, masks, game_ids = columns
    shares = np.zeros(len(seats))  # phi of each trajectory's seat
    coalition_ids, num_coalitions = group_ids(game_ids, masks)
    coalition_of_row = coalition_ids[episodes] if len(episodes) else episodes
    for coalition in range(num_coalitions):
        episode = int(np.flatnonzero(coalition_ids == coalition)[0])  # any one of the coalition
        game, members = turns.game_names[int(game_ids[episode])], _members(int(masks[episode]))
        rows = np.flatnonzero(coalition_of_row == coalition)
        table, equal_shares = tables.get(game, {}), worths[episodes[rows]] / len(members)
        if baseline:
            num, total = table.get(_key(members), (1.0, 0.0))
            shares[rows] = equal_shares - total / num / len(members)
        else:  # phi is affine in the episode's worth, with slope 1 / |S| for every seat
            shares_at_zero = shapley_values(_worths_of_coalitions(members, table, empty, 0.0))
            shares[rows] = shares_at_zero[np.searchsorted(members, seats[rows])] + equal_shares
    return shares


def _worths_of_coalitions(
    members: list[int], table: Mapping[str, tuple[float, float]], empty: float, total: float
) -> FloatArray:
    """Return v of every coalition of the members, [2^n]."""
    n = len(members)
    coalition_sizes = np.array([mask.bit_count() for mask in range(1 << n)])
    values = np.full(1 << n, np.nan)
    for mask in range(1, (1 << n) - 1):
        coalition = [member for index, member in enumerate(members) if mask >> index & 1]
        entry = table.get(_key(coalition))
        if entry is not None:
            values[mask] = entry[1] / entry[0]
    values[0], values[-1] = empty, total
    values_by_size = [values[coalition_sizes == size] for size in range(n + 1)]
    sizes = [size for size in range(n + 1) if not np.isnan(values_by_size[size]).all()]
    means = [np.nanmean(values_by_size[size]) for size in sizes]
    return np.where(np.isnan(values), np.interp(coalition_sizes, sizes, means), values)


def _update_worths(
    turns: TurnTable,
    tables: Worths,
    masks: IntArray,
    game_ids: IntArray,
    worths: FloatArray,
    decay: float,
) -> dict[str, Any]:
    new_worths = {
        game: {name: [decay * record[0], decay * record[1]] for name, record in table.items()}
        for game, table in tables.items()
    }
    coalition_ids, num_coalitions = group_ids(game_ids, masks)
    counts = group_counts(coalition_ids, num_coalitions)
    totals = group_sum(worths, coalition_ids, num_coalitions)
    for coalition in range(num_coalitions):
        episode = int(np.flatnonzero(coalition_ids == coalition)[0])  # any one of the coalition
        table = new_worths.setdefault(turns.game_names[int(game_ids[episode])], {})
        record = table.setdefault(_key(_members(int(masks[episode]))), [0.0, 0.0])
        record[0] += float(counts[coalition])
        record[1] += float(totals[coalition])
    return new_worths


def _metrics(worths: Mapping[str, Any], empty: float) -> dict[str, float]:
    metrics = {}
    for game, table in worths.items():
        coalition = max(table, key=lambda name: (name.count(","), name))
        members = [int(seat) for seat in coalition.split(",")]
        num, total = table[coalition]
        values = shapley_values(_worths_of_coalitions(members, table, empty, total / num))
        for seat, value in zip(members, values, strict=True):
            metrics[f"value/{game}/{seat}"] = float(value)
    return metrics


def _members(mask: int) -> list[int]:
    return [seat for seat in range(mask.bit_length()) if mask >> seat & 1]


def _key(members: list[int]) -> str:
    return ",".join(map(str, members))
