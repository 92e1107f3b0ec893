"""Verdict words of comparison tables, corrected for the number of comparisons, and the note below the tables."""

import json
import re
from pathlib import Path

import pytest

from sparring.ops.statistics import mean_interval, wilson_ends
from studies.common.result_figures import (
    CORRECTION_NOTE,
    Results,
    chance_beyond,
    decide_comparisons,
    table_with_words,
    words_of_differences,
)
from studies.common.significance import share_probability, zero_probability
from studies.common.study import published_path, study_names
from studies.common.study_tables import module_of

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "studies").glob("*/page.md")])


def test_verdict_words_by_hand():
    """Holm's method decides p = 0.013 of (0.013, 0.13, 0.74), but nothing of (0.024, 0.13, 0.74)."""
    sure, open_interval, no_difference = ([0.4, 0.5, 0.6, 0.3], [0.9, 0.1, 0.5, 0.0], [0.1, -0.2, 0.15, 0.0])
    gains = [mean_interval(values) for values in (sure, open_interval, no_difference)]
    assert zero_probability(gains[0]) < 0.05 / 3
    assert words_of_differences(gains, "up", "down") == ["up", "not decided", "not decided"]
    assert words_of_differences([mean_interval([-value for value in sure])], "up", "down") == ["down"]
    weak_interval = mean_interval([0.2, 0.5, 0.5])
    assert (
        0.05 / 3 < zero_probability(weak_interval) < 0.06
        and words_of_differences([weak_interval, *gains[1:]], "up", "down") == ["not decided"] * 3
    )
    assert decide_comparisons([]) == [] and words_of_differences([], "up", "down") == []


def test_beyond_a_level_by_hand():
    interval = mean_interval([1.0, 2.0, 3.0])  # 2, standard error 0.577
    assert chance_beyond(interval, 1.0) == pytest.approx(zero_probability(mean_interval([0.0, 1.0, 2.0])))
    assert chance_beyond(interval, 1.0, above=False) == chance_beyond(interval, 2.5) == 1.0
    assert chance_beyond(mean_interval([1.0, 1.0]), 0.98) == 0.0 and chance_beyond(mean_interval([1.0]), 0.5) == 1.0


@pytest.mark.parametrize(("share", "count"), [(0.6, 50), (0.64, 50), (0.35, 40), (0.5, 7)])
def test_a_share_is_decided_if_wilsons_interval_excludes_the_level(share, count):
    low, high = wilson_ends(share, count, 0.95)
    assert (share_probability(share, count, 0.5) < 0.05) == (not low <= 0.5 <= high)


def test_an_empty_table_has_no_note_on_correction():
    assert CORRECTION_NOTE not in table_with_words(("a", "verdict"), [], []) and table_with_words(
        ("a", "verdict"), [("b",)], ["held"]
    ).endswith(CORRECTION_NOTE)


STUDIES = [name for name in study_names() if module_of(name) is not None]


@pytest.mark.parametrize("name", STUDIES)
def test_every_table_with_verdicts_says_that_they_are_corrected(name):
    page, path = module_of(name), published_path(name)
    results = Results(json.loads(path.read_text(encoding="utf-8")))
    for table in page.MARKERS.values():
        text = table(results)
        if re.search(r"\| verdict \|\n", text):
            assert CORRECTION_NOTE in text, text[:200]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_lead_of_a_page_agrees_with_the_corrected_words(page):
    text = page.read_text(encoding="utf-8").lower()
    assert "not after correction" not in text and "no correction for several comparisons" not in text
