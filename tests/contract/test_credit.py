"""The contract of advantage estimators, for every file in the slot."""

import dataclasses
import inspect
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.testing import check_estimator, random_table
from sparring.testing.estimators import check_estimator_on, check_state
from tests.cases import every_case

NAMES = registry.names("credit")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), max_size=12), seed=st.integers(0, 10**6), trials=st.booleans())
def test_credit_is_finite_and_deterministic_and_keeps_its_inputs(name, lengths, seed, trials):
    for estimate in estimates(name):
        check_estimator_on(estimate, random_table(lengths, seed, trials=trials), {})


@pytest.mark.parametrize("name", NAMES)
def test_the_public_check_passes(name):
    for preset in (None, *registry.load("credit", name).presets):
        check_estimator(registry.bind("credit", name, preset=preset), tables=15)


def estimates(name):
    """Return the plug-in with each preset, except presets that need candidates of a prompt."""
    estimators = [
        registry.bind("credit", name, preset=preset) for preset in (None, *registry.load("credit", name).presets)
    ]
    return [estimate for estimate in estimators if "candidates" not in registry.required_services(estimate)]


@every_case("name", NAMES)
def test_running_state_survives_json_and_is_never_changed_in_place(name):
    for estimate in estimates(name):
        state = estimate(random_table([2, 1, 3, 1], 0), {}).state
        state_json = json.dumps(state)
        check_state(estimate, random_table([1, 2, 1, 2], 1), state)
        assert json.dumps(state) == state_json


@every_case("name", NAMES)
def test_an_estimator_without_state_returns_its_state_unchanged(name):
    for estimate in estimates(name):
        takes_state = "state" in inspect.signature(estimate.plugin.function).parameters
        assert takes_state or estimate(random_table([2, 1], 0), {"kept": 1}).state == {"kept": 1}


def tokens_of(turns, rows):
    first_token = np.cumsum(turns.n_tokens) - turns.n_tokens
    return [token for row in rows for token in range(first_token[row], first_token[row] + turns.n_tokens[row])]


def with_permuted_trajectories(turns, order):
    """Return the table with reordered trajectories."""
    rows = np.concatenate([np.flatnonzero(turns.trajectory == trajectory) for trajectory in order])
    columns = {field.name: getattr(turns, field.name) for field in dataclasses.fields(turns)}
    tokens = tokens_of(turns, rows)
    arrays = {name: column for name, column in columns.items() if isinstance(column, np.ndarray)}
    columns_moved = {name: column[tokens if name == "token_value" else rows] for name, column in arrays.items()}
    columns_moved["components"] = {name: column[rows] for name, column in turns.components.items()}
    new_index = np.empty(len(order), dtype=np.int64)
    new_index[order] = np.arange(len(order))
    return dataclasses.replace(turns, **{**columns_moved, "trajectory": new_index[columns_moved["trajectory"]]}), rows


@every_case("name", NAMES, parts=5)
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=10), seed=st.integers(0, 10**6), data=st.data())
def test_without_a_running_state_the_order_of_trajectories_does_not_matter(name, lengths, seed, data):
    order = np.array(data.draw(st.permutations(range(len(lengths)))))
    turns = random_table(lengths, seed)
    permuted_turns, rows = with_permuted_trajectories(turns, order)
    for estimate in estimates(name):
        credit, permuted_credit = estimate(turns, {}), estimate(permuted_turns, {})
        if credit.state:
            continue
        rows_of_credit = rows if credit.level == "turn" else tokens_of(turns, rows)
        assert permuted_credit.advantages == pytest.approx(credit.advantages[rows_of_credit], abs=1e-6)


@every_case("name", NAMES)
def test_advantages_of_extreme_rewards_are_finite(name):
    turns = random_table([3, 1, 2, 1, 1, 4], 0)
    for reward in (np.zeros(12), np.full(12, 0.1), turns.reward + 1e6, turns.reward * 1e-9):
        for estimate in estimates(name):
            credit = estimate(dataclasses.replace(turns, reward=reward), {})
            assert np.isfinite(credit.advantages).all()
