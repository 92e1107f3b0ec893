"""The W&B sink with a fake module; `make sinks-test` uses the real package."""

import os
import sys
import types

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, PluginError
from sparring.core.trust import trust_typed
from sparring.run.sinks.base import RunStart


class FakeRun:
    def __init__(self):
        self.rows, self.finished = [], False

    def log(self, data, step, commit):
        assert commit
        self.rows.append((step, data))

    def finish(self):
        self.finished = True


@pytest.fixture
def fake_wandb(monkeypatch):
    module = types.ModuleType("wandb")
    module.runs, module.logins, module.logged_in = [], [], True
    module.Settings = lambda **settings: settings

    def init(**options):
        module.runs.append((options, FakeRun()))
        return module.runs[-1][1]

    def login(**options):
        module.logins.append(options)
        return module.logged_in

    module.init, module.login = init, login
    monkeypatch.setitem(sys.modules, "wandb", module)
    for name in ("WANDB_ERROR_REPORTING", "WANDB_MODE"):
        monkeypatch.setenv(name, "a value, so that monkeypatch restores the variable")
        monkeypatch.delenv(name)
    return module


def open_sink(start, **options):
    return registry.bind("run.sinks", "wandb", options)(start)


def test_the_sink_is_offline_and_never_prompts(fake_wandb, tmp_path):
    sink = open_sink(RunStart(folder=tmp_path, name="kuhn", seed=3, config={"steps": 5}), project="mine")
    sink.write(1, {"a": 0.5})
    sink.close()
    ((options, run),) = fake_wandb.runs
    assert (options["mode"], options["dir"], options["project"], options["name"]) == (
        "offline",
        str(tmp_path),
        "mine",
        "kuhn-seed3",
    )
    assert options["config"] == {"steps": 5} and options["resume"] is None and fake_wandb.logins == []
    assert options["settings"]["console"] == "off" and options["settings"]["x_disable_stats"]
    assert os.environ["WANDB_ERROR_REPORTING"] == "false"
    assert run.rows == [(1, {"a": 0.5})] and run.finished


def test_a_resumed_run_has_the_same_id_and_sends_every_step_once(fake_wandb, tmp_path):
    first_sink = open_sink(RunStart(folder=tmp_path))
    for step in (1, 2, 3):
        first_sink.write(step, {"a": step})
    # as if the run was killed after step 3 and its last checkpoint was saved at step 1
    resumed_sink = open_sink(RunStart(folder=tmp_path, step=1))
    for step in (2, 3, 4):
        resumed_sink.write(step, {"a": step})
    (first_options, first_run), (resumed_options, resumed_run) = fake_wandb.runs
    assert first_options["id"] == resumed_options["id"] and [step for step, _ in first_run.rows + resumed_run.rows] == [
        1,
        2,
        3,
        4,
    ]


def test_online_mode_in_a_recipe_is_refused_without_permission(fake_wandb, tmp_path, monkeypatch):
    for mode in (None, "offline"):
        if mode:
            monkeypatch.setenv("WANDB_MODE", mode)
        with pytest.raises(ConfigError, match=r"another person may have written.*or WANDB_MODE=online before"):
            open_sink(RunStart(folder=tmp_path), mode="online")
    assert fake_wandb.runs == [] and fake_wandb.logins == []


@pytest.mark.parametrize(
    "text",
    ["logging.sinks=[wandb mode=online]", "logging.sinks=[{name: wandb, mode: online}]", "logging.sinks.0.mode=online"],
)
def test_online_mode_may_be_given_as_a_typed_argument(text, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "x")
    monkeypatch.delenv("WANDB_MODE")
    trust_typed(["kuhn-tiny", "mode=offline", "explore_mode=online"])
    assert "WANDB_MODE" not in os.environ
    trust_typed([text])
    assert os.environ["WANDB_MODE"] == "online"


def test_online_mode_needs_permission_and_credentials(fake_wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    open_sink(RunStart(folder=tmp_path), mode="online")
    assert fake_wandb.logins == [{"prompt": False}] and fake_wandb.runs[0][0]["resume"] == "allow"
    fake_wandb.logged_in = False
    with pytest.raises(ConfigError, match=r"logging\.sinks.*no credentials; set WANDB_API_KEY"):
        open_sink(RunStart(folder=tmp_path), mode="online")
    with pytest.raises(ConfigError, match="mode"):
        open_sink(RunStart(folder=tmp_path), mode="cloud")


def test_an_error_of_the_package_names_the_sink(fake_wandb, tmp_path, monkeypatch):
    monkeypatch.setattr(fake_wandb, "init", lambda **options: 1 / 0)
    with pytest.raises(PluginError, match=r"sink 'wandb' \(logging.sinks\) failed.*ZeroDivisionError"):
        open_sink(RunStart(folder=tmp_path))
