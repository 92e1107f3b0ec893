"""The guides by hand: how long they are, and that their recipes are valid."""

import re

import pytest
import yaml

from sparring import config
from sparring.config.recipe import load_recipe
from tests.cases import every_case
from tests.docs.loading import ROOT

GUIDES = sorted((ROOT / "docs").glob("*.md"))
LIMIT = 1_500  # words of a guide, without code, tables and generated parts


def num_words(text):
    text = re.sub(r"<!-- (table|figure): .*?<!-- end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return len(" ".join(line for line in text.splitlines() if not line.startswith("|")).split())


def test_words_are_counted_without_code_tables_and_generated_parts():
    text = "one two\n```\ncode\n```\n| a | b |\n<!-- table: x -->\nmany words\n<!-- end -->three <!-- figure: y -->4<!-- end -->"
    assert num_words(text) == 3


@every_case("page", GUIDES, ids=lambda page: page.name)
def test_a_guide_is_at_most_1500_words_long(page):
    assert num_words(page.read_text(encoding="utf-8")) <= LIMIT


def test_there_are_at_most_45_pages_by_hand():
    assert 30 <= len(GUIDES) <= 45


def recipes(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    return re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("name", ["my-model", "stronger-opponent"])
def test_the_recipes_of_a_guide_are_valid(name, tmp_path):
    assert recipes(name)
    for index, recipe in enumerate(recipes(name)):
        path = tmp_path / f"{index}.yaml"
        path.write_text(yaml.safe_dump({"extends": "kuhn-tiny", **yaml.safe_load(recipe)}))
        config.resolve(load_recipe(str(path)))
