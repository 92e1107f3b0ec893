"""The table of runs in a browser: columns that sort, badges of health, what an empty page says."""

import json

import pytest

from tests.view import run_made as made

LONG = "loss is 12345.6 at step 7: above 100 for 5 records in a row. Usual remedy: lower it. " * 3


@pytest.fixture(scope="module")
def served(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    for name, day, seconds, rate in (("a", 3, 60.0, 0.9), ("b", 1, 7200.0, 0.7), ("c", 2, 1.0, 0.8)):
        run = made.write_run(folder / name, steps=())
        starts = [{"date": f"2026-11-0{day}T04:10:11+00:00"}]
        (run / "provenance.json").write_text(json.dumps({"starts": starts}))
        made.append(run / "timing.jsonl", {"step": 31, "seconds/round": seconds})
        made.append(run / "metrics.jsonl", {"step": 31, "legal_rate": rate})
    event = {"step": 7, "metric": "loss", "message": LONG, "value": 12345.6, "stops": False}
    made.append(folder / "a" / "health.jsonl", event)
    with serve(folder) as served:
        yield served


def order(page):
    """Return the names of the runs from above."""
    return page.locator("table.runs tbody th a").all_text_contents()


@pytest.mark.parametrize(("title", "down"), [("Started", "acb"), ("Duration", "bac"), ("legal_rate", "acb"), ("Run", "cba"), ("Health", "abc")])
def test_a_title_sorts_the_table(visitor, served, title, down):
    page = visitor.open(served, "?view=runs")
    assert order(page) == ["a", "b", "c"]
    page.click(f"thead button:has-text('{title}')")
    page.wait_for_selector(f"th[aria-sort=descending]:has-text('{title}')")
    assert "".join(order(page)) == down
    page.click(f"thead button:has-text('{title}')")
    page.wait_for_selector(f"th[aria-sort=ascending]:has-text('{title}')")
    assert order(page) == (list("bca") if title == "Health" else list(reversed(down)))


def test_a_run_has_a_start_and_a_duration_and_figures_say_which_way_is_good(visitor, served):
    page = visitor.open(served, "?view=runs")
    row = page.inner_text("tr[data-run='1']")
    assert "1 Nov 2026" in row and "2 h 0 min" in row
    assert "higher is better" in page.inner_text("thead th:has-text('legal_rate')")


def test_health_is_a_badge_and_its_words_come_on_demand(visitor, served):
    page = visitor.open(served, "?view=runs", width=1280)
    heights = page.locator("table.runs tbody tr").evaluate_all("rows => rows.map((row) => row.offsetHeight)")
    assert max(heights) < 80
    badge = page.locator("tr[data-run='0'] button:has-text('2 warnings')")
    assert "loss is 12345.6" in badge.get_attribute("title")
    assert "12345.6" not in page.inner_text("table.runs")
    badge.click()
    page.wait_for_selector("tr.health-said")
    assert LONG.strip() in page.inner_text("tr.health-said")  # all of it
    page.click("tr.health-said a")
    page.wait_for_selector("section:has-text('Health') td:has-text('12345.6')")
    assert LONG.strip() in page.inner_text("section:has-text('Health') tbody")


def test_a_page_without_runs_says_what_to_do(visitor, serve, tmp_path):
    with serve(tmp_path) as served:
        page = visitor.open(served, "?view=runs")
        assert "sparring train" in page.inner_text("#view code")
        made.write_run(tmp_path / "first", steps=())
        page.wait_for_selector("table.runs", timeout=8000)


def test_plays_that_wait_for_the_index_are_said(visitor, serve, tmp_path):
    folder = made.write_run(tmp_path / "kuhn", steps=(10,))
    with serve(tmp_path) as served:
        made.write_step(folder, 20, [made.episode(80)])
        page = visitor.open(served, "?view=runs")
        page.wait_for_selector("td.plays:has-text('4 plays so far')")
        page.click("td.plays a")
        page.wait_for_selector("table.plays a:has-text('80')")
        page.click("nav >> text=Runs")
        page.wait_for_selector("td.plays:has-text('5 plays')")
