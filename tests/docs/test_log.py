"""Each entry of studies/log has the required fields and a row in the index."""

import re

import pytest

from tests.docs.loading import load

measured = load("tools", "measured")
log = load("tools/tables", "log")
FIELDS = ("Question", "Command", "Commit", "Verdict")
FIRST_OF_FORM = "2026-12-01"


def missing_fields(heading, text):
    """Return the required fields that an entry lacks; older entries need only a question and a verdict."""
    fields = FIELDS if heading[:10] >= FIRST_OF_FORM else ("Question", "Verdict")
    absent = [field for field in fields if not re.search(rf"(?m)^{field}: \S", text)]
    if heading[:10] >= FIRST_OF_FORM and not re.search(r"(?m)^Commit: [0-9a-f]{7,}.* Seeds: \S", text):
        absent.append("Seeds")
    return absent if re.match(r"20\d\d-\d\d-\d\d \S", heading) else ["date", *absent]


def test_every_entry_has_the_fields_of_the_form():
    assert len(log.entries()) >= 150
    assert [heading for _, heading, text in log.entries() if missing_fields(heading, text)] == []


@pytest.mark.parametrize(
    ("heading", "text", "missing"),
    [
        ("2026-12-01 New", "Question: q?\nCommand: c\nCommit: 1a2b3c4d. Seeds: 0, 1.\n\nVerdict: yes.", []),
        ("2026-12-01 New", "Question: q?\nVerdict: yes.", ["Command", "Commit", "Seeds"]),
        ("2026-12-01 New", "Question: q?\nCommand: c\nCommit: 1a2b3c4d.\nVerdict: yes.", ["Seeds"]),
        ("2026-11-02 Older", "Question: q?\nVerdict:\n", ["Verdict"]),
        ("1 December: undated", "Question: q?\nVerdict: no.", ["date"]),
    ],
)
def test_an_entry_that_lacks_a_field_is_noticed(heading, text, missing):
    assert missing_fields(heading, text) == missing


def test_a_row_of_the_index_has_verdict_seeds_and_commit(monkeypatch):
    text = "Question: q?\nCommand: c\nCommit: 1a2b3c4d. Seeds: 0, 1, 2.\n\nVerdict: it holds by 1.5 points. More."
    monkeypatch.setattr(log, "entries", lambda: [("2026-12.md", "2026-12-31 Kuhn: is it so? (negative)", text)])
    link = "[Kuhn: is it so? (negative)](2026-12.md#2026-12-31-kuhn-is-it-so-negative)"
    assert log.index().splitlines()[2] == f"| 2026-12-31 | {link} | it holds by 1.5 points | 0, 1, 2 | 1a2b3c4d |"
