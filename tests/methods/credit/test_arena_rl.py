import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.arena_rl import arena_rl
from sparring.ops.tournaments import tournament_ranks

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)
SCHEMES = ["anchor", "round_robin", "swiss", "single_elimination", "double_elimination"]
CONSISTENT = [scheme for scheme in SCHEMES if scheme != "swiss"]
preference = bind("credit", "arena_rl", preset="minimax_preference")


def group(returns):
    return table([[value] for value in returns], groups=[0] * len(returns))


@pytest.mark.parametrize("scheme", CONSISTENT)
def test_golden(scheme):
    placed = arena_rl(group([7, 9, -1, 3]), scheme=scheme, divide_by_std=False).advantages
    assert placed + 0.5 == pytest.approx([2 / 3, 1, 0, 1 / 3])
    assert arena_rl(group([7, 9, -1, 3]), scheme=scheme).advantages == pytest.approx([0.387, 1.162, -1.162, -0.387], abs=1e-3)


def test_by_hand_swiss():
    # 9 beats 3, 7 beats -1; 9 beats 7, 3 beats -1: points 2, 1, 1, 0 and equal Buchholz of the middle two
    placed = arena_rl(group([7, 9, -1, 3]), scheme="swiss", divide_by_std=False).advantages
    assert placed == pytest.approx([0, 0.5, -0.5, 0])


@given(st.lists(EIGHTHS, min_size=2, max_size=9), st.sampled_from(CONSISTENT))
def test_all_schemes_but_swiss_equal_a_naive_count_of_wins(returns, scheme):
    n = len(returns)
    wins = [sum((a > b) + 0.5 * (a == b) for b in returns) - 0.5 for a in returns]
    placed = arena_rl(group(returns), scheme=scheme, divide_by_std=False).advantages
    assert placed == pytest.approx(np.array(wins) / (n - 1) - 0.5, abs=1e-9)


@given(st.lists(EIGHTHS, min_size=2, max_size=9))
def test_minimax_preference_is_the_share_of_wins_less_a_half(returns):
    wins = [sum((a > b) + 0.5 * (a == b) for b in returns) - 0.5 for a in returns]
    assert preference(group(returns), {}).advantages == pytest.approx(np.array(wins) / (len(returns) - 1) - 0.5, abs=1e-9)


@given(st.lists(EIGHTHS, min_size=2, max_size=9), st.sampled_from(SCHEMES))
def test_only_the_order_counts_and_who_is_better_never_gets_less(returns, scheme):
    advantages = arena_rl(group(returns), scheme=scheme).advantages
    assert arena_rl(group([value**3 + 5 for value in returns]), scheme=scheme).advantages == pytest.approx(advantages, abs=1e-12)
    for a, first in zip(returns, advantages, strict=True):
        for b, second in zip(returns, advantages, strict=True):
            assert a != b or first == pytest.approx(second, abs=1e-9)
            assert scheme == "swiss" or a <= b or first > second


@given(st.lists(EIGHTHS, min_size=2, max_size=9, unique=True))
def test_swiss_equals_the_tournament_of_the_sorted_returns(returns):
    ordered = np.sort(returns)[::-1]
    ranks = tournament_ranks("swiss", np.repeat(ordered[:, None], len(returns), axis=1))
    by_return = dict(zip(ordered.tolist(), (1 - ranks / (len(returns) - 1)).tolist(), strict=True))
    expected = np.array([by_return[value] for value in returns])
    assert arena_rl(group(returns), scheme="swiss", divide_by_std=False).advantages == pytest.approx(expected - expected.mean())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_groups_of_many_sizes_at_once_are_as_each_alone(scheme):
    groups = [[3, 1], [5], [2, 2, 9], [1, 1, 1, 1], [4, 8], [9, 1, 5, 5, 2]]
    turns = table([[v] for g in groups for v in g], groups=[i for i, g in enumerate(groups) for _ in g])
    alone = [arena_rl(group(g), scheme=scheme).advantages for g in groups]
    assert arena_rl(turns, scheme=scheme).advantages == pytest.approx(np.concatenate(alone), abs=1e-12)


def test_large_groups():
    returns = np.random.Generator(np.random.Philox(0)).permutation(80).astype(float)
    placed = arena_rl(group(returns), divide_by_std=False).advantages
    assert placed == pytest.approx(returns / 79 - 0.5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_hard_inputs(scheme):
    assert arena_rl(group([7.0]), scheme=scheme).advantages.tolist() == [0.0]
    assert arena_rl(table([]), scheme=scheme).advantages.shape == (0,)
    assert arena_rl(group([0.1] * 7), scheme=scheme).advantages == pytest.approx(np.zeros(7), abs=1e-12)
    assert arena_rl(group([0.1 + 0.2, 0.3]), scheme=scheme).advantages.tolist() == [0.0, 0.0]
    assert arena_rl(group([1e6 + 1, 1e6 + 3]), scheme=scheme, divide_by_std=False).advantages.tolist() == [-0.5, 0.5]


def test_roles_turns_epsilon_and_state():
    turns = table([[1.0, 1.0], [1.0], [0.0], [9.0]], seats=[0, 1, 0, 1], groups=[0] * 4)
    credit = arena_rl(turns, epsilon=2**-0.5)
    assert credit.advantages == pytest.approx(np.array([1, 1, -1, -1, 1]) / 8**0.5)
