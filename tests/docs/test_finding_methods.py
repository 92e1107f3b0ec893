"""docs/finding-methods.md: its names exist, and its lines to paste form valid recipes."""

import re
from pathlib import Path

import yaml

from sparring import config
from sparring.config.plugins import registry
from tests.cases import every_case
from tests.docs.loading import table_rows

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "finding-methods.md").read_text(encoding="utf-8")
BASE = {"environments": [{"name": "tic_tac_toe", "oracle": {"name": "minimax"}}], "rollout": {"games_per_step": 64}}
ROWS = table_rows(PAGE, ["the field's name", "where it is here", "lines to paste", "what differs"])


def pasted_sections(row):
    sections = [yaml.safe_load(text) for text in re.findall(r"`([a-z_]+: .*?)`(?= |,|;|$)", row[2])]
    return sections if all(isinstance(section, dict) for section in sections) else []


@every_case("row", ROWS, ids=lambda row: row[0])
def test_names_in_a_row_exist_and_its_lines_are_valid(row):
    assert len(row) == 4 and all(row), row
    for name, slot, folder_name in re.findall(r"\[`(\w+)`\]\(methods/([\w.]+)-(\w+)\.md\)", " ".join(row)):
        assert name == folder_name
        registry.load(slot, name)
    sections = pasted_sections(row)
    assert sections
    together = {}
    for section in sections:  # with the row's other sections, as an estimator may need a loss or a reward
        other_sections = {
            key: value
            for other_section in sections
            if not other_section.keys() & section.keys()
            for key, value in other_section.items()
            if key != "preset"
        }
        recipe = {**BASE, **other_sections, **section}
        recipe["rollout"] = {**BASE["rollout"], **recipe["rollout"]}
        if "preset" not in section:
            config.resolve(recipe)
        together = {**together, **section}
    together["rollout"] = {**BASE["rollout"], **together.get("rollout", {})}
    preset = together.pop("preset", None)
    config.resolve({**BASE, **together})
    if preset is not None:  # "or with `preset: NAME`": of the first plug-in that the row links
        slot, name = re.search(r"\(methods/([\w.]+)-(\w+)\.md\)", row[1]).groups()
        assert preset in registry.load(slot, name).presets


@every_case("row", ROWS, ids=lambda row: row[0])
def test_presets_and_options_in_words_belong_to_a_plugin_of_the_row(row):
    linked = [registry.load(slot, name) for slot, name in re.findall(r"\(methods/([\w.]+)-(\w+)\.md\)", " ".join(row))]
    for preset in re.findall(r"[Pp]reset:? `(\w+)`|`preset: (\w+)`", " ".join(row)):
        assert any("".join(preset) in plugin.presets for plugin in linked), row
    sections = {"rollout": config.RolloutConfig, "learner": config.LearnerConfig}
    for section, key in re.findall(r"`(rollout|learner)\.(\w+)`", " ".join(row)):
        assert key in sections[section].model_fields, row
    allowed_names = {option for plugin in linked for option in plugin.options} | {
        *registry.SLOTS,
        *config.RunConfig.model_fields,
    }
    allowed_names |= {plugin.name for plugin in linked} | {preset for plugin in linked for preset in plugin.presets}
    assert set(re.findall(r"`(\w+)`", row[1] + row[3])) <= allowed_names, row


def test_every_plugin_of_the_three_slots_is_on_the_page():
    """Estimators, losses and selection rules are listed, except for building blocks that are no published method."""
    linked = set(re.findall(r"\(methods/([\w.]+)-(\w+)\.md\)", PAGE))
    building_blocks = {("credit", "exact_advantage"), ("losses", "entropy_bonus"), ("losses", "kl_penalty")}
    building_blocks |= {("selection.curricula", "by_weight"), ("selection.replay", "none")}
    assert building_blocks.isdisjoint(linked)
    assert linked <= {(slot, name) for slot in registry.SLOTS for name in registry.names(slot)}
    assert "(finding-methods.md)" in (DOCS / "README.md").read_text(encoding="utf-8")


ESTIMATORS = (DOCS / "estimators.md").read_text(encoding="utf-8")
CHOICE = "| you have | take | lines in the recipe |\n|---|---|---|\n"


def choices():
    lines = ESTIMATORS.partition(CHOICE)[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_of_estimators_has_one_short_table():
    names = [re.match(r"\[`(\w+)`\]", row[1])[1] for row in choices()]
    assert 5 <= len(names) == len(set(names)) <= 8


@every_case("row", choices(), ids=lambda row: row[1].split("`")[1])
def test_the_lines_of_the_table_can_be_pasted_and_stand_on_another_page(row):
    together = {key: part for section in pasted_sections(row) for key, part in section.items()}
    assert together["credit"]["name"] == row[1].split("`")[1]
    together["rollout"] = {**BASE["rollout"], **together.get("rollout", {})}
    config.resolve({**BASE, **together})
    credit = re.search(r"`(credit: .*?)`", row[2])[1]
    assert any(
        credit in (DOCS / page).read_text(encoding="utf-8") for page in ("finding-methods.md", "process-rewards.md")
    )
