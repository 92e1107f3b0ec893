"""Turn tables for tests: small tables by hand and random tables by seed."""

import numpy as np
from hypothesis import strategies as st

from sparring.core.records import TurnTable


def table(rewards, *, seats=None, roles=None, groups=None, games=None, values=None, tokens=None, keys=None):
    """Return a turn table from one list of turn rewards per trajectory; without roles, the role is the seat."""
    count = len(rewards)
    seats = seats if seats is not None else [0] * count
    roles = roles if roles is not None else seats
    groups = groups if groups is not None else list(range(count))
    games = games if games is not None else [0] * count
    lengths = [len(turns) for turns in rewards]

    def column(per_trajectory):
        return np.repeat(np.array(per_trajectory, dtype=np.int64), lengths)

    size = sum(lengths)
    is_last = np.zeros(size, dtype=bool)
    is_last[np.cumsum(lengths, dtype=np.int64) - 1] = True
    return TurnTable(
        episode=column(range(count)),
        group=column(groups),
        trajectory=column(range(count)),
        game=column(games),
        role=column(roles),
        seat=column(seats),
        agent=column([0] * count),
        turn_index=np.concatenate([np.arange(length) for length in lengths]).astype(np.int64)
        if size
        else np.zeros(0, dtype=np.int64),
        reward=np.array([reward for turns in rewards for reward in turns], dtype=np.float64),
        done=is_last,
        state_key=np.zeros(size, dtype=np.int64) if keys is None else np.array(keys, dtype=np.int64),
        legal=np.ones(size, dtype=bool),
        n_tokens=np.full(size, 2, dtype=np.int64) if tokens is None else np.array(tokens, dtype=np.int64),
        value=None if values is None else np.array(values, dtype=np.float64),
        game_names=("game", "other"),
        role_names=("first", "second", "third"),
        agent_names=("learner",),
    )


EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)


def group_of(returns, **columns):
    """Return the table of one group whose trajectories have one turn each."""
    return table([[value] for value in returns], groups=[0] * len(returns), **columns)


def groups_of_four(returns):
    """Return the table of one-turn trajectories in groups of four."""
    return table([[value] for value in returns], groups=[index // 4 for index in range(len(returns))])


# two episodes of two seats: seat 0 takes 2 turns then 1, seat 1 takes 1 turn then 3 (lengths differ on purpose)
BY_HAND = {"rewards": [[1.0, 2.0], [-3.0], [-1.0], [0.5, 0.0, 0.5]], "seats": [0, 1, 0, 1], "groups": [0, 0, 0, 0]}
