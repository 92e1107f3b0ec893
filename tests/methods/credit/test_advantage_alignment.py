import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.advantage_alignment import advantage_alignment, align_advantages
from sparring.methods.credit.rloo import rloo


def rounds(rewards, episodes, seats, groups):
    """Return the table of these trajectories; each role is its seat."""
    turns = table(rewards, seats=seats, groups=groups)
    return dataclasses.replace(
        turns, episode=np.repeat(np.array(episodes, dtype=np.int64), [len(turn_rewards) for turn_rewards in rewards])
    )


def random_turns(seed, seats=2, games=6):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 5)).tolist() for _ in range(seats * games)]
    episodes, seat_indices = np.divmod(np.arange(seats * games), seats)
    return rounds(rewards, episodes, seat_indices.tolist(), (episodes // 3).tolist())


def advantages_by_loops(turns, beta, gamma, baseline, extra_discount):
    # e, f: episodes; s, q: seats; t, u: turn indices
    rows = {
        (e, s, t): row for row, (e, s, t) in enumerate(zip(turns.episode, turns.seat, turns.turn_index, strict=True))
    }
    returns = np.zeros(len(rows))
    for (e, s, t), row in sorted(rows.items(), reverse=True):
        returns[row] = turns.reward[row] + gamma * (returns[rows[e, s, t + 1]] if (e, s, t + 1) in rows else 0.0)
    seat_advantages = np.zeros(len(rows))
    for (e, s, t), row in rows.items():
        baseline_turn = t if baseline == "turn" else 0
        returns_of_peers = [
            returns[other_row]
            for (f, q, u), other_row in rows.items()
            if f != e and q == s and u == baseline_turn and turns.group[other_row] == turns.group[row]
        ]
        seat_advantages[row] = returns[row] - (
            np.mean(returns_of_peers) if returns_of_peers else returns[rows[e, s, baseline_turn]]
        )
    advantages = np.zeros(len(rows))
    for (e, s, t), row in rows.items():
        past_advantages = sum(gamma ** (t - k) * seat_advantages[rows[e, s, k]] for k in range(t)) * (
            gamma if extra_discount else 1.0
        )
        advantages[row] = seat_advantages[row] + beta * past_advantages * sum(
            seat_advantages[other_row] for (f, q, u), other_row in rows.items() if f == e and q != s and u == t
        )
    return advantages


def test_golden():
    seat_advantages, opponent_advantages = np.array([1.0, 0.0, -1.0]), np.array([0.0, 1.0, 2.0])
    episode = np.zeros(3, dtype=np.int64)
    assert align_advantages(seat_advantages, opponent_advantages, episode, beta=0.5, gamma=0.9) == pytest.approx(
        [1.0, 0.45, -0.19]
    )
    assert align_advantages(
        seat_advantages, opponent_advantages, episode, beta=0.5, gamma=0.9, extra_discount=True
    ) == pytest.approx([1.0, 0.405, -0.271])


def test_by_hand_two_games_of_two_rounds():
    """In game 0 seat 0 has the returns to go 3 and 1, seat 1 has 2 and 2; in game 1 all are 0.

    The second round of game 0 has the advantages 1 + .5 * 3 * 2 and 2 + .5 * 2 * 1.
    """
    turns = rounds([[2.0, 1.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]], [0, 0, 1, 1], [0, 1, 0, 1], [0] * 4)
    credit = advantage_alignment(turns, gamma=1.0)
    assert credit.advantages == pytest.approx([3.0, 4.0, 2.0, 3.0, -3.0, 2.0, -2.0, -1.0])


@given(
    st.integers(0, 500),
    st.integers(1, 3),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from(["turn", "start"]),
    st.booleans(),
)
def test_equals_plain_loops(seed, seats, gamma, baseline, extra):
    turns = random_turns(seed, seats)
    variant = "as_released" if extra else "paper"
    credit = advantage_alignment(turns, beta=0.7, gamma=gamma, baseline=baseline, variant=variant)
    assert credit.advantages == pytest.approx(advantages_by_loops(turns, 0.7, gamma, baseline, extra), abs=1e-9)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=6), st.sampled_from(["turn", "start"]))
def test_games_of_one_turn_are_rloo_and_so_is_the_first_turn(rewards, baseline):
    turns = table([[reward] for reward in rewards], groups=[0] * len(rewards))
    assert advantage_alignment(turns, baseline=baseline).advantages == pytest.approx(rloo(turns).advantages, abs=1e-9)


@given(st.integers(0, 500))
def test_opponents_change_advantages_only_if_beta_is_above_0(seed):
    turns = random_turns(seed)
    without_beta = advantage_alignment(turns, beta=0.0).advantages
    without_opponents = dataclasses.replace(turns, episode=turns.trajectory)
    assert advantage_alignment(without_opponents).advantages == pytest.approx(without_beta)
    is_first_turn = turns.turn_index == 0
    assert advantage_alignment(turns).advantages[is_first_turn] == pytest.approx(without_beta[is_first_turn])


def test_equal_rewards_and_a_group_of_one_give_zero():
    equal_turns = rounds([[1e6, 1e6]] * 4, [0, 0, 1, 1], [0, 1, 0, 1], [0] * 4)
    assert advantage_alignment(equal_turns).advantages == pytest.approx([0.0] * 8, abs=1e-6)
    assert advantage_alignment(table([[1.0, 2.0]])).advantages.tolist() == [0.0, 0.0]
