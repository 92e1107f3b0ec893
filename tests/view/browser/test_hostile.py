"""A run whose texts contain script, markup or misleading characters."""

import json
from dataclasses import replace

import pytest

from tests.view import run_writer

MARKUP = (
    "<script>window.hit=1</script><img src=x onerror=window.hit=1>"
    "<svg onload=window.hit=1><a href='javascript:window.hit=1'>go</a>"
    "<iframe srcdoc='<script>parent.hit=1</script>'></iframe></script></style></title>"
    '" onmouseover="window.hit=1" {{7*7}} data:text/html,<script>window.hit=1</script>'
)
MISLEADING_CHARACTERS = "safe\u202egnp.exe\u202c \u200bzero \u2066isolate\u2069 \x07bell \x1b[31mred \ufeff"
HOSTILE_TEXT = f"{MARKUP} {MISLEADING_CHARACTERS}"
NAME = "<img src=x onerror=window.hit=1>\u202egnp"
METRIC = "<img src=x onerror=window.hit=1>"
NUM_CHARACTERS = 10_000_000


def episode_of(text):
    candidate = run_writer.turn(0, text, prompt=text, candidate=1, has_verdict=False)
    legal = {"legal_actions": (text, "bet"), "view": text, "candidates": (candidate,)}
    first_turn = run_writer.turn(0, text, prompt=text, has_verdict=False, **legal)
    second_turn = run_writer.turn(1, text, event="illegal", prompt=text)
    play = run_writer.episode(40, first_turn, second_turn, agents=(text, "learner"))
    return replace(play, roles=(text, "second"), game=text)


@pytest.fixture(scope="module")
def server_url(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    hostile = run_writer.write_run(folder / NAME, steps=())
    run_writer.append(hostile / "metrics.jsonl", {"step": 31, METRIC: 1.0, "loss": 0.5})
    run_writer.append(
        hostile / "health.jsonl", {"step": 6, "metric": METRIC, "message": HOSTILE_TEXT, "value": 1.0, "stops": True}
    )
    plays = [
        episode_of(HOSTILE_TEXT),
        run_writer.episode(41, run_writer.turn(0, "x" * NUM_CHARACTERS, has_verdict=False)),
    ]
    run_writer.write_step(hostile, 10, plays)
    with serve(folder) as server_url:
        yield server_url


VIEWS = {
    "runs": "?view=runs",
    "curves": "?view=curves&metrics=" + METRIC.replace(" ", "%20") + ",loss",
    "finder": "?view=replay&f.text=" + "%3Cscript%3E",
    "replay": "?view=replay&run=0&step=10&episode=40&siblings=1",
    "without colour": "?view=replay&run=0&step=10&episode=40&colour=none",
    "one seat": "?view=replay&run=0&step=10&episode=40&seat=0&turn=1",
    "league": "?view=league",
    "workers": "?view=workers",
}
ACTIVE_ELEMENTS = "script, iframe, object, embed, svg [onload], img:not(.board), a[href^=javascript], [onerror]"


@pytest.mark.parametrize("name", VIEWS)
def test_texts_of_a_run_are_shown_as_text_without_scripts_or_markup(visitor, server_url, name):
    page = visitor.open(server_url, VIEWS[name])
    page.wait_for_timeout(150)
    assert page.evaluate("() => window.hit") is None
    assert "Sparring" in page.title()
    num_active = page.evaluate("(kinds) => document.querySelectorAll(`#view :is(${kinds})`).length", ACTIVE_ELEMENTS)
    assert num_active == 0
    if name not in ("league", "workers"):
        assert "onerror=window.hit=1>" in page.inner_text("#view")


def test_invisible_characters_are_shown_and_long_replies_are_truncated(visitor, server_url):
    page = visitor.open(server_url, VIEWS["replay"])
    chips = set(page.locator(".reply .chip").all_inner_texts())
    assert chips >= {"U+202E", "U+202C", "U+200B", "U+2066", "U+2069", "U+0007", "U+001B", "U+FEFF"}
    assert "\u202e" not in page.inner_text("#view")
    isolated = page.evaluate(
        "() => [...document.querySelectorAll('.text')].every((one) => getComputedStyle(one).unicodeBidi === 'isolate')"
    )
    assert isolated
    page = visitor.open(server_url, "?view=replay&run=0&step=10&episode=41")
    text = "() => document.querySelector('article.turn .reply').textContent.length"
    assert page.evaluate(text) < 21_000
    page.click("text=show all 10.0 M characters", timeout=30_000)  # the browser lays out 10 MB
    assert page.evaluate(text) >= NUM_CHARACTERS


def test_the_exported_page_runs_no_script_of_the_run(visitor, server_url, tmp_path):
    page = visitor.open(server_url, VIEWS["replay"])
    with page.expect_download() as download_info:
        page.keyboard.press("e")
    file = tmp_path / "replay.html"
    download_info.value.save_as(file)
    exported_page = visitor.context().new_page()
    exported_page.on("console", visitor.console)
    exported_page.goto(file.as_uri())
    exported_page.wait_for_selector("article.turn")
    assert exported_page.evaluate("() => window.hit") is None
    assert "<script>window.hit=1</script>" in exported_page.inner_text("#main")
    assert "U+202E" in exported_page.inner_text("#main")
    num_active = exported_page.evaluate(
        "(kinds) => document.querySelectorAll(`#main :is(${kinds})`).length", ACTIVE_ELEMENTS
    )
    assert num_active == 0


def test_texts_of_runs_and_addresses_are_shown_unchanged(visitor, server_url):
    page = visitor.open(server_url, VIEWS["without colour"])
    text = page.evaluate("() => document.querySelector('article.turn .reply').textContent")
    invisible_characters = {
        character: f"U+{ord(character):04X}" for character in MISLEADING_CHARACTERS if not character.isprintable()
    }
    expected = "".join(invisible_characters.get(character, character) for character in HOSTILE_TEXT)
    assert json.dumps(text) == json.dumps(expected)
    visitor.allowed = ("400", "404")
    page = visitor.open(server_url, "?view=replay&f.turns=%3Cimg%20src=x%20onerror=window.hit=1%3E")
    page.wait_for_selector("[role=alert]")
    page.goto(f"{server_url.base}?view=replay&run=0&step=10&episode=%3Cscript%3Ewindow.hit=1%3C/script%3E")
    page.wait_for_selector("[role=alert]")
    assert page.evaluate("() => window.hit") is None
