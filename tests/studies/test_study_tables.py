"""Tables that `sparring reproduce` writes, and the comparison with published results."""

import json
from pathlib import Path

import pytest

from sparring.core.errors import ConfigError
from studies.common import study, study_tables
from studies.common.result_figures import Results
from studies.common.study import QUICK_NOTE, load, study_names

ROOT = Path(__file__).parents[2]
STUDY = load("demo-seeds")
ROW = {"recipe": "demo", "level": 0.1, "starts": "all", "values": {"nash_conv": {"0": 0.1, "1": 0.2}}}
DOCUMENT = {
    "command": "sparring reproduce x",
    "setting": dict(STUDY.setting),
    "commit": "0123abc",
    "versions": {"python": "3.11"},
    "machine": {},
    "date": "2026-11-22",
    "rows": [ROW],
}


def published(name):
    return json.loads(study.published_path(name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", study_names())
def test_a_study_writes_the_tables_of_its_page(name, tmp_path):
    files = study_tables.write(name, published(name), tmp_path)
    assert json.loads((tmp_path / "results.json").read_text()) == published(name)
    tables = (tmp_path / "tables.md").read_text().splitlines()
    page = (ROOT / load(name).page).read_text(encoding="utf-8").splitlines()
    rows = [line for line in tables if line.startswith("|")]
    assert len(rows) > 5 and set(rows) <= set(page)
    assert all(path.is_file() for path in files)


@pytest.mark.parametrize("name", ["vpr-methods", "credit-lab"])
def test_the_charts_are_those_of_the_page(name, tmp_path):
    study_tables.write(name, published(name), tmp_path)
    paths = sorted((tmp_path / "images").iterdir())
    assert paths
    for path in paths:
        assert path.read_bytes() == (ROOT / "docs" / "images" / path.name).read_bytes()


def test_a_study_without_tables_gets_one_of_all_figures():
    text = study_tables.tables_page("no-such-study", Results(DOCUMENT))
    assert "| demo, 0.1, all | nash_conv | 0.150 [-0.485, 0.785] |" in text
    assert "Made by `sparring reproduce x` at commit 0123abc, 2026-11-22; python 3.11." in text


def test_results_of_an_installed_package_name_no_commit():
    line = Results({**DOCUMENT, "commit": None}).source()
    assert line.endswith("from an installed package, 2026-11-22; python 3.11.")


@pytest.fixture
def root(monkeypatch, tmp_path):
    """Return the root of a checkout with published results of a study."""
    path = tmp_path / "studies" / "x" / "results.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(DOCUMENT))
    monkeypatch.setattr(study_tables, "ROOT", tmp_path)
    monkeypatch.setattr(study_tables, "published_path", lambda name: tmp_path / "studies" / name / "results.json")
    return tmp_path


def test_equal_values_are_counted_and_the_largest_difference_is_named(root):
    assert study_tables.compare_with_published("x", DOCUMENT)[1].startswith("2 of 2 values per seed are equal")
    values = {"nash_conv": {"0": 0.1, "1": 0.5, "2": 0.3}, "seconds": {"0": 9.0}}
    lines = study_tables.compare_with_published("x", {**DOCUMENT, "rows": [{**ROW, "values": values}]})
    assert lines[0] == "Beside the published figures (studies/x/results.json of 2026-11-22, commit 0123abc):"
    assert lines[1].startswith("1 of 2 values")
    assert lines[2:] == ["demo, 0.1, all: nash_conv (seed 1) 0.5, published 0.2"]


def test_results_without_common_rows_are_not_compared(root):
    (message,) = study_tables.compare_with_published("x", {**DOCUMENT, "note": QUICK_NOTE})
    assert "none compared, as a quick run's figures measure nothing" in message
    other_document = {**DOCUMENT, "rows": [{**ROW, "recipe": "other"}]}
    assert study_tables.compare_with_published("x", other_document)[1] == "Both files have no value in common."
    assert study_tables.compare_with_published("y", DOCUMENT) == [
        "No figures of this study are published yet; none compared."
    ]


def test_publishing_replaces_only_the_file_of_the_full_setting(root):
    study_tables.check_publishable(STUDY, STUDY.setting)
    with pytest.raises(ConfigError, match="Omit --quick"):
        study_tables.check_publishable(STUDY, {**STUDY.setting, **STUDY.quick})
    new_document = {**DOCUMENT, "date": "2026-11-23"}
    (path,) = study_tables.publish_results("x", new_document)
    assert path == root / "studies" / "x" / "results.json"
    assert json.loads(path.read_text()) == new_document
    with pytest.raises(ConfigError, match="cannot be published: Its 'commit' is None"):
        study_tables.publish_results("x", {**DOCUMENT, "commit": None})
    assert json.loads(path.read_text()) == new_document
