"""VinePPO: differences of values by playing on, whitened over tokens."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.config import resolve
from sparring.core.errors import ConfigError, MissingError
from sparring.methods.credit.vine_ppo import vine_ppo
from sparring.ops.standardise import whitened

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)
PLAYS = st.lists(st.lists(st.tuples(EIGHTHS, EIGHTHS, EIGHTHS, EIGHTHS), min_size=1, max_size=4), min_size=1, max_size=6)


def valued(paid, before, after, shaping=None, **more):
    """A table of game payoffs, with values of whole games before and after every turn."""
    turns = table(paid, **more)
    other = np.zeros(len(turns.reward)) if shaping is None else np.array(shaping)
    components = {"game": turns.reward, "best_action": other}
    return replace(turns, reward=turns.reward + other, components=components, playout_before=np.array(before), playout=np.array(after))


def test_by_hand():
    # two plays that are paid at their ends: 1 and 0; V of the start is 1/2, after the first turns 3/4 and 1/4
    turns = valued([[0.0, 1.0], [0.0, 0.0]], [0.5, 0.75, 0.5, 0.25], [0.75, 1.0, 0.25, 0.0])
    assert vine_ppo(turns, whiten=False).advantages.tolist() == [0.25, 0.25, -0.25, -0.25]
    # to go: V(s') is 3/4, 0, 1/4, 0 and V(s) is 1/2, 3/4, 1/2, 1/4
    assert vine_ppo(turns, gamma=0.5, whiten=False).advantages.tolist() == [-0.125, 0.25, -0.375, -0.25]


def test_whitening_counts_a_turn_once_per_token():
    turns = valued([[0.0, 1.0], [0.0]], [0.5, 0.75, 0.5], [0.75, 1.0, 0.0], tokens=[1, 3, 2])
    raw = np.repeat(vine_ppo(turns, whiten=False).advantages, [1, 3, 2])
    found = np.repeat(vine_ppo(turns).advantages, [1, 3, 2])
    assert found == pytest.approx((raw - raw.mean()) / raw.std(ddof=1), abs=1e-6)


@given(PLAYS, st.sampled_from([0.0, 0.5, 1.0]))
def test_by_definition(plays, gamma):
    paid = [[one[0] for one in play] for play in plays]
    flat = [one for play in plays for one in play]
    turns = valued(paid, [one[1] for one in flat], [one[2] for one in flat], [one[3] for one in flat])
    wanted = []
    for play in plays:
        so_far = 0.0
        for pay, before, after, shaping in play:
            wanted.append(pay + shaping + gamma * (after - so_far - pay) - (before - so_far))
            so_far += pay
    assert vine_ppo(turns, gamma=gamma, whiten=False).advantages == pytest.approx(wanted, abs=1e-9)


def test_equal_differences_are_zero_and_not_rounding():
    turns = valued([[0.0], [0.0]], [0.1, 0.3], [0.3, 0.5])
    assert vine_ppo(turns).advantages.tolist() == [0.0, 0.0]
    assert whitened(np.array([1.0]), np.array([1.0]), 1.0).tolist() == [0.0]


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({}, MissingError, "rollout.playouts: 4"),
        ({"rollout": {"playouts": 2}, "outcome_weight": 0.5}, ConfigError, "outcome_weight"),
        ({"rollout": {"playouts": 2}, "environments": [{"name": "kuhn_poker", "scale": 2.0}]}, ConfigError, "the scale of 'kuhn_poker'"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(changes, error, said):
    with pytest.raises(error, match=said):
        resolve({"environments": [{"name": "kuhn_poker"}], "credit": {"name": "vine_ppo"}, **changes})
