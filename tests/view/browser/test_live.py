"""A page that is open while a run writes, and while its folder is taken away."""

import shutil
import time

import pytest

from tests.view import run_made as made

SOON = 2000  # milliseconds in which a page must show what is new


@pytest.fixture
def live(tmp_path, serve):
    """Return a run's folder and the viewer over it."""
    folder = made.write_run(tmp_path / "runs" / "kuhn", steps=(10,))
    with serve(folder.parent) as served:
        yield folder, served


def test_the_table_of_runs_shows_a_new_step(visitor, live):
    folder, served = live
    page = visitor.open(served, "?view=runs")
    assert "30" in page.inner_text("table.runs tbody td.number >> nth=0")
    made.write_figures(folder, [31])
    page.wait_for_selector("table.runs tbody td.number:has-text('31')", timeout=SOON)


def test_curves_get_their_new_points(visitor, live):
    folder, served = live
    page = visitor.open(served, "?view=curves&metrics=loss&smooth=0")
    made.write_figures(folder, [31])
    made.append(folder / "metrics.jsonl", {"step": 32, "loss": 77.0})
    page.wait_for_selector("[data-metric=loss] .readout:has-text('77')", timeout=SOON)


def test_the_finder_shows_new_plays(visitor, live):
    folder, served = live
    page = visitor.open(served, "?view=replay")
    made.write_step(folder, 20, [made.episode(80)])
    page.wait_for_selector("table.plays a:has-text('80')", timeout=SOON)


def test_a_run_that_begins_is_found(visitor, live):
    folder, served = live
    page = visitor.open(served, "?view=runs")
    made.write_run(folder.parent / "second", steps=())
    page.wait_for_selector("table.runs th:has-text('second')", timeout=3 * SOON)


def test_a_page_that_is_hidden_asks_nothing(visitor, live):
    _, served = live
    page = visitor.open(served, "?view=runs")
    page.evaluate("() => { Object.defineProperty(document, 'hidden', { get: () => true }); document.dispatchEvent(new Event('visibilitychange')); }")
    page.wait_for_timeout(1200)  # what was under way
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2200)
    assert asked == []


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
