"""What users have typed stays readable: the recipes and suites of 38d3c34, as they were written then, resolve today."""

import json
from pathlib import Path

import pytest

from sparring.config import recipe, resolve
from sparring.measure.suite import load_suite

OLD = json.loads((Path(__file__).parent.parent / "data" / "recipes_v0.json").read_text(encoding="utf-8"))
RECIPES = sorted(name.removeprefix("recipes/").removesuffix(".yaml") for name in OLD if name.startswith("recipes/"))
SUITES = sorted(name for name in OLD if name.startswith("suites/"))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with the old recipes and suites."""
    folder = tmp_path_factory.mktemp("old")
    for name, text in OLD.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.rpartition("/")[2].startswith("_")])
def test_an_old_recipe_resolves_on_top_of_old_ones(written, monkeypatch, name):
    monkeypatch.setattr(recipe, "FOLDER", written / "recipes")
    assert resolve(recipe.load_recipe(name)).environments


@pytest.mark.parametrize("name", SUITES)
def test_an_old_suite_is_read_as_today_s(written, name):
    old, today = load_suite(str(written / name))[1], load_suite(Path(name).stem)[1]
    assert [row.model_dump() for row in old.rows] == [row.model_dump() for row in today.rows]
