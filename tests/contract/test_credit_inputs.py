"""What every advantage estimator does with input that is wrong or says nothing: an error that names it, or the documented convention."""

import dataclasses
import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from sparring import registry
from sparring.errors import ConfigError, CreditError

SPEC = importlib.util.spec_from_file_location("contract_of_credit", Path(__file__).parent / "test_credit.py")
contract = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(contract)
NAMES, LENGTHS = contract.NAMES, [2, 3, 1, 2, 2, 1, 3, 2]
CALLS = [(name, preset) for name in NAMES for preset in (None, *registry.load("credit", name).presets)]
OPTIONAL = (
    "action",
    "view",
    "logprob",
    "value",
    "value_after",
    "old_logprob",
    "reference_logprob",
    "process_logprob",
    "action_value",
    "state_value",
    "default_value",
    "token_value",
)
DECAYS = ("gamma", "gamma_turn", "gamma_token", "gamma_episode", "lam", "lam_turn", "lam_token", "lam_segment", "decay", "smoothing")


def table(**columns):
    return dataclasses.replace(contract.random_table(LENGTHS, 0), **columns)


def in_groups_of_one():
    turns = table()
    return dataclasses.replace(turns, group=turns.trajectory.copy(), episode=turns.trajectory.copy())


def of_equal_returns(value=0.1):
    turns = table()
    reward = np.where(turns.done, value, 0.0)
    return dataclasses.replace(turns, reward=reward, components={**dict.fromkeys(turns.components, 0.0 * reward), "game": reward})


def options_of(name):
    parameters = inspect.signature(registry.load("credit", name).function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


@pytest.mark.parametrize(("name", "preset"), CALLS)
@pytest.mark.parametrize("column", OPTIONAL)
def test_a_column_that_is_missing_or_not_finite_is_named_or_not_needed(name, preset, column):
    estimate = registry.bind("credit", name, preset=preset)
    try:
        assert np.isfinite(estimate(table(**{column: None}), {}).advantages).all()
    except CreditError as error:
        assert column in str(error) and name in str(error)
    values = getattr(table(), column).astype(np.float64)
    values[1] = np.nan
    try:
        assert np.array_equal(estimate(table(**{column: values}), {}).advantages, estimate(table(), {}).advantages)
    except CreditError as error:
        assert "row 1" in str(error) or "entry 1" in str(error) or "token 1" in str(error)


@pytest.mark.parametrize(("name", "preset"), CALLS)
def test_a_component_that_is_missing_or_not_finite_is_named_or_not_needed(name, preset):
    estimate = registry.bind("credit", name, preset=preset)
    try:
        assert np.isfinite(estimate(table(components={}), {}).advantages).all()
    except CreditError as error:
        assert "component" in str(error) and name in str(error)
    for component in table().components:
        turns = table()
        turns.components[component][1] = np.nan
        try:
            assert np.array_equal(estimate(turns, {}).advantages, estimate(table(), {}).advantages)
        except CreditError as error:
            assert component in str(error) and "row 1" in str(error)


@pytest.mark.parametrize(("name", "preset"), CALLS)
def test_a_group_of_several_games_is_refused(name, preset):
    games = np.repeat(np.arange(len(LENGTHS)) % 2, LENGTHS)
    with pytest.raises(CreditError, match=rf"{name}.*group 0 .*'a' and 'b'"):
        registry.bind("credit", name, preset=preset)(table(game=games), {})


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_that_gives_nothing_to_a_group_of_one_or_of_equals_says_so(name):
    """0 for a whole batch may be right, but never unsaid."""
    text = " ".join(inspect.getdoc(registry.load("credit", name).function).split())
    if not registry.bind("credit", name)(in_groups_of_one(), {}).advantages.any():
        assert re.search(r"\bof one\b|\balone\b|\bone member\b", text, re.IGNORECASE), "groups of one"
    if not registry.bind("credit", name)(of_equal_returns(), {}).advantages.any():
        assert re.search(r"\bequal|\bthe same\b", text, re.IGNORECASE), "groups of equal returns"


@pytest.mark.parametrize("name", [name for name in NAMES if "epsilon" in options_of(name)])
def test_no_epsilon_makes_a_division_by_zero(name):
    """0 / 0 in groups that say nothing is 0, or an epsilon of 0 is refused."""
    try:
        division = {"divide_by_std": True} if "divide_by_std" in options_of(name) else {}
        estimate = registry.bind("credit", name, {"epsilon": 0.0, **division})
    except ConfigError as error:
        assert "epsilon" in str(error)
        return
    for turns in (in_groups_of_one(), of_equal_returns(), of_equal_returns(1e6 / 3), table()):
        advantages = estimate(turns, {}).advantages
        assert np.isfinite(advantages).all()
        assert np.abs(advantages).max() < 1e3


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in NAMES for option in options_of(name) if option in DECAYS or option == "epsilon"]
)
def test_options_outside_their_range_are_refused(name, option):
    for value in (-0.1, *([1.5] if option in DECAYS else [])):
        with pytest.raises(ConfigError, match=option):
            registry.bind("credit", name, {option: value})
