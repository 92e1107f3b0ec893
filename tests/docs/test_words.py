"""docs/words.md: every key, metric, slot, record, module and function that it names exists."""

import re
from importlib import import_module

import sparring
from sparring import config
from sparring.config.plugins import registry
from sparring.report.explanations import glossary
from tests.cases import every_case
from tests.docs.loading import ROOT, table_rows

PAGE = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")
ROWS = table_rows(PAGE, ["word", "what it means here", "where"])
PLACE = re.compile(r"(key|metric|slot|record|module|function) `([^`]+)`")
RECORDS = (
    *("core.records", "api", "league.matchmakers.base", "methods.losses.base", "run.step"),
    *("methods.selection.curricula.base", "league.meta_game"),
)


def is_key(name):
    """Return whether the configuration has a key; N stands for a list index."""
    section = config.RunConfig
    for key_part in (key_part for key_part in name.split(".") if key_part != "N"):
        if key_part not in getattr(section, "model_fields", {}):
            return False
        hint = section.model_fields[key_part].annotation
        section = next((inner for inner in getattr(hint, "__args__", ())), hint)
    return True


def is_record(name):
    record, _, field = name.partition(".")
    modules = [import_module(f"sparring.{module}") for module in RECORDS]
    classes = [getattr(module, record) for module in modules if hasattr(module, record)]
    return bool(classes) and (not field or hasattr(classes[0], field))


EXISTS = {
    "key": is_key,
    "metric": lambda name: name in glossary(),
    "slot": lambda name: name in registry.SLOTS,
    "record": is_record,
    "module": lambda name: (ROOT / "src" / "sparring" / name).is_file(),
    "function": lambda name: name in sparring.__all__,
}


def faults(row):
    unread = PLACE.sub("", row[2]).replace(";", "").strip()
    missing = [text for place_kind, text in PLACE.findall(row[2]) if not EXISTS[place_kind](text)]
    return [*missing, *([unread] if unread else [])]


@every_case("row", ROWS, ids=lambda row: row[0])
def test_the_places_of_a_word_exist(row):
    assert len(row) == 3 and all(row)
    assert faults(row) == []


@every_case(
    ("cell", "missing"),
    [
        ("key `environments.N.orakel`", ["environments.N.orakel"]),
        ("key `rollout.starts.more`", ["rollout.starts.more"]),
        ("metric `nash`", ["nash"]),
        ("slot `environments`; slot `plyers`", ["plyers"]),
        ("record `Turn.asked`", ["Turn.asked"]),
        ("record `Tern`", ["Tern"]),
        ("module `rollout/plays.py`", ["rollout/plays.py"]),
        ("function `trial`", ["trial"]),
        ("file `run.py`", ["file `run.py`"]),
    ],
)
def test_a_place_that_does_not_exist_is_refused(cell, missing):
    assert faults(["word", "meaning", cell]) == missing


def test_a_word_is_explained_once():
    words = [row[0] for row in ROWS]
    assert len(words) == len(set(words)) > 40
    assert "(words.md)" in (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
