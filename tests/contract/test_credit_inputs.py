"""Wrong or uninformative input of advantage estimators: an error that names it, or the documented convention."""

import dataclasses
import inspect
import re
import typing

import numpy as np
import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, CreditError
from tests.cases import every_case
from tests.contract import test_credit as contract

NAMES, LENGTHS = contract.NAMES, [2, 3, 1, 2, 2, 1, 3, 2]
CALLS = [(name, preset) for name in NAMES for preset in (None, *registry.load("credit", name).presets)]
# columns that are computed only if a plug-in NEEDS them; tables with columns of candidates are tested in test_vpr
COMPUTED = tuple(name for name in registry.built_in("columns") if name not in ("state_group", "committed"))
OPTIONAL = ("action", "view", "logprob", *COMPUTED)
COMPONENTS = ("game", "process", "best_action")
REQUIRED = {  # the columns of OPTIONAL and COMPONENTS that an estimator (or its preset) requires; others require none
    "bi_level_gae": {"token_value"},
    "branch_grpo": {"action"},
    "candidate_value": {"candidate_value", "candidate_judged"},
    "coma": {"action", "view"},
    "difference_rewards": {"action_value", "default_value"},
    "exact_advantage": {"action_value", "state_value"},
    "gae": {"value"},
    "gigpo": {"view"},
    "grpo:wideseek_r1": {"wideseek_turns"},
    "hgpo": {"view"},
    "hiper": {"value"},
    "mage": {"view"},
    "mage:as_released": {"view", "game"},
    "mage:lamer": {"view", "game"},
    "mage:lamer_as_released": {"view", "game"},
    "mars2": {"action"},
    "oprl": {"old_logprob", "process_logprob"},
    "oprl:policy": {"old_logprob", "reference_logprob"},
    "ppr": {"game", "best_action"},
    "salt": {"action", "view"},
    "spa": {"value_after"},
    "spae": {"logprob", "best_action"},
    "ssl": {"best_action"},
    "vpr": {"best_action"},
    "vine_ppo": {"playout", "playout_before", "game"},
    "vtrace": {"logprob", "value", "old_logprob"},
    "xrpo": {"logprob"},
}
REQUIRED_BY_OPTION = [
    ("branch_grpo", {"surprise_weight": 0.1}, {"action", "logprob"}),
    ("difference_rewards", {"default": "policy"}, {"action_value", "state_value"}),
    ("gigpo", {"anchor": "state_key"}, set()),
    ("grpo", {"trains": "unfailed"}, {"failed"}),
    ("salt", {"anchor": "state_key"}, {"action"}),
    ("hiper", {"segments": "view"}, {"value", "view"}),
    ("mage", {"per_opponent": True}, {"view", "opponents"}),
    ("mage", {"outcome": "process"}, {"view", "process"}),
    ("spo_tree", {"segments": "branches"}, {"action"}),
    ("spo_tree", {"average": "children"}, {"action"}),
    ("vpr", {"process": "process"}, {"process"}),
]
DECAYS = (
    "gamma",
    "gamma_turn",
    "gamma_token",
    "gamma_episode",
    "lam",
    "lam_turn",
    "lam_token",
    "lam_segment",
    "decay",
    "smoothing",
)


# for every option: advantages are 0 in groups of one (ALONE) and in groups of equal returns, up to rounding (EQUAL);
# adding a million to every return changes nothing (SHIFTED)
ALL_THREE = {
    "arena_rl",
    "branch_grpo",
    "dr_mas",
    "flow_grpo",
    "gpg",
    "grpo",
    "loop",
    "mars2",
    "mc_grpo",
    "opo",
    "pass_at_k",
    "rloo",
    "salt",
    "spo_tree",
}
ALONE = ALL_THREE | {"a_grae", "at_grpo", "dgrpo", "match_tir", "s_grpo", "ssl", "xrpo"}
EQUAL = ALL_THREE | {"a_grae", "adv_evo", "copo", "dgrpo", "rebn", "reinforce_plus_plus", "ssl", "vpr", "xrpo"}
SHIFTED = ALL_THREE | {
    "adv_evo",
    "coma",
    "copo",
    "difference_rewards",
    "exact_advantage",
    "oprl",
    "rebn",
    "reinforce_plus_plus",
    "spa",
    "spae",
    "vpr",
}


def table(**columns):
    return dataclasses.replace(contract.random_table(LENGTHS, 0), **columns)


def in_groups_of_one():
    turns = table()
    return dataclasses.replace(turns, group=turns.trajectory.copy(), episode=turns.trajectory.copy())


def with_equal_returns(value=0.1):
    turns = table()
    reward = np.where(turns.done, value, 0.0)
    return dataclasses.replace(
        turns, reward=reward, components={**dict.fromkeys(turns.components, 0.0 * reward), "game": reward}
    )


def with_shifted_returns(turns, amount):
    reward = turns.reward + np.where(turns.done, amount, 0.0)
    return dataclasses.replace(
        turns,
        reward=reward,
        components={**turns.components, "game": turns.components["game"] + np.where(turns.done, amount, 0.0)},
    )


def with_each_option(name):
    """Yield an estimator by default and with each value of each option that is a flag or a choice."""
    hints = typing.get_type_hints(registry.load("credit", name).function)
    values = {
        option: (True, False) if hints[option] is bool else typing.get_args(hints[option])
        for option in options_of(name)
    }
    choices_of_options = [
        {option: value} for option, choices in values.items() for value in choices if isinstance(value, bool | str)
    ]
    for options in ({}, *choices_of_options):
        estimate = registry.bind("credit", name, options)
        if not {"candidates"} & registry.required_services(estimate):
            yield estimate


def options_of(name):
    parameters = inspect.signature(registry.load("credit", name).function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def with_entry(turns, name, entry):
    """Return the table without a column or component (entry None), or with its entry 1 replaced by entry."""
    if name in COMPONENTS:
        components = {
            component: column.copy()
            for component, column in turns.components.items()
            if component != name or entry is not None
        }
        if entry is not None:
            components[name][1] = entry
        return dataclasses.replace(turns, components=components)
    column = None if entry is None else getattr(turns, name).astype(np.float64)
    if column is not None:
        column[1] = entry
    return dataclasses.replace(turns, **{name: column})


def check_columns(name, estimate, required):
    """Assert that a missing required column is an error that names it, and that unused columns have no effect."""
    advantages = estimate(table(), {}).advantages
    for column in (*OPTIONAL, *COMPONENTS):
        without_column, with_nan = with_entry(table(), column, None), with_entry(table(), column, np.nan)
        if column not in required:
            assert np.array_equal(estimate(without_column, {}).advantages, advantages), (column, "missing")
            assert np.array_equal(estimate(with_nan, {}).advantages, advantages), (column, "not finite")
            continue
        with pytest.raises(CreditError, match=rf"'{name}'.*'{column}'"):
            estimate(without_column, {})
        with pytest.raises(CreditError, match=rf"'{name}'.*{column}.*(row|entry|token) 1\b"):
            estimate(with_nan, {})
    assert required & set(COMPUTED) == estimate.needs, "NEEDS"


@every_case("name", NAMES, parts=5)
def test_an_estimator_requires_its_columns_and_reads_no_others(name):
    for preset in (None, *registry.load("credit", name).presets):
        required = REQUIRED.get(f"{name}:{preset}", REQUIRED.get(name, set()))
        estimate = registry.bind("credit", name, preset=preset)
        if "candidates" not in registry.required_services(estimate):
            check_columns(name, estimate, required)


@every_case(
    ("name", "options", "required"),
    REQUIRED_BY_OPTION,
    ids=[f"{name}-{options}" for name, options, _ in REQUIRED_BY_OPTION],
)
def test_an_option_may_change_the_required_columns(name, options, required):
    check_columns(name, registry.bind("credit", name, options), required)


def test_the_table_of_required_columns_names_existing_estimators():
    assert {key.partition(":")[0] for key in REQUIRED} <= set(NAMES)


@every_case(("name", "preset"), CALLS)
def test_a_group_of_several_games_and_nan_rewards_are_refused(name, preset):
    check_refusals(name, registry.bind("credit", name, preset=preset))


def check_refusals(name, estimate):
    games = np.repeat(np.arange(len(LENGTHS)) % 2, LENGTHS)
    with pytest.raises(CreditError, match=rf"{name}.*group 0 .*'a' and 'b'"):
        estimate(table(game=games), {})
    for value in (np.nan, np.inf):
        turns = table()
        turns.reward[1] = value
        with pytest.raises(CreditError, match="row 1"):
            estimate(turns, {})


@every_case("name", NAMES)
def test_docstrings_state_that_groups_of_one_or_equal_returns_get_0(name):
    """An estimator may give 0 to a whole batch if its docstring says so."""
    text = " ".join(inspect.getdoc(registry.load("credit", name).function).split())
    if not registry.bind("credit", name)(in_groups_of_one(), {}).advantages.any():
        assert re.search(r"\bof one\b|\balone\b|\bone member\b", text, re.IGNORECASE), "groups of one"
    if not registry.bind("credit", name)(with_equal_returns(), {}).advantages.any():
        assert re.search(r"\bequal|\bthe same\b", text, re.IGNORECASE), "groups of equal returns"


@every_case("name", sorted(ALONE | EQUAL | SHIFTED))
def test_groups_without_signal_get_0_and_a_common_return_has_no_effect(name):
    almost_equal = with_equal_returns(0.3)
    almost_equal.reward[np.flatnonzero(almost_equal.done)[::2]] = 0.1 + 0.2
    for estimate in with_each_option(name):
        if name in ALONE:
            assert estimate(in_groups_of_one(), {}).advantages == pytest.approx(0.0, abs=1e-9)
        if name in EQUAL:
            for turns in (with_equal_returns(0.1), almost_equal):
                assert estimate(turns, {}).advantages == pytest.approx(0.0, abs=1e-9)
            assert estimate(with_equal_returns(1e6 + 0.1), {}).advantages == pytest.approx(0.0, abs=1e-3)
        if name in SHIFTED:
            advantages = estimate(table(), {}).advantages
            assert estimate(with_shifted_returns(table(), 1e6), {}).advantages == pytest.approx(
                advantages, abs=1e-4 * max(1.0, np.abs(advantages).max())
            )


@every_case("name", [name for name in NAMES if "epsilon" in options_of(name)])
def test_epsilon_0_gives_no_division_by_zero(name):
    """In groups without a signal 0 / 0 counts as 0, or epsilon=0 is refused."""
    try:
        division = {"divide_by_std": True} if "divide_by_std" in options_of(name) else {}
        estimate = registry.bind("credit", name, {"epsilon": 0.0, **division})
    except ConfigError as error:
        assert "epsilon" in str(error)
        return
    for turns in (in_groups_of_one(), with_equal_returns(), with_equal_returns(1e6 / 3), table()):
        advantages = estimate(turns, {}).advantages
        assert np.isfinite(advantages).all()
        assert np.abs(advantages).max() < 1e3


@every_case(
    ("name", "option"),
    [(name, option) for name in NAMES for option in options_of(name) if option in DECAYS or option == "epsilon"],
)
def test_options_outside_their_range_are_refused(name, option):
    for value in (-0.1, *([1.5] if option in DECAYS else [])):
        with pytest.raises(ConfigError, match=option):
            registry.bind("credit", name, {option: value})
