"""What would be ignored is refused before a run starts, with the line to write."""

import dataclasses
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pytest
from typer.testing import CliRunner

import sparring
from sparring import cli
from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import apply_overrides, load_recipe, recipe_names
from sparring.core.errors import ConfigError
from sparring.run import config_checks
from sparring.run.config_checks import check_effect
from sparring.testing import random_table
from sparring.testing.credit import _as_needed

TWO = "policies={main: {}, other: {model: {lora: {rank: 4}}}}", "roles={first: main, second: other}"


def configured(*changes):
    return resolve(apply_overrides(load_recipe("kuhn-tiny"), changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.lora={rank: 8}"], r"model\.lora puts adapters on a pretrained model.*leave model\.lora out"),
        (["model.dtype=bfloat16"], r"model\.dtype=bfloat16 is of a pretrained model.*write model\.dtype: float32"),
        (["model.name=owner/model", "model.layers=1"], r"model\.layers=1 sizes the tiny model.*write model\.layers: 2"),
        (["learner.master_weights=true"], r"weights of 16 bits.*write learner\.master_weights: false"),
        (["learner.reduction_constant=8"], r"learner\.reduction_constant=8 divides.*write learner\.reduction: constant"),
        (["learner.sharding=fsdp2"], r"there is one; write learner\.ranks: 2"),
        (["learner.gradient_sync=pass"], r"write learner\.sharding: fsdp2"),
        (["credit.name=grpo"], r"credit: 'grpo' compares plays of one start.*write rollout\.group_size: 8"),
        (["credit=reinforce_plus_plus:baseline"], "every advantage is 0"),
        (["credit.name=marti", "credit.baseline=group"], "every advantage is 0"),
        (TWO, r"^policies\.other: model\.lora"),
    ],
)
def test_what_would_be_ignored_is_refused_before_anything_is_written(changes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        check_effect(configured(*changes))
    with pytest.raises(ConfigError, match=message):
        sparring.train("kuhn-tiny", *changes, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    planned = CliRunner().invoke(cli.app, ["train", "kuhn-tiny", *changes, "--dry-run"])
    assert isinstance(planned.exception, ConfigError)


@pytest.mark.parametrize(
    "changes",
    [
        ["credit.name=grpo", "rollout.group_size=8"],
        ["credit.name=reinforce_plus_plus"],
        ["credit.name=marti"],
        ["learner.reduction=constant", "learner.reduction_constant=8"],
    ],
)
def test_what_has_an_effect_is_not_refused(changes):
    check_effect(configured(*changes))


def test_seats_of_one_role_are_compared_with_each_other(monkeypatch):
    monkeypatch.setattr(config_checks, "configured_game", lambda section: SimpleNamespace(roles=("worker", "worker", "lead")))
    check_effect(configured("credit.name=grpo"))


@pytest.mark.slow
def test_no_recipe_has_settings_that_are_ignored():
    for name in recipe_names():
        check_effect(resolve(load_recipe(name)))


def choices(kind):
    if kind is bool:
        return [False, True]
    found = [value for value in get_args(kind) if isinstance(value, str)]
    return found + [value for part in get_args(kind) if not isinstance(part, str) for value in choices(part)]


def variants(name):
    plugin = registry.load("credit", name)
    hints = get_type_hints(plugin.function)
    found = [registry.bind("credit", name, preset=preset) for preset in (None, *plugin.presets)]
    for option, parameter in plugin.options.items():
        for value in choices(hints[option]):
            if value != parameter.default:
                try:
                    found.append(registry.bind("credit", name, {option: value}))
                except ConfigError:  # needs another option beside it
                    continue
    return [one for one in found if "candidates" not in registry.asks(one)]


def table_for(turns, estimate):
    if estimate.options.get("values") == "exact":  # of coma, for the tables of the lab
        return turns
    return _as_needed(turns, estimate)


def largest(estimate, alone):
    sizes = []
    for seed in range(4):
        turns = random_table([1, 2, 3, 1, 2, 4, 1, 3][: 5 + seed], seed, trials=seed % 2 == 1)
        rows = np.arange(len(turns.reward))
        states = {"state_key": rows, "view": rows, "view_names": tuple(map(str, rows))} if alone else {}
        turns = dataclasses.replace(turns, group=turns.episode.copy(), **states)
        sizes.append(np.abs(estimate(table_for(turns, estimate), {}).advantages).max())
    return max(sizes)


@pytest.mark.parametrize("name", registry.names("credit"))
def test_an_estimator_declares_whether_it_compares_plays_of_one_start_alone(name):
    """Where each play has a start of its own such an estimator gives nothing, and every other one gives something."""
    for estimate in variants(name):
        if estimate.group_relative:  # those with anchor states compare a state with itself, if it recurs in a play
            assert largest(estimate, alone=True) < 1e-9, str(estimate)
        else:
            assert largest(estimate, alone=False) > 1e-9, str(estimate)
