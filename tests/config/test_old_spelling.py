"""``games`` and ``agents`` are the old spelling of ``environments`` and ``players``: read wherever they may have been typed."""

import json

import pytest
from typer.testing import CliRunner

from sparring import cli
from sparring.config import recipe, resolve
from sparring.config.plugins.outside import slot_of
from sparring.core.errors import ConfigError
from sparring.core.foreign_text import current_slot

OLD, NEW = {"games": [{"name": "nim"}]}, {"environments": [{"name": "nim"}]}


def test_configurations_and_overrides_of_before_read_the_same(tmp_path):
    assert resolve(OLD) == resolve(NEW)
    file = tmp_path / "mine.yaml"
    file.write_text("extends: kuhn-tiny\ngames:\n  - {name: nim}\n")
    read = recipe.load_recipe(str(file))
    assert read["environments"] == [{"name": "nim"}] and "games" not in read
    assert recipe.apply_overrides(read, ["games.0.weight=2"])["environments"] == [{"name": "nim", "weight": 2}]
    with pytest.raises(ConfigError, match="both 'environments' and 'games'"):
        resolve({**OLD, **NEW})


@pytest.mark.parametrize(("old", "new"), [("games", "environments"), ("agents", "players"), ("games.solver", "environments.solver"), ("credit", "credit")])
def test_slots_have_one_spelling(old, new):
    assert current_slot(old) == new and current_slot(new) == new


@pytest.mark.parametrize("slot", ["games", "environments"])
def test_a_plug_in_from_outside_may_say_either(slot, tmp_path, monkeypatch):
    name = f"old_{slot}"
    text = f'SLOT = "{slot}"\n\n\ndef {name}():\n    """One."""\n'
    (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "pack.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sparring.config.plugins.outside._loaded", {})
    assert slot_of(f"pack.{name}") == "environments"


def said(*arguments):
    outcome = CliRunner().invoke(cli.app, arguments)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


@pytest.mark.parametrize("option", ["--game", "--environment"])
def test_the_command_line_reads_both(option):
    found = json.loads(said("evaluate", "--agent", "random", option, "kuhn_poker", "--games", "2", "--no-exact", "--json"))
    assert {row["game"] for row in found["matches"]} == {"kuhn_poker"}


@pytest.mark.parametrize(("old", "new", "one"), [("agents", "players", "minimax"), ("games", "environments", "nim")])
def test_lists_have_both_names(old, new, one):
    assert said("list", old) == said("list", new) and one in said("list", old)
