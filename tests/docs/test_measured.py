"""Measurements: pages agree with results files, and results files name their source."""

import argparse
import json
import re
import sys

import pytest

from tests.cases import every_case
from tests.docs.loading import ROOT, load

measured = load("tools", "measured")
published = load("benchmarks", "published")
generate = load("tools", "generate")
PAGES = [page for page in generate.committed_pages() if measured.marks(page.read_text(encoding="utf-8"))]
FILES = sorted([*published.RESULTS.glob("*.json"), *(ROOT / "studies").glob("*/results.json")])
VALID_RESULTS = {
    "command": "python benchmarks/x.py --seeds 2",
    "setting": {},
    "commit": "0123abc",
    "versions": {"python": "3.11"},
    "machine": {},
    "date": "2026-11-22",
}


@every_case("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_agrees_with_its_results_files(page):
    text = page.read_text(encoding="utf-8")
    assert measured.fill_markers(text, measured.marker_functions()) == text, f"{page.name} is stale; run `make docs`"


def test_a_fully_generated_page_agrees_with_its_results_file():
    assert generate.SELF_PLAY.read_text(encoding="utf-8") == generate.pages()[generate.SELF_PLAY]


PAGES_WITHOUT_TYPED_INTERVALS = [
    page
    for page in generate.committed_pages()
    if page.name != "CHANGELOG.md" and page != generate.SELF_PLAY and page.parent.name != "log"
]


@every_case(
    "page", PAGES_WITHOUT_TYPED_INTERVALS, ids=[str(page.relative_to(ROOT)) for page in PAGES_WITHOUT_TYPED_INTERVALS]
)
def test_no_interval_in_a_table_is_written_by_hand(page):
    text = measured.MARK.sub("", page.read_text(encoding="utf-8"))
    lines_with_intervals = [
        line for line in text.splitlines() if line.startswith("|") and published.INTERVAL.search(line)
    ]
    assert not lines_with_intervals, (
        f"{lines_with_intervals[0]}\nstands in no file of benchmarks/results; put the table between markers (tools/measured.py)"
    )


def test_every_generated_table_is_on_a_page():
    names_on_pages = {name for page in PAGES for name in measured.marks(page.read_text(encoding="utf-8"))}
    assert {name for name in measured.marker_functions() if not name.endswith(".svg")} == names_on_pages


@every_case("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_a_results_file_names_the_source_of_its_figures(path):
    assert published.errors_of(json.loads(path.read_text(encoding="utf-8"))) == []


@every_case(
    ("row", "message"),
    [
        ({"game": "sudoku", "solved": 0.72}, "'solved' may be figures of skill"),
        ({"game": "kuhn_poker", "values": {"nash_conv": {"0": 0.1}}}, "'values' may be figures of skill"),
        ({"game": "sudoku", "solved": 0.72, "starts": "fresh"}, "write one of unseen, seen, all"),
        ({"game": "sudoku", "solved": "0.72 [0.52, 0.92]", "starts": "all"}, "keep 'values' per seed"),
        ({"values": {"solved": 0.7}, "starts": "all"}, "not a map from seeds"),
        ({"what": "sudoku", "value": 3.0, "unit": "solved"}, "'value' may be figures of skill"),
        ({"values": {}, "text": {"solved": "0.72 [0.52, 0.92]"}, "starts": "seen"}, "say in 'note'"),
    ],
)
def test_a_figure_of_skill_without_initial_states_or_seeds_is_refused(row, message):
    assert message in " ".join(published.errors_of({**VALID_RESULTS, "rows": [row]}))


@pytest.mark.parametrize(
    "row",
    [
        {"game": "sudoku", "values": {"solved": {"0": 0.7, "1": 0.6}}, "starts": "unseen"},
        {"game": "tic_tac_toe", "turns/s": 112068.4, "TextArena turns/s": 32786.8, "ratio": 3.4},
        {"what": "sudoku 9x9", "value": 5775.7, "unit": "verdicts/s"},
    ],
)
def test_skill_with_initial_states_and_speed_without_are_accepted(row):
    assert published.errors_of({**VALID_RESULTS, "rows": [row]}) == []


@every_case("key", published.KEYS)
def test_a_results_file_without_a_source_is_refused(key):
    document = {**VALID_RESULTS, "rows": []}
    del document[key]
    assert published.errors_of(document)


def parser():
    options = argparse.ArgumentParser()
    options.add_argument("study", choices=("methods", "noise"))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--variants", nargs="+", default=("a", "b"))
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("changes", nargs="*", default=["steps=100"])
    return options


@pytest.mark.parametrize(
    ("arguments", "is_full_setting"),
    [
        (["methods"], True),
        (["noise", "--workers", "1"], True),
        (["methods", "--seeds", "3"], True),
        (["methods", "--variants", "a", "b"], True),
        (["methods", "--seeds", "1"], False),
        (["methods", "--variants", "a"], False),
        (["methods", "steps=20"], False),
        (["methods", "steps=100", "threads=1"], False),
    ],
)
def test_only_the_full_setting_replaces_published_results(arguments, is_full_setting, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks/x.py", *arguments])
    assert published.settings(parser(), "study").out == (published.RESULTS if is_full_setting else published.TRIALS)


def test_a_results_file_keeps_the_whole_command_and_its_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["benchmarks/x.py", "noise", "steps=20", "a b", "--out", str(tmp_path / "own.json")]
    )
    row = {"game": "sudoku", "starts": "unseen", "values": {"solved": {"0": 0.5}}}
    path = published.record("x", [row], published.settings(parser(), "study"))
    document = json.loads(path.read_text(encoding="utf-8"))
    assert path == tmp_path / "own.json"
    assert document["command"] == "python benchmarks/x.py noise steps=20 'a b'"
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", document["commit"])
    assert document["setting"] == {"study": "noise", "seeds": 3, "variants": ["a", "b"], "changes": ["steps=20", "a b"]}
    assert {"python", "torch", "sparring", "numpy", "open_spiel", "transformers"} <= document["versions"].keys()


@pytest.mark.parametrize(
    ("words", "portable"),
    [
        (["a", "--out", "x", "b"], ["a", "b"]),
        (["--folder=x", "--workers", "2"], ["--workers", "2"]),
        (["--out", "--folder"], []),
    ],
)
def test_a_stored_command_contains_no_local_path(words, portable):
    assert published.without_local_paths(words) == portable


def test_record_and_check_refuse_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks/x.py", "noise", "--out", str(tmp_path / "own.json")])
    with pytest.raises(ValueError, match="'solved' may be figures of skill"):
        published.record("x", [{"solved": 0.5}], published.settings(parser(), "study"))
    assert not (tmp_path / "own.json").exists()


def test_markers_of_both_kinds_are_filled():
    text = "a\n<!-- table: t -->\nold\n<!-- end -->\nb <!-- figure: f -->1<!-- end --> c\n"
    page = measured.fill_markers(text, {"t": lambda: "new", "f": lambda: "0.5"})
    assert page == "a\n<!-- table: t -->\nnew\n<!-- end -->\nb <!-- figure: f -->0.5<!-- end --> c\n"
    assert measured.marks(text) == ["t", "f"]


@pytest.mark.parametrize(
    "text",
    [
        "<!-- table: u -->\n<!-- end -->",
        "<!-- table: t -->\nold\n",
        "<!-- table: t -->\nold\n<!-- table: t -->\nold\n<!-- end -->",
        "old <!-- end -->",
    ],
)
def test_a_marker_without_a_table_or_an_end_is_an_error(text):
    with pytest.raises(ValueError, match="<!-- end -->"):
        measured.fill_markers(text, {"t": lambda: "new"})


ROW = {"values": {"solved": {"0": 0.9, "10": 0.7, "2": 0.8}}, "intervals": {}}


def test_intervals_come_from_values_per_seed_and_stay_in_range():
    assert measured.values(ROW, "solved") == [0.9, 0.8, 0.7]
    assert measured.spread(ROW, "solved") == "0.80 [0.55, 1.05]"
    assert measured.spread(ROW, "solved", high=1.0) == "0.80 [0.55, 1.00]"
    assert measured.spread({"values": {"solved": {"0": 0.5}}}, "solved", low=0, high=1) == "0.50"
    assert (
        measured.spread({"values": {"solved": {"0": 0.5}}, "intervals": {"solved": [0.4, 0.61]}}, "solved")
        == "0.50 [0.40, 0.61]"
    )
    assert measured.spread({"text": {"solved": "0.7 [0.5, 0.9]"}}, "solved") == "0.7 [0.5, 0.9]"


def test_differences_are_paired_by_the_seeds_that_both_have():
    other_row = {"values": {"solved": {"2": 0.6, "0": 0.7, "7": 0.1}}}
    difference = measured.paired_difference(ROW, other_row, "solved")
    assert (round(difference.mean, 6), difference.count) == (0.2, 2)
    with pytest.raises(ValueError, match="share no seed"):
        measured.paired_difference(ROW, {"values": {"solved": {"7": 0.1}}}, "solved")


def test_a_row_is_selected_by_labels_that_match_one_row(monkeypatch):
    rows = [{"trained on": "a", "seed": 0}, {"trained on": "b", "seed": 0}]
    monkeypatch.setattr(measured, "document", lambda name: {"rows": rows})
    assert measured.row("x", trained_on="b") is rows[1]
    with pytest.raises(ValueError, match="has 2 rows"):
        measured.row("x", seed=0)
