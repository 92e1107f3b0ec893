"""What a page asks for first, and what it draws before the rest has come."""

import threading

import pytest

from sparring.view import static_pages
from sparring.view.position_pictures import Boards
from tests.view import run_made as made

ASKED = "() => performance.getEntriesByType('resource').map((one) => new URL(one.name)).map((one) => one.pathname)"
QUERIES = {
    "runs": "?view=runs",
    "curves": "?view=curves&runs=0&metrics=loss",
    "replay": "?view=replay&run=0&step=30&episode=120",
    "league": "?view=league",
    "workers": "?view=workers",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    made.write_run(folder / "kuhn")
    with serve(folder) as served:
        yield served


@pytest.mark.parametrize("view", QUERIES)
def test_each_file_and_the_first_answer_are_asked_once(visitor, served, view):
    asked = visitor.open(served, QUERIES[view]).evaluate(ASKED)
    own = [name.removeprefix("/static/") for name in asked if name.endswith(".js")]
    modules = sorted(name for name in own if name != "theme.js")
    assert modules == sorted(static_pages.modules(view))  # none is found late, none for nothing
    data = [name for name in asked if name.startswith("/api/") and "changes" not in name]
    assert sorted(data) == sorted(set(data))


def test_an_answer_that_was_asked_ahead_is_not_shown_twice(visitor, served):
    page = visitor.open(served, "?view=runs")
    page.click("nav [data-view=league]")
    page.wait_for_selector("h1:text('League')")
    page.click("nav [data-view=runs]")
    page.wait_for_selector("table.runs")
    assert page.evaluate(ASKED).count("/api/runs") == 3


def test_text_is_drawn_before_the_picture(visitor, served, monkeypatch):
    may, draw = threading.Event(), Boards.draw

    def late(self, *arguments):
        may.wait(20)
        return draw(self, *arguments)

    monkeypatch.setattr(Boards, "draw", late)
    page = visitor.open(served, QUERIES["replay"], loaded=False)
    try:
        page.wait_for_selector("article.turn")
        assert page.inner_text(".board-coming") == "drawing …"
        assert page.get_attribute("html", "data-loaded") is None
    finally:
        may.set()
    page.wait_for_selector("html[data-loaded]")
    page.wait_for_selector(".board-box > :not(.board-coming)")
    assert page.locator(".board-coming").count() == 0
