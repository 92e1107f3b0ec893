import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.spae import potential, spae


def probed(outcome, accuracy, confidence, *, names=("best_action", "sure"), **others):
    """Return a table with these outcomes, and probed accuracies and confidences, per trajectory and turn."""
    turns = table(outcome, **others)
    right, sure = (np.array([value for own in column for value in own], dtype=np.float64) for column in (accuracy, confidence))
    parts = {"game": turns.reward, names[0]: right, names[1]: sure}
    return dataclasses.replace(turns, reward=turns.reward + right + sure, components=parts)


def test_golden_potential():
    accuracy, confidence = np.array([1.0, 0, 0, 1]), np.array([1.0, 1, 0, 0])
    assert potential(accuracy, confidence) == pytest.approx([1, -1, 0, 0.5])


# potentials 0.5, 1, -1 and -1; outcomes 1 and 0
HAND = {"outcome": [[0.0, 0.0, 1.0], [0.0]], "accuracy": [[1, 1, 0], [0]], "confidence": [[0, 1, 1], [1]], "groups": [0, 0]}


def test_by_hand():
    turns = probed(**HAND)
    gains = np.array([0.5, 0.5, -2.0, -1.0])
    options = {"confidence": "sure", "divide_by_std": False}
    # after the second turn's potential of 1 the outcome counts half
    assert spae(turns, **options).advantages == pytest.approx(gains + np.array([0.5, 0.5, 0.25, -0.5]))
    assert spae(turns, **options, weight=0.2, reduction=0.0).advantages == pytest.approx(0.2 * gains + np.array([0.5, 0.5, 0, -0.5]))
    assert spae(turns, **options, saturation=1.0).advantages == pytest.approx(gains + np.array([0.5, 0.5, 0.5, -0.5]))
    assert spae(turns, **options, saturation=0.4).advantages == pytest.approx(gains + np.array([0.5, 0.25, 0.25, -0.5]))
    divided = spae(turns, confidence="sure").advantages
    assert divided == pytest.approx(gains + np.array([1, 1, 0.5, -1]) / 2**0.5, abs=1e-5)
    assert spae(turns, confidence="sure", epsilon=1e9).advantages == pytest.approx(gains, abs=1e-8)


def test_names_of_components_are_options():
    turns = probed(**HAND, names=("right", "certain"))
    same = spae(probed(**HAND), confidence="sure").advantages
    assert np.array_equal(spae(turns, accuracy="right", confidence="certain").advantages, same)


def test_without_a_probe_confidence_is_the_replys_own_probability_per_token():
    turns = table([[0.5, 1.0, 1.0]], tokens=[2, 1, 0])
    turns = dataclasses.replace(turns, components={"best_action": turns.reward}, logprob=np.log([0.25, 0.8, 0.1]))
    phi = potential(np.array([0.5, 1.0, 1.0]), np.array([0.5, 0.8, 1.0]))
    assert spae(turns).advantages == pytest.approx(np.diff(phi, prepend=0.0))


def test_the_probe_is_no_part_of_the_return_either_way():
    turns = table([[1.5], [0.25]], groups=[0, 0], tokens=[1, 1])
    turns = dataclasses.replace(turns, components={"best_action": np.array([0.5, 0.25])}, logprob=np.zeros(2))
    assert spae(turns, weight=0.0, divide_by_std=False).advantages == pytest.approx([0.5, -0.5])


@given(outcomes=st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=6))
def test_without_weight_and_reduction_it_is_grpo_of_what_the_probes_leave(outcomes):
    ones = [[1.0] * len(own) for own in outcomes]
    groups = [0] * len(outcomes)
    expected = grpo(table(outcomes, groups=groups)).advantages
    found = spae(probed(outcomes, ones, ones, groups=groups), confidence="sure", weight=0.0, reduction=1.0).advantages
    assert found == pytest.approx(expected, abs=1e-5)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), saturation=st.floats(-0.5, 1.0), reduction=st.floats(0, 1))
def test_it_equals_plain_loops_and_gains_add_up_to_the_last_potential(seed, saturation, reduction):
    generator = np.random.Generator(np.random.Philox(seed))
    lengths = generator.integers(1, 5, 7)
    columns = [[generator.random(length).tolist() for length in lengths] for _ in range(3)]
    groups = generator.integers(0, 2, 7)
    turns = probed(*columns, groups=groups)
    plain = grpo(table(columns[0], groups=groups), divide_by_std=False).advantages
    expected, row = [], 0
    for accuracies, confidences in zip(*columns[1:], strict=True):
        before, high = 0.0, False
        for right, sure in zip(accuracies, confidences, strict=True):
            phi = 1.5 * right * sure + 0.5 * right - sure
            expected.append((reduction if high else 1.0) * plain[row] + 2.0 * (phi - before))
            before, high, row = phi, high or phi > saturation, row + 1
    options = {"confidence": "sure", "divide_by_std": False, "saturation": saturation, "reduction": reduction}
    assert spae(turns, weight=2.0, **options).advantages == pytest.approx(expected, abs=1e-9)
    gains = spae(turns, **options).advantages - spae(turns, **options, weight=0.0).advantages
    sums = np.bincount(turns.trajectory, weights=gains)
    last = turns.done
    assert sums == pytest.approx(potential(turns.components["best_action"][last], turns.components["sure"][last]), abs=1e-9)


def test_hard_tables():
    assert spae(probed([], [], []), confidence="sure").advantages.shape == (0,)
    alone = spae(probed([[1e6]], [[1.0]], [[1.0]]), confidence="sure")
    assert alone.advantages == pytest.approx([1.0])
    equal = probed([[1e6 + 0.1]] * 5, [[0.0]] * 5, [[0.0]] * 5, groups=[0] * 5)
    assert spae(equal, confidence="sure").advantages == pytest.approx(np.zeros(5), abs=1e-3)
