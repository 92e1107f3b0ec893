"""The base of sinks: a journal keeps the run id and the newest step, and a plug-in must return a sink."""

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.plugin import base_attribute
from sparring.core.errors import PluginError
from sparring.run.sinks.base import Journal, RunStart


def test_a_reopened_journal_has_the_run_id_and_the_newest_step(tmp_path):
    journal = Journal(tmp_path, "x")
    for step in (1, 2, 3, 2):
        journal.note(step)
    reopened = Journal(tmp_path, "x")
    assert (reopened.run_id, reopened.last_step) == (journal.run_id, 3) and journal.last_step == 3
    assert Journal(tmp_path, "y").run_id != journal.run_id


@pytest.mark.parametrize("num_bytes_removed", range(1, 12))
def test_a_truncated_last_line_is_ignored_and_later_lines_are_complete(tmp_path, num_bytes_removed):
    journal = Journal(tmp_path, "x")
    for step in (1, 2):
        journal.note(step)
    journal.path.write_bytes(journal.path.read_bytes()[:-num_bytes_removed])
    reopened = Journal(tmp_path, "x")
    assert reopened.run_id == journal.run_id and reopened.last_step in (1, 2)
    reopened.note(3)
    assert (Journal(tmp_path, "x").run_id, Journal(tmp_path, "x").last_step) == (journal.run_id, 3)


def test_a_plug_in_that_returns_no_sink_is_refused_by_name(tmp_path, monkeypatch):
    plugin = registry.load("run.sinks", "tensorboard")
    monkeypatch.setattr(
        "sparring.config.plugins.plugin.base_attribute",
        lambda slot, name: (lambda plugin: lambda start: object()) if name == "adapt" else base_attribute(slot, name),
    )
    with pytest.raises(PluginError, match=r"sink 'tensorboard' \(logging.sinks\) must return a sink.*has no write"):
        registry.with_options(plugin)(RunStart(folder=tmp_path))
