"""Names of recipes, bots and files lead nowhere, and fit into the paths, metrics and tables they become part of."""

import pytest
import yaml
from typer.testing import CliRunner

from sparring import cli
from sparring.config import resolve
from sparring.config.recipe import load_recipe, recipe_names
from sparring.core.errors import ConfigError
from sparring.core.foreign_text import check_file_name, check_label, check_path_name
from tests.cases import every_case

ELSEWHERE = ["", ".", "..", "../x", "x/../y", "/x", "x/", "x//y", "~/x", ".git/hooks", "a\x00", "a\n", "x" * 101, "x\\y", "-x", "ä"]


@every_case("name", ELSEWHERE)
def test_a_recipe_whose_name_leads_elsewhere_is_refused(name):
    with pytest.raises(ConfigError, match=r"name: the name becomes a folder below runs/"):
        resolve({**load_recipe("kuhn-tiny"), "name": name})


@every_case("name", [*ELSEWHERE, "a/b", "a b", "a=b", 5, None])
def test_a_file_name_that_leads_elsewhere_is_refused(name):
    with pytest.raises(ValueError, match="no name of a file"):
        check_file_name(name)


@every_case("name", [*ELSEWHERE, "a/b", "[bold]x", "a b"])
def test_a_bot_whose_name_breaks_metrics_is_refused(name):
    with pytest.raises(ConfigError, match=r"bots\.(.|\n)*a name in metrics"):
        resolve({**load_recipe("kuhn-tiny"), "bots": {name: {"name": "random"}}})


@every_case("label", ["kuhn/3", "/", "[/b]", "[bold]x", "a\x1b[31m", "a\nb", "", " "])
def test_a_label_that_breaks_metrics_and_tables_is_refused(label):
    with pytest.raises(ConfigError, match=r"environments\.0\.label: a name in metrics and tables"):
        resolve({**load_recipe("kuhn-tiny"), "environments": [{"name": "kuhn_poker", "label": label}]})


def test_names_in_use_are_taken():
    for name in recipe_names():
        assert check_path_name(name) == name
    assert check_path_name("race mars:as_released") and check_path_name("kuhn_3.b")  # runs of earlier versions
    assert check_label("hanabi_simple") and check_label("mcts(1000)".replace("(", "=").rstrip(")"))
    assert check_file_name("past-000040.safetensors")


@pytest.mark.parametrize("name", ["../out", "deep/../../../out"])
def test_a_recipe_makes_no_folder_outside_of_runs(tmp_path, monkeypatch, name):
    home = tmp_path / "a" / "b"
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    recipe = home / "r.yaml"
    recipe.write_text(yaml.safe_dump({"extends": "kuhn-tiny", "name": name, "steps": 1, "rollout": {"games_per_step": 8}}))
    outcome = CliRunner().invoke(cli.app, ["train", str(recipe), "--overwrite"])
    assert isinstance(outcome.exception, ConfigError)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "r.yaml"]
