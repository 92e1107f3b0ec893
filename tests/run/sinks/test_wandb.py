"""The sink against a small module in the place of W&B; `make sinks-test` takes the real one."""

import os
import sys
import types

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, PluginError
from sparring.core.trust import trust_typed
from sparring.run.sinks.base import RunStart


class Run:
    def __init__(self):
        self.rows, self.finished = [], False

    def log(self, data, step, commit):
        assert commit
        self.rows.append((step, data))

    def finish(self):
        self.finished = True


@pytest.fixture
def library(monkeypatch):
    module = types.ModuleType("wandb")
    module.runs, module.logins, module.logged_in = [], [], True
    module.Settings = lambda **settings: settings

    def init(**options):
        module.runs.append((options, Run()))
        return module.runs[-1][1]

    def login(**options):
        module.logins.append(options)
        return module.logged_in

    module.init, module.login = init, login
    monkeypatch.setitem(sys.modules, "wandb", module)
    for name in ("WANDB_ERROR_REPORTING", "WANDB_MODE"):
        monkeypatch.setenv(name, "set, so that it is put back")
        monkeypatch.delenv(name)
    return module


def opened(start, **options):
    return registry.bind("run.sinks", "wandb", options)(start)


def test_it_stays_on_this_machine_and_asks_nobody(library, tmp_path):
    sink = opened(RunStart(folder=tmp_path, name="kuhn", seed=3, config={"steps": 5}), project="mine")
    sink.write(1, {"a": 0.5})
    sink.close()
    ((options, run),) = library.runs
    assert (options["mode"], options["dir"], options["project"], options["name"]) == (
        "offline",
        str(tmp_path),
        "mine",
        "kuhn-seed3",
    )
    assert options["config"] == {"steps": 5} and options["resume"] is None and library.logins == []
    assert options["settings"]["console"] == "off" and options["settings"]["x_disable_stats"]
    assert os.environ["WANDB_ERROR_REPORTING"] == "false"
    assert run.rows == [(1, {"a": 0.5})] and run.finished


def test_a_run_that_goes_on_is_the_same_run_and_sends_no_step_twice(library, tmp_path):
    first = opened(RunStart(folder=tmp_path))
    for step in (1, 2, 3):
        first.write(step, {"a": step})
    second = opened(RunStart(folder=tmp_path, step=1))  # killed after step 3, saved after step 1
    for step in (2, 3, 4):
        second.write(step, {"a": step})
    (earlier, before), (later, after) = library.runs
    assert earlier["id"] == later["id"] and [step for step, _ in before.rows + after.rows] == [1, 2, 3, 4]


def test_online_in_a_recipe_is_not_enough(library, tmp_path, monkeypatch):
    for mode in (None, "offline"):
        if mode:
            monkeypatch.setenv("WANDB_MODE", mode)
        with pytest.raises(ConfigError, match=r"may be a stranger's.*or WANDB_MODE=online before"):
            opened(RunStart(folder=tmp_path), mode="online")
    assert library.runs == [] and library.logins == []


@pytest.mark.parametrize(
    "text",
    ["logging.sinks=[wandb mode=online]", "logging.sinks=[{name: wandb, mode: online}]", "logging.sinks.0.mode=online"],
)
def test_online_may_be_typed(text, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "x")
    monkeypatch.delenv("WANDB_MODE")
    trust_typed(["kuhn-tiny", "mode=offline", "explore_mode=online"])
    assert "WANDB_MODE" not in os.environ
    trust_typed([text])
    assert os.environ["WANDB_MODE"] == "online"


def test_online_is_asked_for_and_needs_credentials_that_are_there(library, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    opened(RunStart(folder=tmp_path), mode="online")
    assert library.logins == [{"prompt": False}] and library.runs[0][0]["resume"] == "allow"
    library.logged_in = False
    with pytest.raises(ConfigError, match=r"logging\.sinks.*no credentials; set WANDB_API_KEY"):
        opened(RunStart(folder=tmp_path), mode="online")
    with pytest.raises(ConfigError, match="mode"):
        opened(RunStart(folder=tmp_path), mode="cloud")


def test_what_the_package_raises_names_the_sink(library, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "init", lambda **options: 1 / 0)
    with pytest.raises(PluginError, match=r"sink 'wandb' \(logging.sinks\) failed.*ZeroDivisionError"):
        opened(RunStart(folder=tmp_path))
