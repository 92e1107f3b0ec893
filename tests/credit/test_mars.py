import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import BY_HAND, table

from sparring.credit.grpo import grpo
from sparring.credit.mars import mars
from sparring.registry import bind


def test_by_hand():
    # seat 0: turn returns 3, 2, -1, mean 4/3; seat 1: -3, 1, 0.5, 0.5, mean -0.25
    expected = [3 - 4 / 3, 2 - 4 / 3, -2.75, -1 - 4 / 3, 1.25, 0.75, 0.75]
    assert mars(table(**BY_HAND), {}).advantages == pytest.approx(expected)


def test_by_hand_discounted():
    turns = table([[1.0, 2.0, 4.0], [0.0]])
    # returns 1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4, 0
    returns = np.array([3.0, 4.0, 4.0, 0.0])
    assert mars(turns, {}, gamma=0.5).advantages == pytest.approx(returns - returns.mean())


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_on_games_of_one_turn_it_is_dr_grpo_over_the_role(returns):
    turns = table([[value] for value in returns], groups=[0] * len(returns))
    same = grpo(turns, {}, divide_by_std=False).advantages
    assert mars(turns, {}).advantages == pytest.approx(same, abs=1e-9)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=6), st.floats(0.1, 10))
def test_scaling_rewards_scales_advantages(rewards, factor):
    plain = mars(table(rewards), {}).advantages
    scaled = mars(table([[factor * value for value in turns] for turns in rewards]), {}).advantages
    assert scaled == pytest.approx(factor * plain, abs=1e-7)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=2, max_size=6))
def test_each_role_is_centred(rewards):
    seats = [index % 2 for index in range(len(rewards))]
    turns = table(rewards, seats=seats)
    advantages = mars(turns, {}).advantages
    for seat in (0, 1):
        assert advantages[turns.seat == seat].mean() == pytest.approx(0, abs=1e-9)


def test_scale_std_gives_each_role_deviation_one():
    turns = table([[4.0], [0.0], [2.0], [100.0], [300.0]], seats=[0, 0, 0, 1, 1])
    advantages = mars(turns, {}, scale="std").advantages
    assert advantages[:3].std(ddof=1) == pytest.approx(1, abs=1e-5)
    assert advantages[3:].std(ddof=1) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(advantages, mars(turns, {}).advantages)


def test_games_are_kept_apart():
    assert mars(table([[1.0], [1000.0]], games=[0, 1]), {}).advantages.tolist() == [0.0, 0.0]


def test_offset_near_a_million_and_all_equal():
    shifted = mars(table([[1e6 + 1], [1e6 + 3]]), {}).advantages
    assert shifted == pytest.approx([-1, 1], abs=1e-6)
    assert mars(table([[0.1]] * 7), {}).advantages == pytest.approx(np.zeros(7), abs=1e-12)


def released(trajectories, seats, tokens, gamma):
    """The released estimator, re-derived in plain Python from its five steps."""
    per_seat = {}
    for rewards, seat in zip(trajectories, seats, strict=True):
        per_seat.setdefault(seat, []).extend(rewards)
    means = {seat: sum(values) / len(values) for seat, values in per_seat.items()}
    streams, number = [], 0
    for rewards, seat in zip(trajectories, seats, strict=True):
        stream = []
        for reward in rewards:
            stream += [0.0] * (tokens[number] - 1) + [reward - means[seat]]
            number += 1
        streams.append(stream)

    def whiten(lists):
        flat = [value for values in lists for value in values]
        mean = sum(flat) / len(flat)
        variance = sum((value - mean) ** 2 for value in flat) / (len(flat) - 1)
        return [[(value - mean) / (variance + 1e-8) ** 0.5 for value in values] for values in lists]

    summed = []
    for values in whiten(streams):
        running, out = 0.0, []
        for value in reversed(values):
            running = value + gamma * running
            out.append(running)
        summed.append(out[::-1])
    for seat in set(seats):
        distinct = {value for values, own in zip(summed, seats, strict=True) if own == seat for value in values}
        mean = sum(distinct) / len(distinct)
        summed = [[v - mean for v in values] if own == seat else values for values, own in zip(summed, seats, strict=True)]
    return [value for values in whiten(summed) for value in values]


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_as_released_equals_an_independent_derivation(gamma):
    rewards, seats = [[0.05, 1.0], [-1.0], [0.05, 0.05, -1.0], [0.05, 1.0]], [0, 1, 0, 1]
    tokens = [3, 2, 4, 1, 2, 5, 2, 3]
    turns = table(rewards, seats=seats, tokens=tokens)
    credit = bind("credit", "mars", {"gamma": gamma}, preset="as_released")(turns, {})
    assert credit.level == "token"
    assert credit.advantages == pytest.approx(released(rewards, seats, tokens, gamma), abs=1e-9)


def test_as_released_depends_on_the_tokens_that_follow_and_the_paper_does_not():
    rewards, seats = [[0.0, 1.0], [0.0, -1.0]], [0, 0]
    short, long = (table(rewards, seats=seats, tokens=t) for t in ([2, 2, 2, 2], [2, 9, 2, 2]))
    assert mars(short, {}).advantages == pytest.approx(mars(long, {}).advantages)
    first = [mars(turns, {}, variant="as_released").advantages[0] for turns in (short, long)]
    assert abs(first[0] - first[1]) > 0.1
