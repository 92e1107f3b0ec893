"""The shell of a page: nothing in it can run, and no text of a stranger is markup or unseen."""

import base64
import hashlib
import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.foreign_text import HIDDEN, JOINERS, KEPT
from sparring.report.run_page import document, marked, style, templates

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


def macro(name, *values, **more):
    """Return what a macro of the templates makes of these values."""
    return str(getattr(templates().get_template("macros.html").module, name)(*values, **more))


@given(st.text(alphabet=st.characters()))
def test_any_text_is_seen_and_is_no_markup(text):
    shown = str(marked(text))
    assert macro("quoted", text, len(text)) == f"<bdi>{shown}</bdi>"  # in a template too
    assert not [c for c in shown if unicodedata.category(c) in HIDDEN and c not in KEPT + JOINERS]
    plain = re.sub(r'<span class="mark">(U\+[0-9A-F]{4,6})</span>', "", shown)
    assert "<" not in plain and ">" not in plain and '"' not in plain and "'" not in plain
    assert html.unescape(plain) == "".join(c for c in text if unicodedata.category(c) not in HIDDEN or c in KEPT + JOINERS)


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\x9b", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\ud800"])
def test_what_commands_a_reader_is_named_by_its_number(character):
    assert marked(f"a{character}b") == f'a<span class="mark">U+{ord(character):04X}</span>b'


def test_the_style_is_the_only_source_and_knows_dark_and_print():
    page = document("page.html", EVIL, body=EVIL).decode()
    digest = base64.b64encode(hashlib.sha256(re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'" in page
    assert "<script" not in page and "<img" not in page and page.count("<title>") == 1
    assert '<html lang="en">' in page and page.startswith("<!doctype html>")
    assert "url(" not in style() and "@import" not in style() and "</" not in style()
    assert "prefers-color-scheme: dark" in style() and "@media print" in style() and "details::details-content" in style()


def test_tables_name_their_rows_and_long_texts_are_counted():
    shown = macro("table", ("a", EVIL), [(EVIL, "1")], "of <it>")
    assert shown.count('scope="col"') == 2 and shown.count('scope="row"') == 1 and "<caption>of &lt;it&gt;</caption>" in shown
    assert "<script" not in shown + macro("folded", EVIL, caller=lambda: "") + macro("section", "x", EVIL, "body")
    assert macro("section", "x", "title", " \n").strip() == ""
    assert marked("a\n\tb\u200d") == "a\n\tb\u200d"
    shown = macro("quoted", "x" * 10_000_000)
    assert len(shown) < 1_500 and "and 9,998,800 more characters" in shown
    assert macro("quoted", "\u202eab").startswith('<bdi><span class="mark">U+202E')
    assert document("page.html", "\ud800", body="\ud800").decode()
