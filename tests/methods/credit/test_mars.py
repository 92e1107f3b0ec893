import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.mars import mars


def test_by_hand():
    # seat 0: turn returns 3, 2, -1, mean 4/3; seat 1: -3, 1, 0.5, 0.5, mean -0.25
    expected = [3 - 4 / 3, 2 - 4 / 3, -2.75, -1 - 4 / 3, 1.25, 0.75, 0.75]
    assert mars(table(**BY_HAND)).advantages == pytest.approx(expected)


def test_by_hand_discounted():
    turns = table([[1.0, 2.0, 4.0], [0.0]])
    # returns 1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4, 0
    returns = np.array([3.0, 4.0, 4.0, 0.0])
    assert mars(turns, gamma=0.5).advantages == pytest.approx(returns - returns.mean())


def test_without_turn_level_credit_every_turn_gets_its_trajectorys_return():
    # returns of trajectories: seat 0: 3 and -1, mean 1; seat 1: -3 and 1, mean -1
    expected = [2, 2, -2, -2, 2, 2, 2]
    assert bind("credit", "mars", preset="no_turn_level")(table(**BY_HAND), {}).advantages == pytest.approx(expected)


def test_without_agent_specific_normalisation_the_mean_is_over_all_roles():
    expected = np.array([3, 2, -3, -1, 1, 0.5, 0.5])
    advantages = bind("credit", "mars", preset="no_agent_specific")(table(**BY_HAND), {}).advantages
    assert advantages == pytest.approx(expected - expected.mean())


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_on_games_of_one_turn_mars_is_dr_grpo_over_the_role(returns):
    turns = table([[value] for value in returns], groups=[0] * len(returns))
    grpo_advantages = grpo(turns, divide_by_std=False).advantages
    assert mars(turns).advantages == pytest.approx(grpo_advantages, abs=1e-9)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=2, max_size=6))
def test_each_role_is_centred(rewards):
    seats = [index % 2 for index in range(len(rewards))]
    turns = table(rewards, seats=seats)
    advantages = mars(turns).advantages
    for seat in (0, 1):
        assert advantages[turns.seat == seat].mean() == pytest.approx(0, abs=1e-9)


def test_scale_std_gives_each_role_deviation_one():
    turns = table([[4.0], [0.0], [2.0], [100.0], [300.0]], seats=[0, 0, 0, 1, 1])
    advantages = mars(turns, scale="std").advantages
    assert advantages[:3].std(ddof=1) == pytest.approx(1, abs=1e-5)
    assert advantages[3:].std(ddof=1) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(advantages, mars(turns).advantages)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=6), st.floats(-1e6, 1e6))
def test_a_constant_added_to_all_outcomes_changes_nothing(rewards, shift):
    shifted_rewards = [[*turns[:-1], turns[-1] + shift] for turns in rewards]
    assert mars(table(shifted_rewards)).advantages == pytest.approx(mars(table(rewards)).advantages, abs=1e-6)


def test_baselines_belong_to_roles_and_not_to_seats():
    turns = table([[1.0], [10.0], [3.0], [30.0]], seats=[0, 1, 1, 0], roles=[0, 1, 0, 1])
    assert mars(turns).advantages == pytest.approx([-1.0, -10.0, 1.0, 10.0])


def test_a_single_turn():
    for scale in ("none", "std"):
        assert mars(table([[5.0]]), scale=scale).advantages.tolist() == [0.0]


def test_games_have_separate_baselines():
    assert mars(table([[1.0], [1000.0]], games=[0, 1])).advantages.tolist() == [0.0, 0.0]


def advantages_as_released(trajectories, seats, tokens, gamma, games=None):
    players = list(zip(games or [0] * len(seats), seats, strict=True))
    per_player = {}
    for rewards, player in zip(trajectories, players, strict=True):
        per_player.setdefault(player, []).extend(rewards)
    means = {player: sum(values) / len(values) for player, values in per_player.items()}
    streams, number = [], 0
    for rewards, player in zip(trajectories, players, strict=True):
        stream = []
        for reward in rewards:
            if tokens[number]:  # a turn without tokens has no token for its reward
                stream += [0.0] * (tokens[number] - 1) + [reward - means[player]]
            number += 1
        streams.append(stream)

    def whiten(lists):
        flat_values = [value for values in lists for value in values]
        mean = sum(flat_values) / len(flat_values)
        variance = sum((value - mean) ** 2 for value in flat_values) / (len(flat_values) - 1)
        return [[(value - mean) / (variance + 1e-8) ** 0.5 for value in values] for values in lists]

    returns_by_trajectory = []
    for values in whiten(streams):
        running_return, returns_to_go = 0.0, []
        for value in reversed(values):
            running_return = value + gamma * running_return
            returns_to_go.append(running_return)
        returns_by_trajectory.append(returns_to_go[::-1])
    for seat in set(seats):
        distinct_values = {
            round(value, 9)
            for values, player_seat in zip(returns_by_trajectory, seats, strict=True)
            if player_seat == seat
            for value in values
        } | {0.0}
        mean = sum(distinct_values) / len(distinct_values)
        returns_by_trajectory = [
            [v - mean for v in values] if player_seat == seat else values
            for values, player_seat in zip(returns_by_trajectory, seats, strict=True)
        ]
    return [value for values in whiten(returns_by_trajectory) for value in values]


@given(st.integers(0, 500), st.sampled_from([1.0, 0.9]))
def test_as_released_equals_an_independent_derivation(seed, gamma):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 4)).tolist() for _ in range(6)]
    tokens = generator.integers(1, 4, sum(map(len, rewards)))
    seats = [0, 1] * 3
    credit = bind("credit", "mars", {"gamma": gamma}, preset="as_released")(
        table(rewards, seats=seats, tokens=tokens), {}
    )
    assert credit.level == "token"
    assert credit.advantages == pytest.approx(advantages_as_released(rewards, seats, tokens, gamma), abs=1e-7)


def test_as_released_games_are_normalised_separately_then_jointly():
    rewards, seats, games = [[0.0, 1.0], [-1.0], [5.0], [0.05, 0.05, -9.0], [7.0]], [0, 1, 0, 1, 0], [0, 0, 1, 1, 1]
    tokens = [3, 2, 4, 1, 2, 5, 2, 3]
    turns = table(rewards, seats=seats, games=games, tokens=tokens, roles=[1, 0, 1, 0, 1])
    expected = advantages_as_released(rewards, seats, tokens, 1.0, games)
    assert mars(turns, variant="as_released").advantages == pytest.approx(expected, abs=1e-9)
    assert expected != pytest.approx(advantages_as_released(rewards, seats, tokens, 1.0), abs=1e-2)


def test_the_released_mean_counts_each_distinct_value_once():
    # nine of the ten tokens of seat 0 have equal values, so the mean is over two distinct values
    rewards, seats, tokens = [[1.0]] * 9 + [[-1.0]], [0] * 10, [1] * 10
    advantages = mars(table(rewards, seats=seats, tokens=tokens), variant="as_released").advantages
    assert advantages == pytest.approx(advantages_as_released(rewards, seats, tokens, 1.0), abs=1e-9)


def test_as_released_values_equal_up_to_rounding_count_as_one():
    # both trajectories have the rewards 0.1, 0.2 and 0.3; the two orders give sums that differ in the last digit
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    rewards, seats, tokens = [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [1.0]], [0, 0, 0], [1] * 7
    advantages = mars(table(rewards, seats=seats, tokens=tokens), variant="as_released").advantages
    reordered_advantages = mars(table(rewards[::-1], seats=seats, tokens=tokens), variant="as_released").advantages
    assert advantages[0] == pytest.approx(advantages[3], abs=1e-12)
    assert advantages == pytest.approx(advantages_as_released(rewards, seats, tokens, 1.0), abs=1e-8)
    assert advantages == pytest.approx(reordered_advantages[[4, 5, 6, 1, 2, 3, 0]], abs=1e-9)


def test_the_released_variant_handles_degenerate_batches():
    assert mars(table([[1.0]], tokens=[1]), variant="as_released").advantages.tolist() == [0.0]
    assert mars(table([]), variant="as_released").advantages.shape == (0,)
    rewards, tokens = [[1.0, 5.0], [2.0]], [2, 0, 3]
    advantages = mars(table(rewards, tokens=tokens), variant="as_released").advantages
    assert advantages == pytest.approx(advantages_as_released(rewards, [0, 0], tokens, 1.0), abs=1e-9)
    assert mars(table([[0.3]] * 5), variant="as_released").advantages == pytest.approx(np.zeros(10), abs=1e-3)
