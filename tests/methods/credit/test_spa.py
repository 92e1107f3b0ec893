import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.mars import mars
from sparring.methods.credit.spa import spa


def judged(rewards, contributions, **options):
    return dataclasses.replace(table(rewards, **options), value_after=np.array(contributions, dtype=np.float64))


def random_turns(seed):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 5)).tolist() for _ in range(6)]
    turns = judged(rewards, generator.normal(size=sum(map(len, rewards))), groups=[0, 0, 0, 1, 1, 2])
    return dataclasses.replace(turns, legal=generator.random(len(turns.reward)) < 0.7)


def test_by_hand():
    """Contributions .2 and .5 of a return of 1: .3 are missing from each target. The second turn was illegal."""
    turns = dataclasses.replace(judged([[0.0, 1.0]], [0.2, 0.5]), legal=np.array([True, False]))
    credit = spa(turns)
    assert credit.advantages == pytest.approx([1.2, 0.5])
    assert credit.value_targets == pytest.approx([0.5, 0.8])
    assert credit.metrics == {"attribution_error": pytest.approx(0.3)}


@given(st.integers(0, 500))
def test_the_fits_gradient_is_that_of_the_squared_error_of_the_sum(seed):
    """With c = features @ weights; the derivative of sum over trajectories of (sum c - R)^2 / 2, by differences."""
    turns = random_turns(seed)
    generator = np.random.Generator(np.random.Philox(seed + 1))
    features, weights = generator.normal(size=(len(turns.reward), 3)), generator.normal(size=3)
    count = turns.trajectory[-1] + 1

    def loss(at):
        gap = np.bincount(turns.trajectory, weights=features @ at - turns.reward, minlength=count)
        return (gap**2).sum() / 2

    wanted = [(loss(weights + step) - loss(weights - step)) / 2e-4 for step in 1e-4 * np.eye(3)]
    targets = spa(dataclasses.replace(turns, value_after=features @ weights)).value_targets
    assert (features @ weights - targets) @ features == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@given(st.integers(0, 500), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.5]), st.booleans())
def test_equals_plain_loops(seed, gamma, grounding, with_baseline):
    turns = random_turns(seed)
    rows = [np.flatnonzero(turns.trajectory == number) for number in range(6)]
    step = [c + (grounding if legal else 0.0) for c, legal in zip(turns.value_after, turns.legal, strict=True)]
    totals = [sum(step[row] for row in own) for own in rows]
    expected = []
    for number, own in enumerate(rows):
        others = [totals[j] for j in range(6) if j != number and turns.group[rows[j][0]] == turns.group[own[0]]]
        base = (np.mean(others) if others else totals[number]) if with_baseline else 0.0
        expected += [sum(gamma ** (k - t) * step[k] for k in own if k >= t) - base for t in own]
    credit = spa(turns, gamma=gamma, grounding=grounding, baseline="group" if with_baseline else "none")
    assert credit.advantages == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 500))
def test_a_head_that_says_the_rewards_gives_returns_to_go_and_stays(seed):
    turns = random_turns(seed)
    turns = dataclasses.replace(turns, value_after=turns.reward)
    credit = spa(turns, grounding=0.0)
    assert credit.advantages - credit.advantages.mean() == pytest.approx(mars(turns).advantages, abs=1e-9)
    assert credit.value_targets == pytest.approx(turns.reward)


def test_all_equal_one_member_offsets_and_no_turns():
    assert spa(judged([[1.0], [1.0]], [0.5, 0.5], groups=[0, 0]), baseline="group").advantages.tolist() == [0.0, 0.0]
    assert spa(judged([[1.0]], [0.5]), baseline="group").advantages.tolist() == [0.0]
    far = spa(judged([[0.0, 1e6]], [1e6, 1.0]), grounding=0.0)
    assert far.advantages == pytest.approx([1e6 + 1, 1.0])
    assert far.value_targets == pytest.approx([1e6 - 1, 0.0])
    empty = spa(judged([], []), baseline="group")
    assert empty.advantages.shape == empty.value_targets.shape == (0,)
