"""Changes of the configuration of a resumed run are detected, refused or noted; and options without effect are refused."""

import dataclasses
import json
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pytest
from typer.testing import CliRunner

import sparring
from sparring import cli
from sparring.api.load import load_run
from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import apply_overrides, load_recipe, recipe_names, to_yaml
from sparring.core import files
from sparring.core.errors import ConfigError, RunError
from sparring.engine.local import LocalEngine
from sparring.run import config_checks
from sparring.run.config_checks import check_no_setting_is_ignored
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.testing import random_table
from sparring.testing.estimators import _with_needed_columns

CONFIG = {
    "steps": 2,
    "threads": 1,
    "environments": [{"name": "kuhn_poker"}],
    "rollout": {"games_per_step": 4},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"exact": False},
    "checkpoint": {"every": 1},
    "store": {"every": 0},
}


def train_run(path, *, resume=True, **keys):
    config = resolve({**CONFIG, **keys})
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    if resume:
        config_checks.check_same(folder, config.model_dump(mode="json"))
    with folder:
        return train(config, LocalEngine(config), folder, resume=resume)


def read_changes(path):
    return [json.loads(line) for line in (path / "changes.jsonl").read_text().splitlines()]


@pytest.fixture
def trained_run(tmp_path):
    train_run(tmp_path / "run", resume=False)
    return tmp_path / "run"


def test_a_new_run_notes_its_first_configuration(trained_run):
    changes_before = (trained_run / "changes.jsonl").read_bytes()
    (first_entry,) = read_changes(trained_run)
    assert (first_entry["step"], first_entry["start"]["steps"], first_entry["start"]["checkpoint"]["every"]) == (
        0,
        2,
        1,
    )
    train_run(trained_run)
    assert (trained_run / "changes.jsonl").read_bytes() == changes_before


def test_an_allowed_change_is_noted_and_stays_in_force(trained_run):
    assert train_run(trained_run, steps=4, checkpoint={"every": 2}).steps == 4
    assert RunFolder.open(trained_run).config()["steps"] == 4
    assert read_changes(trained_run)[1:] == [
        {"step": 2, "key": "checkpoint.every", "old": 1, "new": 2},
        {"step": 2, "key": "steps", "old": 2, "new": 4},
    ]
    train_run(trained_run, steps=5, checkpoint={"every": 2})
    assert read_changes(trained_run)[3:] == [{"step": 4, "key": "steps", "old": 4, "new": 5}]


def test_a_change_is_noted_once_even_after_kills(trained_run, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    for num_written in (0, 1, 2):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            calls = iter([files.write_bytes_atomic] * num_written + [interrupt] * 9)
            patch.setattr(config_checks, "write_bytes_atomic", lambda *args, calls=calls: next(calls)(*args))
            patch.setattr("sparring.run.loop.MetricsWriter", interrupt)
            train_run(trained_run, steps=4)
    train_run(trained_run, steps=4)
    assert read_changes(trained_run)[1:] == [{"step": 2, "key": "steps", "old": 2, "new": 4}]


def test_a_change_reverted_before_training_is_not_noted(trained_run, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("sparring.run.loop.MetricsWriter", lambda *_: 1 / 0)
        train_run(trained_run, steps=4)
    train_run(trained_run, steps=2)
    assert len(read_changes(trained_run)) == 1


def test_an_old_run_without_changes_file_gets_one_with_its_first_configuration(trained_run):
    (trained_run / "changes.jsonl").unlink()
    train_run(trained_run, steps=3)
    assert read_changes(trained_run)[0]["start"]["steps"] == 2
    assert read_changes(trained_run)[1:] == [{"step": 2, "key": "steps", "old": 2, "new": 3}]


def test_an_old_run_without_ranks_had_one_learner(trained_run):
    (first_entry,) = read_changes(trained_run)
    del first_entry["start"]["learner"]
    (trained_run / "changes.jsonl").write_text(json.dumps(first_entry) + "\n")
    train_run(trained_run, steps=3)
    assert [line["key"] for line in read_changes(trained_run)[1:]] == ["steps"]


def test_an_edited_configuration_is_refused(trained_run, caplog):
    text = (trained_run / "config.yaml").read_text()
    (trained_run / "config.yaml").write_text(text.replace("seed: 0", "seed: 7"))
    with pytest.raises(RunError, match=r"config.yaml was edited after step 2 was saved: seed differs \(0, now 7\)"):
        train_run(trained_run, seed=7)
    load_run(trained_run)  # allowed with a warning, for example on another machine
    assert "was edited after step 2 was saved; the edited values are used: seed differs (0, now 7)" in caplog.text
    (trained_run / "config.yaml").write_text(text)
    assert train_run(trained_run).finished


def test_an_edit_of_a_changeable_key_counts_as_a_change(trained_run):
    path = trained_run / "config.yaml"
    path.write_text(path.read_text().replace("steps: 2", "steps: 3"))
    assert train_run(trained_run, steps=3).steps == 3
    assert read_changes(trained_run)[1:] == [{"step": 2, "key": "steps", "old": 2, "new": 3}]


# Options that would be ignored are refused before a run starts; the error says what to write.
TWO_POLICIES = "policies={main: {}, other: {model: {lora: {rank: 4}}}}", "roles={first: main, second: other}"


def kuhn_config(*changes):
    return resolve(apply_overrides(load_recipe("kuhn-tiny"), changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.lora={rank: 8}"], r"model\.lora adds adapters to a pretrained model.*leave model\.lora out"),
        (["model.dtype=bfloat16"], r"model\.dtype=bfloat16 is for a pretrained model.*write model\.dtype: float32"),
        (
            ["model.name=owner/model", "model.layers=1"],
            r"model\.layers=1 sets a size of the tiny model.*write model\.layers: 2",
        ),
        (["learner.master_weights=true"], r"16-bit weights.*write learner\.master_weights: false"),
        (
            ["learner.reduction_constant=8"],
            r"learner\.reduction_constant=8 is the divisor.*write learner\.reduction: constant",
        ),
        (["learner.sharding=fsdp2"], r"this run has one; write learner\.ranks: 2"),
        (["learner.gradient_sync=pass"], r"write learner\.sharding: fsdp2"),
        (["credit.name=grpo"], r"credit: 'grpo' compares episodes of one initial state.*write rollout\.group_size: 8"),
        (["credit=reinforce_plus_plus:baseline"], "every advantage is 0"),
        (["credit.name=marti", "credit.baseline=group"], "every advantage is 0"),
        (TWO_POLICIES, r"^policies\.other: model\.lora"),
    ],
)
def test_options_without_effect_are_refused_before_any_file(changes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        check_no_setting_is_ignored(kuhn_config(*changes))
    with pytest.raises(ConfigError, match=message):
        sparring.train("kuhn-tiny", *changes, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    dry_run = CliRunner().invoke(cli.app, ["train", "kuhn-tiny", *changes, "--dry-run"])
    assert isinstance(dry_run.exception, ConfigError)


def test_options_with_an_effect_are_not_refused(monkeypatch):
    check_no_setting_is_ignored(kuhn_config("credit.name=grpo", "rollout.group_size=8"))
    check_no_setting_is_ignored(kuhn_config("learner.reduction=constant", "learner.reduction_constant=8"))
    for name in ("reinforce_plus_plus", "marti"):
        check_no_setting_is_ignored(kuhn_config(f"credit.name={name}"))
    # seats of one role form a group
    monkeypatch.setattr(
        config_checks, "configured_game", lambda section: SimpleNamespace(roles=("worker", "worker", "lead"))
    )
    check_no_setting_is_ignored(kuhn_config("credit.name=grpo"))


@pytest.mark.slow
def test_no_recipe_has_options_without_effect():
    for name in recipe_names():
        check_no_setting_is_ignored(resolve(load_recipe(name)))


def values_of_annotation(annotation):
    if annotation is bool:
        return [False, True]
    names = [value for value in get_args(annotation) if isinstance(value, str)]
    return names + [
        value
        for argument in get_args(annotation)
        if not isinstance(argument, str)
        for value in values_of_annotation(argument)
    ]


def estimators_with_options(name):
    plugin = registry.load("credit", name)
    hints = get_type_hints(plugin.function)
    estimators = [registry.bind("credit", name, preset=preset) for preset in (None, *plugin.presets)]
    for option, parameter in plugin.options.items():
        for value in values_of_annotation(hints[option]):
            if value != parameter.default:
                try:
                    estimators.append(registry.bind("credit", name, {option: value}))
                except ConfigError:  # this option needs another one
                    continue
    return [estimator for estimator in estimators if "candidates" not in registry.required_services(estimator)]


def table_with_needed_columns(turns, estimator):
    if estimator.options.get("values") == "exact":  # options of coma for the tables of this test
        return turns
    return _with_needed_columns(turns, estimator)


def largest_advantage(estimator, has_groups_of_one):
    largest_by_seed = []
    for seed in range(4):
        turns = random_table([1, 2, 3, 1, 2, 4, 1, 3][: 5 + seed], seed, trials=seed % 2 == 1)
        rows = np.arange(len(turns.reward))
        states = {"state_key": rows, "view": rows, "view_names": tuple(map(str, rows))} if has_groups_of_one else {}
        turns = dataclasses.replace(turns, group=turns.episode.copy(), **states)
        largest_by_seed.append(np.abs(estimator(table_with_needed_columns(turns, estimator), {}).advantages).max())
    return max(largest_by_seed)


@pytest.mark.parametrize("name", registry.names("credit"))
def test_an_estimator_declares_whether_it_needs_groups(name):
    """If every episode has its own initial state, such an estimator gives only 0 and every other one does not."""
    for estimator in estimators_with_options(name):
        if estimator.group_relative:  # estimators with anchor states compare states that recur within an episode
            assert largest_advantage(estimator, has_groups_of_one=True) < 1e-9, str(estimator)
        else:
            assert largest_advantage(estimator, has_groups_of_one=False) > 1e-9, str(estimator)
