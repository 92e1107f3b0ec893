"""The contract of columns: one file adds a column, whose name is the file name and the name in NEEDS."""

import inspect
import sys
from dataclasses import replace

import numpy as np
import pytest

import sparring
from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import apply_overrides, load_recipe, recipe_names
from sparring.core.errors import ConfigError, CreditError, PluginError, UnknownNameError
from sparring.methods.columns.base import FIELDS, with_column
from sparring.testing import check_estimator, random_table
from tests.cases import every_case

TINY = [
    "threads=1",
    "model.hidden_size=8",
    "model.layers=1",
    "model.heads=2",
    "rollout.games_per_step=8",
    "evaluation.every=9",
]
TINY += ["warmup.updates=0", "store.every=1", "steps=2"]
SERVICES = {"critic", "reference", "process", "tree", "candidates", "playouts"}


@every_case("name", registry.built_in("columns"))
def test_a_built_in_column_has_a_field_and_declares_its_services(name):
    plugin = registry.load("columns", name)
    assert name in FIELDS and "What:" in inspect.getdoc(plugin.function)
    assert registry.required_services(registry.bind("columns", name)) <= SERVICES


def test_columns_are_ordered_after_their_needs():
    assert registry.sort_columns({"process_logprob"}) == ("old_logprob", "process_logprob")
    assert registry.sort_columns({"value", "process_logprob", "old_logprob"}) == (
        "old_logprob",
        "process_logprob",
        "value",
    )
    assert registry.required_services(registry.bind("credit", "oprl")) == {"process"} and registry.required_services(
        registry.bind("credit", "gae")
    ) == {"critic"}


def test_a_column_without_a_field_is_stored_by_name():
    turns = random_table([2, 1], seed=0)
    turns_with_column = with_column(with_column(turns, "age", np.ones(3)), "value", np.zeros(3))
    assert (
        turns_with_column.column("age").tolist() == [1.0] * 3
        and turns_with_column.column("value").tolist() == [0.0] * 3
    )
    with pytest.raises(CreditError, match=r"no column 'depth'; declare NEEDS = \{'depth'\}"):
        turns_with_column.column("depth")
    with pytest.raises(CreditError, match="no column 'value'"):
        replace(turns, value=None).column("value")


COLUMN = '''
import numpy as np
SLOT = "columns"
NEEDS = {"old_logprob"}
def surprise(source):
    """Say how surprising a turn was."""
    return -source.turns.column("old_logprob")
def wrong(source):
    """Give one number too many."""
    return np.zeros(len(source.turns.reward) + 1)
PLUGINS = ("surprise", "wrong")
'''
ESTIMATOR = '''
SLOT = "credit"
NEEDS = {"PACKAGE.parts.COLUMN"}
def by_surprise(turns, *, factor: float = 1.0):
    """Credit a turn with its return, less its surprise."""
    return turns.reward - factor * turns.column("PACKAGE.parts.COLUMN")
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a package with a column and an estimator that NEEDS it; return its name."""

    monkeypatch.setattr("sparring.config.plugins.outside._loaded", {})

    def make(column):
        name = f"outside_columns_{column}"
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "parts.py").write_text(COLUMN)
        (folder / "credits.py").write_text(
            ESTIMATOR.replace("PACKAGE", name).replace("COLUMN", column) + 'PLUGINS = ("by_surprise",)\n'
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        return name

    yield make
    for module in [name for name in sys.modules if name.startswith("outside_columns")]:
        del sys.modules[module]
    registry.clear_caches()


@pytest.mark.always
def test_a_column_from_outside_needs_one_file(package, tmp_path):
    name = package("surprise")
    credit = f"credit={{name: {name}.credits.by_surprise, factor: 0.5}}"
    run = sparring.train("kuhn-tiny", *TINY, credit, run=tmp_path / "run")
    turns = (
        run.table("episodes")
        .to_pandas()
        .merge(run.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index"])
    )
    first_step = turns[turns["step"] == 1]
    surprise = -first_step["logprobs"].map(sum)  # sampled and recomputed log-probabilities agree up to rounding
    assert np.allclose(first_step["advantage"], first_step["reward"] - 0.5 * surprise, atol=1e-4)
    check_estimator(registry.bind("credit", f"{name}.credits.by_surprise"))


def test_a_column_of_the_wrong_length_is_refused_by_name(package, tmp_path):
    name = package("wrong")
    with pytest.raises(PluginError, match=r"wrong.*must return one number per turn, an array of shape"):
        sparring.train("kuhn-tiny", *TINY, f"credit={{name: {name}.credits.by_surprise}}", run=tmp_path / "run")


@pytest.mark.parametrize(
    ("slot", "needs", "suggestion"),
    [
        ("credit", {"valeu"}, "'value'"),
        ("losses", {"old_logprop"}, "'old_logprobs'"),
        ("rewards", {"verdict"}, "'verdicts'"),
        ("selection", {"value"}, ""),
    ],
)
def test_an_unknown_need_is_refused_when_the_plug_in_is_loaded(slot, needs, suggestion, tmp_path, monkeypatch):
    monkeypatch.setattr("sparring.config.plugins.outside._loaded", {})
    name = f"needing_{slot}"
    (tmp_path / f"{name}.py").write_text(
        f'SLOT = "{slot}"\nNEEDS = {needs!r}\nPLUGINS = ("f",)\ndef f(*inputs):\n    """Do."""\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnknownNameError, match="Unknown name in NEEDS of") as error:
        registry.bind(slot, f"{name}.f")
    assert suggestion in str(error.value) and repr(*needs) in str(error.value)
    registry.clear_caches()


def test_old_names_of_needs_are_read():
    plugin = registry.load("credit", "gae")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin.module, "NEEDS", {"values", "token_values", "action_values"})
        assert plugin.needs == {"value", "token_value", "action_value", "state_value", "default_value"}


# -- what an estimator requires of the rest of the configuration


def resolve_with(*changes):
    return resolve(apply_overrides(load_recipe("kuhn-tiny"), [*TINY, *changes]))


@pytest.mark.parametrize("name", ["gae", "hiper", "vtrace", "bi_level_gae", "spa"])
def test_a_critic_without_a_value_loss_is_refused(name):
    credit = f"credit={{name: {name}}}"
    with pytest.raises(
        ConfigError,
        match=rf"'{name}' needs a critic, which no loss trains; add to losses the line - {{name: value_loss}}",
    ):
        resolve_with(credit, "losses=[{name: ppo_clip}]")
    resolve_with(credit, "losses=[{name: ppo_clip}, {name: value_loss}]")


@pytest.mark.parametrize(
    ("name", "option"), [("vpr", "process"), ("ppr", "process"), ("spae", "accuracy"), ("ssl", "component")]
)
def test_a_reward_component_that_no_reward_gives_is_refused(name, option):
    with pytest.raises(
        ConfigError, match=rf"'{name}' reads the reward component 'best_action' \(its option {option}\)"
    ):
        resolve_with(f"credit={{name: {name}}}")
    resolve_with(f"credit={{name: {name}, {option}: game}}")
    resolve_with(f"credit={{name: {name}}}", "rewards=[{name: best_action}]", "environments.0.oracle={name: cfr}")


@every_case("name", recipe_names())
def test_every_recipe_has_what_its_estimator_requires(name):
    resolve(load_recipe(name))


# -- estimators without a state


def stateless(turns, *, factor: float = 1.0):
    return factor * turns.reward


def stateful(turns, state, *, factor: float = 1.0):
    return sparring.core.records.Credit(advantages=factor * turns.reward, state=dict(state))


def test_an_estimator_may_take_only_the_table():
    turns = random_table([3, 2, 1], seed=1)
    check_estimator(stateless)
    check_estimator(stateless, factor=2.0)
    stateless_credit, stateful_credit = (
        sparring.testing.bound_plugin.bind_plugin("credit", function, {"factor": 3.0})
        for function in (stateless, stateful)
    )
    result, stateful_result = stateless_credit(turns, {"kept": 1.0}), stateful_credit(turns, {"kept": 1.0})
    assert (
        result.advantages.tolist() == stateful_result.advantages.tolist()
        and result.state == stateful_result.state == {"kept": 1.0}
        and result.level == "turn"
    )


@pytest.mark.parametrize("answer", [None, "x", [1.0], {"a": 1}])
def test_an_answer_that_is_no_array_of_advantages_is_refused(answer):
    estimator = sparring.testing.bound_plugin.bind_plugin("credit", stateless, {})
    wrong_estimator = registry.BoundPlugin(
        plugin=replace(estimator.plugin, function=lambda turns: answer), options={}, schedules={}
    )
    with pytest.raises(PluginError, match="must return advantages"):
        wrong_estimator(random_table([2, 1], seed=0), {})


@pytest.mark.parametrize("second_column", ["a", "b"])
def test_columns_that_need_each_other_are_refused(second_column, tmp_path, monkeypatch):
    monkeypatch.setattr("sparring.config.plugins.outside._loaded", {})
    (tmp_path / "circling").mkdir()
    (tmp_path / "circling" / "__init__.py").write_text("")
    for name, need in (("a", second_column), ("b", "a")):
        text = f'SLOT = "columns"\nNEEDS = {{"circling.{need}"}}\ndef {name}(source):\n    """Be a column."""\n'
        (tmp_path / "circling" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for order_columns in (
        registry.sort_columns,
        lambda needs: registry.required_services(registry.bind("columns", *needs)),
    ):
        with pytest.raises(ConfigError, match=r"column 'circling\.\w' needs itself: circling\.\w -> .*circling\.\w"):
            order_columns({"circling.a"})
    for module in [name for name in sys.modules if name.startswith("circling")]:
        del sys.modules[module]
    registry.clear_caches()
