"""A page that is open while a run writes, and while its folder is taken away."""

import shutil
import threading
import time

import pytest

from sparring.view import static_pages
from sparring.view.position_pictures import PositionPictures
from tests.view import run_writer

SOON = 2000  # milliseconds in which a page must show what is new


@pytest.fixture
def live(tmp_path, serve):
    folder = run_writer.write_run(tmp_path / "runs" / "kuhn", steps=(10,))
    with serve(folder.parent) as served:
        yield folder, served


def test_runs_steps_curves_and_plays_that_are_new_are_shown(visitor, live):
    folder, served = live
    page = visitor.open(served, "?view=runs")
    assert "30" in page.inner_text("table.runs tbody td.number >> nth=0")
    run_writer.write_figures(folder, [31])
    page.wait_for_selector("table.runs tbody td.number:has-text('31')", timeout=SOON)
    page = visitor.open(served, "?view=curves&metrics=loss&smooth=0")
    run_writer.write_figures(folder, [32])
    run_writer.append(folder / "metrics.jsonl", {"step": 33, "loss": 77.0})
    page.wait_for_selector("[data-metric=loss] .readout:has-text('77')", timeout=SOON)
    page = visitor.open(served, "?view=replay")
    run_writer.write_step(folder, 20, [run_writer.episode(80)])
    page.wait_for_selector("table.plays a:has-text('80')", timeout=SOON)
    page = visitor.open(served, "?view=runs")
    run_writer.write_run(folder.parent / "second", steps=())
    page.wait_for_selector("table.runs th:has-text('second')", timeout=3 * SOON)


def test_a_page_that_is_hidden_asks_nothing(visitor, live):
    _, served = live
    page = visitor.open(served, "?view=runs")
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', { get: () => true }); document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.wait_for_timeout(1200)  # what was under way
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_timeout(2200)
    assert requests == []


def test_a_folder_that_vanishes_is_said(visitor, live):
    folder, served = live
    page = visitor.open(served, "?view=runs")
    shutil.rmtree(folder)
    page.wait_for_selector("table.runs .state:has-text('gone')", timeout=3 * SOON)


def test_half_a_line_and_a_torn_file_are_no_end(visitor, live):
    folder, served = live
    page = visitor.open(served, "?view=runs")
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as stream:
        stream.write('{"step": 31, "lo')
        stream.flush()
        time.sleep(0.2)
        stream.write('ss": 0.25}\n')
    page.wait_for_selector("table.runs tbody td.number:has-text('31')", timeout=SOON)
    part = folder / "episodes/part-000010.parquet"
    torn = part.with_suffix(".torn")
    torn.write_bytes(part.read_bytes()[:-20])
    torn.replace(part)
    page.click("nav >> text=Replays")
    page.wait_for_selector(".note:has-text('part-000010')", timeout=3 * SOON)


def test_a_server_that_ends_is_said(visitor, live):
    visitor.allowed = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    _, served = live
    page = visitor.open(served, "?view=runs")
    served.end()
    page.wait_for_selector("#live:has-text('does not answer')", timeout=3 * SOON)


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
    run_writer.write_run(folder / "kuhn")
    with serve(folder) as served:
        yield served


@pytest.mark.parametrize("view", QUERIES)
def test_each_file_and_the_first_answer_are_asked_once(visitor, served, view):
    paths = visitor.open(served, QUERIES[view]).evaluate(ASKED)
    scripts = [name.removeprefix("/static/") for name in paths if name.endswith(".js")]
    modules = sorted(name for name in scripts if name != "theme.js")
    assert modules == sorted(static_pages.modules(view))  # none is found late, none for nothing
    data = [name for name in paths if name.startswith("/api/") and "changes" not in name]
    assert sorted(data) == sorted(set(data))


def test_an_answer_that_was_asked_ahead_is_not_shown_twice(visitor, served):
    page = visitor.open(served, "?view=runs")
    page.click("nav [data-view=league]")
    page.wait_for_selector("h1:text('League')")
    page.click("nav [data-view=runs]")
    page.wait_for_selector("table.runs")
    assert page.evaluate(ASKED).count("/api/runs") == 3


def test_text_is_drawn_before_the_picture(visitor, served, monkeypatch):
    may, draw = threading.Event(), PositionPictures.draw

    def late(self, *arguments):
        may.wait(20)
        return draw(self, *arguments)

    monkeypatch.setattr(PositionPictures, "draw", late)
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
