"""The lanes of workers in a browser."""

import pytest

from tests.view import run_made as made

TOTALS = {"workers": 3.0, "workers_idle": 0.5, "seconds/play": 0.25, "seconds/round": 1.0}


@pytest.fixture(scope="module")
def served(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    own = {"worker/0/playing": 0.75, "worker/0/ready": 1.0, "worker/1/playing": 0.25}
    more = {"worker/1/ready": 0.5, "worker/1/lost": 1.0, "lost_workers": 1.0}
    for name, figures in (("each", {**TOTALS, **own, **more}), ("totals", TOTALS)):
        run = made.write_run(folder / name, steps=())
        made.append(run / "timing.jsonl", *({"step": n, **figures} for n in range(31, 331)))
    with serve(folder) as served:
        yield served


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1366, 390])
def test_a_lane_of_each_worker_says_what_it_did(visitor, served, theme, width):
    page = visitor.open(served, "?view=workers&run=0", theme=theme, width=width)
    page.wait_for_selector("table.lanes tbody tr")
    assert page.locator("table.lanes tbody tr").count() == 3  # two workers, and all
    said = page.get_attribute("svg.lane >> nth=1", "aria-label")
    assert said.startswith("worker 1: plays 25.0 %, waits 25.0 %, not there 50.0 %; lost 300 times")
    assert "2 steps to a bar" in page.inner_text(".lanes-of")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_a_lane_stands_for_all_where_no_more_is_recorded_and_empty_figures_have_no_chart(visitor, served):
    page = visitor.open(served, "?view=workers&run=1")
    page.wait_for_selector("table.lanes tbody tr")
    assert page.locator("table.lanes tbody tr").count() == 1
    assert "nothing is recorded: one lane is of all 3" in page.inner_text(".lanes-of")
    page = visitor.open(served, "?view=workers&run=0")
    page.wait_for_selector(".charts .card")
    titles = page.locator(".charts h2").all_text_contents()
    assert len(titles) == 3 and not any(title.startswith("Lag") for title in titles)
