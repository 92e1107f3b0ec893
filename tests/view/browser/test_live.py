"""An open page while a run writes, and while its folder is removed."""

import shutil
import threading
import time

import pytest

from sparring.view import static_pages
from sparring.view.position_pictures import PositionPictures
from tests.view import run_writer

UPDATE_TIMEOUT = 2000  # milliseconds within which a page must show new data


@pytest.fixture
def run_and_server(tmp_path, serve):
    folder = run_writer.write_run(tmp_path / "runs" / "kuhn", steps=(10,))
    with serve(folder.parent) as server_url:
        yield folder, server_url


def test_new_runs_steps_curves_and_episodes_are_shown(visitor, run_and_server):
    folder, server_url = run_and_server
    page = visitor.open(server_url, "?view=runs")
    assert "30" in page.inner_text("table.runs tbody td.number >> nth=0")
    run_writer.write_figures(folder, [31])
    page.wait_for_selector("table.runs tbody td.number:has-text('31')", timeout=UPDATE_TIMEOUT)
    page = visitor.open(server_url, "?view=curves&metrics=loss&smooth=0")
    run_writer.write_figures(folder, [32])
    run_writer.append(folder / "metrics.jsonl", {"step": 33, "loss": 77.0})
    page.wait_for_selector("[data-metric=loss] .readout:has-text('77')", timeout=UPDATE_TIMEOUT)
    page = visitor.open(server_url, "?view=replay")
    run_writer.write_step(folder, 20, [run_writer.episode(80)])
    page.wait_for_selector("table.plays a:has-text('80')", timeout=UPDATE_TIMEOUT)
    page = visitor.open(server_url, "?view=runs")
    run_writer.write_run(folder.parent / "second", steps=())
    page.wait_for_selector("table.runs th:has-text('second')", timeout=3 * UPDATE_TIMEOUT)


def test_a_hidden_page_sends_no_requests(visitor, run_and_server):
    _, server_url = run_and_server
    page = visitor.open(server_url, "?view=runs")
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', { get: () => true }); document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.wait_for_timeout(1200)  # waits for requests that were already sent
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_timeout(2200)
    assert requests == []


def test_a_removed_run_folder_is_reported(visitor, run_and_server):
    folder, server_url = run_and_server
    page = visitor.open(server_url, "?view=runs")
    shutil.rmtree(folder)
    page.wait_for_selector("table.runs .state:has-text('gone')", timeout=3 * UPDATE_TIMEOUT)


def test_an_incomplete_line_and_a_damaged_file_do_not_stop_the_page(visitor, run_and_server):
    folder, server_url = run_and_server
    page = visitor.open(server_url, "?view=runs")
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as stream:
        stream.write('{"step": 31, "lo')
        stream.flush()
        time.sleep(0.2)
        stream.write('ss": 0.25}\n')
    page.wait_for_selector("table.runs tbody td.number:has-text('31')", timeout=UPDATE_TIMEOUT)
    episode_file = folder / "episodes/part-000010.parquet"
    damaged_file = episode_file.with_suffix(".torn")
    damaged_file.write_bytes(episode_file.read_bytes()[:-20])
    damaged_file.replace(episode_file)
    page.click("nav >> text=Replays")
    page.wait_for_selector(".note:has-text('part-000010')", timeout=3 * UPDATE_TIMEOUT)


def test_a_stopped_server_is_reported(visitor, run_and_server):
    visitor.allowed = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    _, server_url = run_and_server
    page = visitor.open(server_url, "?view=runs")
    server_url.end()
    page.wait_for_selector("#live:has-text('does not answer')", timeout=3 * UPDATE_TIMEOUT)


REQUESTED_PATHS = (
    "() => performance.getEntriesByType('resource').map((one) => new URL(one.name)).map((one) => one.pathname)"
)
QUERIES = {
    "runs": "?view=runs",
    "curves": "?view=curves&runs=0&metrics=loss",
    "replay": "?view=replay&run=0&step=30&episode=120",
    "league": "?view=league",
    "workers": "?view=workers",
}


@pytest.fixture(scope="module")
def server_url(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    run_writer.write_run(folder / "kuhn")
    with serve(folder) as server_url:
        yield server_url


@pytest.mark.parametrize("view", QUERIES)
def test_each_file_and_the_first_answer_are_requested_once(visitor, server_url, view):
    paths = visitor.open(server_url, QUERIES[view]).evaluate(REQUESTED_PATHS)
    scripts = [name.removeprefix("/static/") for name in paths if name.endswith(".js")]
    modules = sorted(name for name in scripts if name != "theme.js")
    assert modules == sorted(static_pages.modules(view))  # all needed modules are preloaded, and no other
    data = [name for name in paths if name.startswith("/api/") and "changes" not in name]
    assert sorted(data) == sorted(set(data))


def test_a_preloaded_answer_is_shown_once(visitor, server_url):
    page = visitor.open(server_url, "?view=runs")
    page.click("nav [data-view=league]")
    page.wait_for_selector("h1:text('League')")
    page.click("nav [data-view=runs]")
    page.wait_for_selector("table.runs")
    assert page.evaluate(REQUESTED_PATHS).count("/api/runs") == 3


def test_text_is_drawn_before_the_picture(visitor, server_url, monkeypatch):
    may_draw, draw = threading.Event(), PositionPictures.draw

    def draw_later(self, *arguments):
        may_draw.wait(20)
        return draw(self, *arguments)

    monkeypatch.setattr(PositionPictures, "draw", draw_later)
    page = visitor.open(server_url, QUERIES["replay"], loaded=False)
    try:
        page.wait_for_selector("article.turn")
        assert page.inner_text(".board-coming") == "drawing …"
        assert page.get_attribute("html", "data-loaded") is None
    finally:
        may_draw.set()
    page.wait_for_selector("html[data-loaded]")
    page.wait_for_selector(".board-box > :not(.board-coming)")
    assert page.locator(".board-coming").count() == 0
