"""What every advantage estimator must hold, for every file found in the slot."""

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
def test_shapes_finite_deterministic_and_nothing_changed(name, lengths, seed, trials):
    for estimate in estimates(name):
        check_estimator_on(estimate, random_table(lengths, seed, trials=trials), {})


@pytest.mark.parametrize("name", NAMES)
def test_the_public_check_passes(name):
    for preset in (None, *registry.load("credit", name).presets):
        check_estimator(registry.bind("credit", name, preset=preset), tables=15)


def estimates(name):
    """Return the plug-in and its presets, without those that compare replies to one prompt: their tables have other rows (test_vpr)."""
    bound = [registry.bind("credit", name, preset=preset) for preset in (None, *registry.load("credit", name).presets)]
    return [estimate for estimate in bound if "candidates" not in registry.required_services(estimate)]


@every_case("name", NAMES)
def test_running_state_survives_json_and_is_never_changed_in_place(name):
    for estimate in estimates(name):
        state = estimate(random_table([2, 1, 3, 1], 0), {}).state
        saved = json.dumps(state)
        check_state(estimate, random_table([1, 2, 1, 2], 1), state)
        assert json.dumps(state) == saved


@every_case("name", NAMES)
def test_a_state_passes_through_those_that_have_none(name):
    for estimate in estimates(name):
        named = "state" in inspect.signature(estimate.plugin.function).parameters
        assert named or estimate(random_table([2, 1], 0), {"kept": 1}).state == {"kept": 1}


def tokens_of(turns, rows):
    begin = np.cumsum(turns.n_tokens) - turns.n_tokens
    return [token for row in rows for token in range(begin[row], begin[row] + turns.n_tokens[row])]


def permuted(turns, order):
    """Return the table with its trajectories in another order."""
    rows = np.concatenate([np.flatnonzero(turns.trajectory == old) for old in order])
    columns = {field.name: getattr(turns, field.name) for field in dataclasses.fields(turns)}
    tokens = tokens_of(turns, rows)
    arrays = {name: column for name, column in columns.items() if isinstance(column, np.ndarray)}
    moved = {name: column[tokens if name == "token_value" else rows] for name, column in arrays.items()}
    moved["components"] = {name: column[rows] for name, column in turns.components.items()}
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return dataclasses.replace(turns, **{**moved, "trajectory": number[moved["trajectory"]]}), rows


@every_case("name", NAMES, parts=5)
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=10), seed=st.integers(0, 10**6), data=st.data())
def test_the_order_of_trajectories_is_irrelevant_unless_there_is_a_running_state(name, lengths, seed, data):
    order = np.array(data.draw(st.permutations(range(len(lengths)))))
    turns = random_table(lengths, seed)
    moved, rows = permuted(turns, order)
    for estimate in estimates(name):
        credit, again = estimate(turns, {}), estimate(moved, {})
        if credit.state:
            continue
        moved_to = rows if credit.level == "turn" else tokens_of(turns, rows)
        assert again.advantages == pytest.approx(credit.advantages[moved_to], abs=1e-6)


@every_case("name", NAMES)
def test_hard_tables_stay_finite(name):
    plain = random_table([3, 1, 2, 1, 1, 4], 0)
    for reward in (np.zeros(12), np.full(12, 0.1), plain.reward + 1e6, plain.reward * 1e-9):
        for estimate in estimates(name):
            credit = estimate(dataclasses.replace(plain, reward=reward), {})
            assert np.isfinite(credit.advantages).all()
