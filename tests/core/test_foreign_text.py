"""Names from outside cannot leave a folder or break metrics and tables; the old words `games` and `agents` are still read."""

import json

import pytest
from typer.testing import CliRunner

from sparring import cli
from sparring.config import recipe, resolve
from sparring.config.plugins.outside import slot_of
from sparring.config.recipe import load_recipe, recipe_names
from sparring.core.errors import ConfigError
from sparring.core.foreign_text import check_file_name, check_label, check_path_name, current_slot
from tests.cases import every_case

UNSAFE_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "x/../y",
    "/x",
    "x/",
    "x//y",
    "~/x",
    ".git/hooks",
    "a\x00",
    "a\n",
    "x" * 101,
    "x\\y",
    "-x",
    "ä",
]


@every_case("name", UNSAFE_NAMES)
def test_a_recipe_with_an_unsafe_name_is_refused(name):
    with pytest.raises(ConfigError, match=r"name: the name becomes a folder below runs/"):
        resolve({**load_recipe("kuhn-tiny"), "name": name})


@every_case("name", [*UNSAFE_NAMES, "a/b", "a b", "a=b", 5, None])
def test_an_unsafe_file_name_is_refused(name):
    with pytest.raises(ValueError, match="not a file name"):
        check_file_name(name)


@every_case("name", [*UNSAFE_NAMES, "a/b", "[bold]x", "a b"])
def test_a_bot_whose_name_breaks_metrics_is_refused(name):
    with pytest.raises(ConfigError, match=r"bots\.(.|\n)*a name in metrics"):
        resolve({**load_recipe("kuhn-tiny"), "bots": {name: {"name": "random"}}})


@every_case("label", ["kuhn/3", "/", "[/b]", "[bold]x", "a\x1b[31m", "a\nb", "", " "])
def test_a_label_that_breaks_metrics_and_tables_is_refused(label):
    with pytest.raises(ConfigError, match=r"environments\.0\.label: a name in metrics and tables"):
        resolve({**load_recipe("kuhn-tiny"), "environments": [{"name": "kuhn_poker", "label": label}]})


def test_usual_names_are_accepted_and_the_old_key_games_is_read(tmp_path):
    for name in recipe_names():
        assert check_path_name(name) == name
    assert check_path_name("race mars:as_released") and check_path_name("kuhn_3.b")  # names of runs of earlier versions
    assert check_label("hanabi_simple") and check_label("mcts(1000)".replace("(", "=").rstrip(")"))
    assert check_file_name("past-000040.safetensors")
    assert resolve(OLD_KEYS) == resolve(NEW_KEYS)
    file = tmp_path / "mine.yaml"
    file.write_text("extends: kuhn-tiny\ngames:\n  - {name: nim}\n")
    data = recipe.load_recipe(str(file))
    assert data["environments"] == [{"name": "nim"}] and "games" not in data
    assert recipe.apply_overrides(data, ["games.0.weight=2"])["environments"] == [{"name": "nim", "weight": 2}]
    with pytest.raises(ConfigError, match="both 'environments' and 'games'"):
        resolve({**OLD_KEYS, **NEW_KEYS})


OLD_KEYS, NEW_KEYS = {"games": [{"name": "nim"}]}, {"environments": [{"name": "nim"}]}


@pytest.mark.parametrize(
    ("old_name", "new_name"),
    [("games", "environments"), ("agents", "players"), ("games.solver", "environments.solver"), ("credit", "credit")],
)
def test_an_old_slot_name_is_mapped_to_the_current_one(old_name, new_name):
    assert current_slot(old_name) == new_name and current_slot(new_name) == new_name


@pytest.mark.parametrize("slot", ["games", "environments"])
def test_a_plug_in_from_outside_may_name_its_slot_by_the_old_or_new_word(slot, tmp_path, monkeypatch):
    name = f"old_{slot}"
    text = f'SLOT = "{slot}"\n\n\ndef {name}():\n    """One."""\n'
    (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "pack.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sparring.config.plugins.outside._loaded", {})
    assert slot_of(f"pack.{name}") == "environments"


def run_cli(*arguments):
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("option", ["--game", "--environment"])
def test_the_command_line_accepts_game_and_environment(option):
    report = json.loads(
        run_cli("evaluate", "--agent", "random", option, "kuhn_poker", "--games", "2", "--no-exact", "--json")
    )
    assert {row["game"] for row in report["matches"]} == {"kuhn_poker"}


@pytest.mark.parametrize(
    ("old_name", "new_name", "name"), [("agents", "players", "minimax"), ("games", "environments", "nim")]
)
def test_sparring_list_accepts_old_and_new_names(old_name, new_name, name):
    assert run_cli("list", old_name) == run_cli("list", new_name) and name in run_cli("list", old_name)
