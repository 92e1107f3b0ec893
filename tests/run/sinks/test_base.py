import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.plugin import base_attribute
from sparring.core.errors import PluginError
from sparring.run.sinks.base import Journal, RunStart


def test_a_journal_remembers_the_run_and_its_newest_step(tmp_path):
    first = Journal(tmp_path, "x")
    for step in (1, 2, 3, 2):
        first.note(step)
    again = Journal(tmp_path, "x")
    assert (again.run, again.last) == (first.run, 3) and first.last == 3
    assert Journal(tmp_path, "y").run != first.run


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_torn_last_line_of_a_journal_is_none_and_what_follows_is_whole(tmp_path, cut):
    first = Journal(tmp_path, "x")
    for step in (1, 2):
        first.note(step)
    first.path.write_bytes(first.path.read_bytes()[:-cut])
    again = Journal(tmp_path, "x")
    assert again.run == first.run and again.last in (1, 2)
    again.note(3)
    assert (Journal(tmp_path, "x").run, Journal(tmp_path, "x").last) == (first.run, 3)


def test_a_plugin_that_gives_no_sink_is_named(tmp_path, monkeypatch):
    plugin = registry.load("run.sinks", "tensorboard")
    monkeypatch.setattr(
        "sparring.config.plugins.plugin.base_attribute",
        lambda slot, name: (lambda plugin: lambda start: object()) if name == "adapted" else base_attribute(slot, name),
    )
    with pytest.raises(PluginError, match=r"sink 'tensorboard' \(logging.sinks\) must return a sink.*has no write"):
        registry.with_options(plugin)(RunStart(folder=tmp_path))
