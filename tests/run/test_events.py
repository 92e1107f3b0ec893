"""Metrics files that are truncated and continued, damaged lines, and sinks that receive metrics."""

import errno
import json
import logging
import math

import pytest

from sparring.config import PluginConfig, resolve
from sparring.config.plugins import registry
from sparring.config.plugins.plugin import base_attribute
from sparring.core.errors import ConfigError, HungError, RunError, UnknownNameError
from sparring.run import events
from sparring.run.events import (
    HEALTH,
    METRICS,
    TIMING,
    MetricsWriter,
    Sinks,
    check_packages,
    read_lines,
)
from sparring.run.sinks.base import RunStart
from tests.run.builders import train_in


def write_three_steps(folder):
    writer = MetricsWriter(folder)
    for step in (1, 2, 3):
        writer.write(step, {"b": step / 3, "a": 1.0}, {"seconds": 0.5})
    writer.close()
    return folder / METRICS


def test_lines_are_exact_and_sorted(tmp_path):
    lines = write_three_steps(tmp_path).read_text().splitlines()
    assert lines[0] == '{"a": 1.0, "b": 0.3333333333333333, "step": 1}'
    assert [line["seconds"] for line in read_lines(tmp_path / TIMING)] == [0.5] * 3


def test_a_full_disk_is_an_error_and_the_run_can_resume(tmp_path, monkeypatch):
    writer = MetricsWriter(tmp_path)
    writer.write(1, {"a": 1.0}, {"b": 1.0})

    def raise_no_space(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(events, "open", raise_no_space, raising=False)
        with pytest.raises(RunError, match="disk is full"):
            writer.write(2, {"a": 2.0}, {"b": 2.0})
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(1)
    writer.write(2, {"a": 2.0}, {"b": 2.0})
    writer.close()
    assert [line["a"] for line in read_lines(tmp_path / METRICS)] == [1.0, 2.0]


def test_non_finite_numbers_become_null_and_newest_values_are_kept(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(1, {"a": math.nan, "b": math.inf, "c": 2 / 3}, {})
    writer.write(2, {"b": 5.0}, {})
    assert json.loads((tmp_path / METRICS).read_text().splitlines()[0]) == {"a": None, "b": None, "c": 2 / 3, "step": 1}
    assert math.isnan(writer.latest()["a"]) and writer.latest() | {"a": 0.0} == {"a": 0.0, "b": 5.0, "c": 2 / 3}
    writer.close()


@pytest.mark.parametrize("num_bytes_removed", range(1, 60))
def test_any_truncated_last_line_is_rewritten_with_the_same_bytes(tmp_path, num_bytes_removed):
    path = write_three_steps(tmp_path)
    expected_bytes = path.read_bytes()
    path.write_bytes(expected_bytes[:-num_bytes_removed])
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(1)
    writer.write(2, {"b": 2 / 3, "a": 1.0}, {"seconds": 0.5})
    writer.write(3, {"b": 3 / 3, "a": 1.0}, {"seconds": 0.5})
    writer.close()
    assert path.read_bytes() == expected_bytes


def test_lost_metrics_before_the_checkpoint_are_reported(tmp_path, caplog):
    path = write_three_steps(tmp_path)
    path.write_bytes(b"{" + path.read_bytes())  # the first line is damaged, so later lines are dropped
    writer = MetricsWriter(tmp_path)
    with caplog.at_level(logging.WARNING):
        writer.truncate_after(3)
    writer.close()
    assert "metrics.jsonl" in caplog.text and "steps up to 3" in caplog.text
    assert "timing.jsonl" not in caplog.text


@pytest.mark.parametrize("line", ['{"step": "two"}', '{"step": null}', "[1]", "7", "\x00\x00"])
def test_a_malformed_line_is_skipped(tmp_path, line):
    path = write_three_steps(tmp_path)
    path.write_text(path.read_text() + line + "\n")
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(3)
    writer.close()
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3]


def test_health_events_are_truncated_like_metrics(tmp_path, caplog):
    writer = MetricsWriter(tmp_path)
    for step, metrics in ((2, ["a", "b"]), (5, ["a"])):
        writer.record(step, [{"metric": metric} for metric in metrics])
    for step in range(1, 6):
        writer.write(step, {}, {})
    writer.truncate_after(4)
    assert [(line["step"], line["metric"]) for line in read_lines(tmp_path / HEALTH)] == [(2, "a"), (2, "b")]
    writer.truncate_after(1)
    assert (tmp_path / HEALTH).read_bytes() == b""
    writer.close()
    assert not caplog.records


KUHN_CONFIG = {
    "environments": [{"name": "kuhn_poker"}],
    "rollout": {"games_per_step": 4},
    "threads": 1,
    "evaluation": {"opponents": [], "exact": False},
}


class FragileSink:
    def __init__(self, *faults):
        self.faults, self.writes, self.closed = list(faults), [], False

    def write(self, step, figures):
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        self.writes.append((step, figures))

    def close(self):
        self.closed = True
        if self.faults:
            raise self.faults[0]


@pytest.fixture
def open_sinks(monkeypatch):
    def open_fragile_sinks(*fragile_sinks):
        remaining_sinks = list(fragile_sinks)
        monkeypatch.setattr(
            "sparring.config.plugins.plugin.base_attribute",
            lambda slot, name: (
                (lambda plugin: lambda start: remaining_sinks.pop(0)) if name == "adapt" else base_attribute(slot, name)
            ),
        )
        return Sinks([PluginConfig(name="tensorboard")] * len(fragile_sinks), RunStart(folder=None))

    return open_fragile_sinks


def test_a_failing_sink_does_not_affect_other_sinks(open_sinks, caplog):
    failing_sink, working_sink = FragileSink(OSError(errno.ENOSPC, "No space left on device")), FragileSink()
    sinks = open_sinks(failing_sink, working_sink)
    assert sinks.write(1, {"a": 1, "b": math.nan, "c": math.inf}) == 1
    assert sinks.write(2, {"a": 2.0}) == 0
    assert working_sink.writes == [(1, {"a": 1.0}), (2, {"a": 2.0})] and failing_sink.writes == [(2, {"a": 2.0})]
    assert "The sink 'tensorboard' (logging.sinks) failed" in caplog.text and "No space left" in caplog.text
    assert "The sink lacks step 1; it is tried again, and the run continues." in caplog.text
    sinks.close()
    assert failing_sink.closed and working_sink.closed


def test_a_failing_sink_is_retried_at_growing_intervals_and_counted(open_sinks, caplog):
    failing = FragileSink(*[RuntimeError("no")] * 5)
    sinks = open_sinks(failing)
    num_faults_left = [len(failing.faults) for _ in range(30) if sinks.write(1, {}) == 1]
    assert (
        num_faults_left[:3] == [4, 3, 2]
        and num_faults_left[3:6] == [2, 2, 1]
        and num_faults_left[6:11] == [1, 1, 1, 1, 0]
    )
    # 19 attempts failed to write all lines; after 5 faults the sink works again
    assert len(num_faults_left) == 3 + 3 + 5 + 8 and len(failing.writes) == 30 - len(num_faults_left)
    assert len(caplog.records) == 1


def test_a_sink_with_occasional_failures_stays_in_use(open_sinks):
    failing = FragileSink(*[RuntimeError("no"), RuntimeError("no"), None] * 3)
    sinks = open_sinks(failing)
    assert [sinks.write(step, {}) for step in range(1, 10)] == [1, 1, 0] * 3


def test_an_error_in_close_is_reported(open_sinks, caplog):
    open_sinks(FragileSink(RuntimeError("no"))).close()
    assert "could not be closed" in caplog.text


def test_a_hanging_sink_is_not_used_again(open_sinks, caplog):
    failing = FragileSink(HungError("It hangs."))
    sinks = open_sinks(failing)
    assert [sinks.write(step, {}) for step in (1, 2)] == [1, 1] and failing.writes == []
    assert "not used again" in caplog.text


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(events.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"sink 'wandb' \(logging.sinks\) needs the package wandb.*pip install 'sparring\[wandb\]'"
    ):
        check_packages([PluginConfig(name="tensorboard"), PluginConfig(name="wandb")])


def test_a_sink_that_cannot_be_opened_closes_earlier_ones(monkeypatch):
    first_sink, plugins = FragileSink(), []

    def open_plugin(plugin):
        plugins.append(plugin)
        return (lambda start: first_sink) if len(plugins) == 1 else (lambda start: 1 / 0)

    monkeypatch.setattr(
        "sparring.config.plugins.plugin.base_attribute",
        lambda slot, name: open_plugin if name == "adapt" else base_attribute(slot, name),
    )
    with pytest.raises(Exception, match="ZeroDivisionError"):
        Sinks([PluginConfig(name="tensorboard")] * 2, RunStart(folder=None))
    assert first_sink.closed


@pytest.mark.parametrize(
    ("logging_section", "message"),
    [
        ({"sinks": ["tensorbord"]}, "Did you mean 'tensorboard'"),
        ({"sinks": ["wandb mode=cloud"]}, "mode"),
        ({"sinks": ["wandb", "wandb"]}, "listed twice"),
        ({"sink": []}, "Did you mean 'sinks'"),
    ],
)
def test_wrong_sinks_are_refused_by_the_configuration(logging_section, message):
    with pytest.raises((ConfigError, UnknownNameError), match=message):
        resolve({**KUHN_CONFIG, "logging": logging_section})


def test_the_default_sink_is_tensorboard_and_a_text_names_a_sink():
    assert [sink.name for sink in resolve(KUHN_CONFIG).logging.sinks] == ["tensorboard"]
    assert resolve({**KUHN_CONFIG, "logging": {"sinks": ["wandb project=mine"]}}).logging.sinks[0].options == {
        "project": "mine"
    }


def train_run(path, sinks, steps=2, resume=False):
    return train_in(path, resolve({**KUHN_CONFIG, "steps": steps, "logging": {"sinks": sinks}}), resume=resume)


def test_a_run_does_not_depend_on_its_sinks(tmp_path, monkeypatch, caplog):
    without_sinks = train_run(tmp_path / "plain", [])
    assert not (tmp_path / "plain" / "tensorboard").exists()
    with monkeypatch.context() as patch:
        patch.setattr("sparring.run.sinks.tensorboard.TensorboardEvents.write", lambda *_: 1 / 0)
        failing = train_run(tmp_path / "failing", ["tensorboard"])
    assert without_sinks.finished and failing.finished
    assert (tmp_path / "plain" / "metrics.jsonl").read_bytes() == (tmp_path / "failing" / "metrics.jsonl").read_bytes()
    assert [line["failed_sinks"] for line in read_lines(tmp_path / "failing" / TIMING)] == [1.0, 1.0]
    assert train_run(tmp_path / "failing", [], steps=3, resume=True).finished


def test_a_sink_that_cannot_start_stops_the_run_before_its_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sparring.run.sinks.tensorboard.EventFileWriter",
        lambda *_: (_ for _ in ()).throw(OSError(errno.EACCES, "Permission denied")),
    )
    with pytest.raises(RunError, match="cannot be written"):
        train_run(tmp_path / "run", ["tensorboard"])


def test_every_sink_its_package_and_its_extra_agree():
    import tomllib
    from pathlib import Path

    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name in registry.built_in("run.sinks"):
        package = getattr(registry.load("run.sinks", name).module, "PACKAGE", None)
        assert package is None or any(requirement.startswith(package) for requirement in extras[package])


@pytest.fixture(autouse=True)
def warnings_logged(caplog):
    caplog.set_level(logging.WARNING)
