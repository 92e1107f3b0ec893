"""Every view in both themes and on a narrow screen: drawn completely, without refused requests."""

import json

import pytest

from tests.view import run_writer

VIEWS = {
    "runs": ("?view=runs", "Runs", "table.runs tbody tr"),
    "curves": ("?view=curves&runs=0,1,2&group=1&metrics=loss", "Curves", "[data-metric=loss] .plot *"),
    "finder": ("?view=replay", "Replays", "table.plays tbody tr"),
    "replay": ("?view=replay&run=0&step=30&episode=120", "kuhn_poker", "article.turn"),
    "one seat": ("?view=replay&run=0&step=30&episode=120&seat=1", "kuhn_poker", "article.turn"),
    "siblings": ("?view=replay&run=0&step=30&episode=120&siblings=1&beside=122", "kuhn_poker", "table.pair"),
    "league": ("?view=league", "League", "text=This run has no league: mirror self-play"),
    "workers": ("?view=workers", "Workers", "text=No workers"),
}


@pytest.fixture(scope="module")
def server_url(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        run_writer.write_run(folder / f"kuhn-{seed}", seed=seed)
    with serve(folder) as server_url:
        yield server_url


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize(("theme", "width"), [("light", 1366), ("dark", 1366), ("light", 390)], ids=str)
def test_a_view_is_drawn(visitor, server_url, name, theme, width):
    query, heading, selector = VIEWS[name]
    page = visitor.open(server_url, query, theme=theme, width=width)
    assert heading in page.inner_text("h1")
    page.wait_for_selector(selector)
    assert page.get_attribute("html", "data-theme") == theme
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('button, a, input, select')].filter((one) =>"
        " !(one.textContent.trim() || one.ariaLabel || one.title || one.labels?.length)).length"
    )
    assert unnamed == 0


def test_the_token_leaves_the_address_and_a_missing_one_is_explained(visitor, server_url):
    page = visitor.open(server_url, "?view=runs")
    assert "token" not in page.url
    visitor.allowed = ("401",)
    page = visitor.context().new_page()
    page.goto(server_url.base)
    page.wait_for_selector(".failure")
    assert "sparring view" in page.inner_text(".failure")


def test_the_theme_can_be_switched_and_is_stored(visitor, server_url):
    page = visitor.open(server_url, "?view=curves&metrics=loss")
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    page.reload()
    page.wait_for_selector("html[data-loaded]")
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") != "rgb(0, 0, 0)"


def test_runs_are_filtered_ticked_and_compared(visitor, server_url):
    page = visitor.open(server_url, "?view=runs")
    page.fill("input[aria-label='filter runs']", "kuhn-1")
    page.wait_for_selector("table.runs tbody tr:nth-child(2)", state="detached")
    assert page.inner_text("table.runs tbody th a") == "kuhn-1"
    page.fill("input[aria-label='filter runs']", "")
    for run in (0, 2):
        page.check(f"[data-focus=run-{run}]")
    page.click("text=Compare 2 runs")
    page.wait_for_selector("text=Configuration that differs")
    assert "runs=0%2C2" in page.url
    assert page.inner_text("table:has-text('Setting') tbody th") == "seed"


def test_three_seeds_give_a_band_and_two_give_lines(visitor, server_url):
    page = visitor.open(server_url, "?view=curves&runs=0,1,2&group=1&metrics=loss")
    note = "n = 3 seeds"
    assert note in page.inner_text("[data-metric=loss] .readout")
    assert "t-interval" in page.inner_text("[data-metric=loss] .readout")
    page.uncheck(".legend label:has-text('kuhn-2') input")
    page.wait_for_function("() => !document.querySelector('[data-metric=loss] .readout').innerText.includes('n = 3')")
    text = page.inner_text("[data-metric=loss] .readout")
    assert "kuhn-0" in text and "kuhn-1" in text


def test_health_is_listed_and_the_axis_can_be_changed(visitor, server_url):
    page = visitor.open(server_url, "?view=curves&runs=0&metrics=loss")
    assert page.inner_text("section:has-text('Health') tbody").count("loss is large") == 1
    page.fill("input[aria-label='find a figure']", "seconds play")
    page.click(".found button:has-text('seconds/play')")
    page.wait_for_selector("[data-metric='seconds/play'] .plot *")
    page.select_option("select", "tokens")
    page.wait_for_selector("[data-metric=loss] [aria-label*='over tokens']")
    assert "x=tokens" in page.url


def test_episodes_are_searched_sorted_paged_and_filtered_by_ranges(visitor, server_url):
    page = visitor.open(server_url, "?view=replay&run=0")
    assert "of 12 episodes" in page.inner_text(".found-count")
    page.click("text=illegal replies")
    page.wait_for_selector(".found-count:has-text('of 3 episodes')")
    page.click("thead button:has-text('episode')")
    page.wait_for_selector("th[aria-sort=descending]:has-text('episode')")
    assert page.inner_text("table.plays tbody th") == "121"
    page.go_back()
    page.wait_for_selector("th[aria-sort=descending]:has-text('step')")
    visitor.allowed = ("400",)
    page = visitor.open(server_url, "?view=replay")
    page.click(".filters summary")
    page.fill("[data-field=turns]", "many")
    page.press("[data-field=turns]", "Enter")
    page.wait_for_selector("[role=alert]")
    assert "turns" in page.inner_text("[role=alert]")
    assert page.input_value("[data-field=turns]") == "many"  # the form keeps its text


def test_curves_are_drawn_by_uplot_under_the_security_policy(visitor, server_url):
    page = visitor.open(server_url, "?view=curves&runs=0,1,2&group=1&metrics=loss")
    page.wait_for_selector("[data-metric=loss] canvas")
    page.hover("[data-metric=loss] .u-over", position={"x": 150, "y": 60})
    page.wait_for_selector("[data-metric=loss] .readout:has-text('mean of 3 seeds')")
    assert "step" in page.inner_text("[data-metric=loss] .readout")
    page.click("#theme")
    page.wait_for_selector("[data-metric=loss] canvas")


CONTRAST = """
(node) => {
  const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const light = (text) => parse(text).reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const { color, backgroundColor } = getComputedStyle(node);
  const [dark, bright] = [light(color), light(backgroundColor)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
}
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_pressed_button_is_legible_under_the_pointer(visitor, server_url, theme):
    page = visitor.open(server_url, "?view=replay&run=0&step=30&episode=120", theme=theme)
    page.click(".seat-buttons button:has-text('second')")
    page.wait_for_selector(".seat-buttons [aria-pressed=true]:has-text('second')")
    page.hover(".seat-buttons [aria-pressed=true]")
    assert page.eval_on_selector(".seat-buttons [aria-pressed=true]", CONTRAST) >= 4.5


def test_filters_can_be_folded_and_buttons_have_labels(visitor, server_url):
    page = visitor.open(server_url, "?view=replay&run=0")
    fields = page.locator("[data-field]:visible").evaluate_all("nodes => nodes.map((one) => one.dataset.field)")
    assert fields == ["step", "seat", "player", "outcome"]
    page.click(".filters summary")
    page.select_option("[data-field=illegal]", "1")
    page.wait_for_selector(".filters summary:has-text('More filters: illegal reply')")
    assert page.is_visible("[data-field=turns]")  # the filters stay open after a choice
    assert "positive advantage" in page.get_attribute("label:has([data-field=wrong])", "title")
    page = visitor.open(server_url, "?view=replay&run=0&step=30&episode=120")
    assert page.inner_text("button:has-text('Next episode')") == "Next episode J"
    page.click("button:has-text('Next episode')")
    page.wait_for_selector("h1:has-text('episode 121')")
    page.click("button:has-text('Previous episode')")
    page.wait_for_selector("h1:has-text('episode 120')")


NASH = "nash_conv/kuhn_poker"
CARD = f"[data-metric='{NASH}']"


@pytest.fixture(scope="module")
def served_curves(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    run = run_writer.write_run(folder / "kuhn")
    values = {1: 0.9, 10: 0.5, 20: 0.4, 30: 0.25}  # few points, all above 0
    run_writer.append(run / "metrics.jsonl", *({"step": 30 + n, NASH: y} for n, y in values.items()))
    run_writer.append(run / "metrics.jsonl", *({"step": 60 + n, "noise": n % 2} for n in range(1, 41)))
    with serve(folder) as served_curves:
        yield served_curves


def test_smoothing_is_labelled_and_not_applied_to_few_points(visitor, served_curves):
    page = visitor.open(served_curves, f"?view=curves&run=0&metrics={NASH},noise")
    assert "last 0.25" in page.inner_text(f"{CARD} .readout")
    assert "smoothed" not in page.inner_text(".charts")
    page = visitor.open(served_curves, "?view=curves&run=0&metrics=noise&smooth=0.5")
    # the last value is 0, and every second earlier value is 1: (0 + 1/2 + 0 + 1/8 ...) / 2 = 1/3
    assert "last 0 (smoothed 0.3333)" in page.inner_text("[data-metric=noise] .readout")
    text = page.get_attribute("[data-metric=noise] .plot", "aria-label")
    assert "kuhn: 0 (smoothed 0.3333)" in text
    page = visitor.open(served_curves, f"?view=curves&run=0&metrics={NASH}&smooth=0.9")
    text = page.inner_text(f"{CARD} .readout")
    assert "last 0.25" in text and "not smoothed: 20 points or fewer" in text
    assert "(smoothed" not in text


def test_all_figures_are_listed_and_compared_with_uniform_and_best_play(visitor, served_curves):
    page = visitor.open(served_curves, "?view=curves&run=0&metrics=loss")
    page.click("text=all 8 figures")
    all_figures = page.inner_text(".all-figures")
    for section, name in (("Skill", NASH), ("Replies", "legal_rate"), ("Learning", "noise")):
        assert all_figures.index(section) < all_figures.index(name)
    assert all_figures.index("Time") < all_figures.index("seconds/play")
    page.click(".all-figures button:has-text('noise')")
    page.wait_for_selector("[data-metric=noise] .plot *")
    assert page.is_visible(".all-figures button:has-text('noise')")  # the list stays open
    page = visitor.open(served_curves, f"?view=curves&run=0&metrics={NASH}")
    page.wait_for_selector(f"{CARD} .reference:has-text('equilibrium 0')", timeout=20_000)
    assert "random play 0.9167" in page.inner_text(f"{CARD} .readout")  # 11/12, the value of OpenSpiel
    assert "lower is better" in page.inner_text(f"{CARD} h2")
    page.wait_for_selector(f"{CARD} canvas")


def test_the_page_of_a_run_begins_with_a_summary(visitor, served_curves):
    page = visitor.open(served_curves, "?view=curves&run=0&metrics=loss")
    page.wait_for_selector(".summary td:has-text('73 %')", timeout=20_000)  # (11/12 - 0.25) / (11/12)
    text = page.inner_text(".summary")
    for part in ("kuhn", "Environment kuhn_poker", "Random play", "0.917", "Best play", "loss is large"):
        assert part in text
    assert "what best responses gain" in page.get_attribute(".summary tbody th >> nth=0", "title")
    page.wait_for_selector(
        "[data-metric=loss] h2[title^='weighted sum of the loss terms']"
    )  # the text of sparring explain
    page.click(".summary a:has-text('Replays of')")
    page.wait_for_selector("table.plays")


def test_several_runs_have_no_summary(visitor, server_url):
    page = visitor.open(server_url, "?view=curves&runs=0,1&metrics=loss")
    assert page.locator(".summary").count() == 0


TOTALS = {"workers": 3.0, "workers_idle": 0.5, "seconds/play": 0.25, "seconds/round": 1.0}


@pytest.fixture(scope="module")
def served_workers(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    first_metrics = {"worker/0/playing": 0.75, "worker/0/ready": 1.0, "worker/1/playing": 0.25}
    second_metrics = {"worker/1/ready": 0.5, "worker/1/lost": 1.0, "lost_workers": 1.0}
    for name, figures in (("each", {**TOTALS, **first_metrics, **second_metrics}), ("totals", TOTALS)):
        run = run_writer.write_run(folder / name, steps=())
        run_writer.append(run / "timing.jsonl", *({"step": n, **figures} for n in range(31, 331)))
    with serve(folder) as served_workers:
        yield served_workers


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1366, 390])
def test_each_worker_has_a_lane_of_its_activity(visitor, served_workers, theme, width):
    page = visitor.open(served_workers, "?view=workers&run=0", theme=theme, width=width)
    page.wait_for_selector("table.lanes tbody tr")
    assert page.locator("table.lanes tbody tr").count() == 3  # two workers and their sum
    text = page.get_attribute("svg.lane >> nth=1", "aria-label")
    assert text.startswith("worker 1: plays 25.0 %, waits 25.0 %, absent 50.0 %; lost 300 times")
    assert "2 steps to a bar" in page.inner_text(".lanes-of")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_without_records_per_worker_one_lane_shows_all(visitor, served_workers):
    page = visitor.open(served_workers, "?view=workers&run=1")
    page.wait_for_selector("table.lanes tbody tr")
    assert page.locator("table.lanes tbody tr").count() == 1
    assert "nothing is recorded: one lane is of all 3" in page.inner_text(".lanes-of")
    page = visitor.open(served_workers, "?view=workers&run=0")
    page.wait_for_selector(".charts .card")
    titles = page.locator(".charts h2").all_text_contents()
    assert len(titles) == 3 and not any(title.startswith("Lag") for title in titles)


LONG = "loss is 12345.6 at step 7: above 100 for 5 records in a row. Usual remedy: lower it. " * 3


@pytest.fixture(scope="module")
def served_runs_table(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    for name, day, seconds, rate in (("a", 3, 60.0, 0.9), ("b", 1, 7200.0, 0.7), ("c", 2, 1.0, 0.8)):
        run = run_writer.write_run(folder / name, steps=())
        run_starts = [{"date": f"2026-11-0{day}T04:10:11+00:00"}]
        (run / "provenance.json").write_text(json.dumps({"starts": run_starts}))
        run_writer.append(run / "timing.jsonl", {"step": 31, "seconds/round": seconds})
        run_writer.append(run / "metrics.jsonl", {"step": 31, "legal_rate": rate})
    event = {"step": 7, "metric": "loss", "message": LONG, "value": 12345.6, "stops": False}
    run_writer.append(folder / "a" / "health.jsonl", event)
    with serve(folder) as served_runs_table:
        yield served_runs_table


def order(page):
    return page.locator("table.runs tbody th a").all_text_contents()


@pytest.mark.parametrize(
    ("title", "is_descending"),
    [("Started", "acb"), ("Duration", "bac"), ("legal_rate", "acb"), ("Run", "cba"), ("Health", "abc")],
)
def test_a_column_title_sorts_the_table(visitor, served_runs_table, title, is_descending):
    page = visitor.open(served_runs_table, "?view=runs")
    assert order(page) == ["a", "b", "c"]
    page.click(f"thead button:has-text('{title}')")
    page.wait_for_selector(f"th[aria-sort=descending]:has-text('{title}')")
    assert "".join(order(page)) == is_descending
    page.click(f"thead button:has-text('{title}')")
    page.wait_for_selector(f"th[aria-sort=ascending]:has-text('{title}')")
    assert order(page) == (list("bca") if title == "Health" else list(reversed(is_descending)))


def test_a_run_row_has_start_time_duration_and_health(visitor, served_runs_table):
    page = visitor.open(served_runs_table, "?view=runs")
    row = page.inner_text("tr[data-run='1']")
    assert "1 Nov 2026" in row and "2 h 0 min" in row
    assert "higher is better" in page.inner_text("thead th:has-text('legal_rate')")
    page = visitor.open(served_runs_table, "?view=runs", width=1280)
    heights = page.locator("table.runs tbody tr").evaluate_all("rows => rows.map((row) => row.offsetHeight)")
    assert max(heights) < 80
    badge = page.locator("tr[data-run='0'] button:has-text('2 warnings')")
    assert "loss is 12345.6" in badge.get_attribute("title")
    assert "12345.6" not in page.inner_text("table.runs")
    badge.click()
    page.wait_for_selector("tr.health-said")
    assert LONG.strip() in page.inner_text("tr.health-said")  # the complete text
    page.click("tr.health-said a")
    page.wait_for_selector("section:has-text('Health') td:has-text('12345.6')")
    assert LONG.strip() in page.inner_text("section:has-text('Health') tbody")


def test_a_page_without_runs_explains_what_to_do(visitor, serve, tmp_path):
    with serve(tmp_path) as served_runs_table:
        page = visitor.open(served_runs_table, "?view=runs")
        assert "sparring train" in page.inner_text("#view code")
        run_writer.write_run(tmp_path / "first", steps=())
        page.wait_for_selector("table.runs", timeout=8000)


@pytest.mark.parametrize("view", ["runs", "curves", "replay", "league", "workers"])
def test_every_page_without_runs_says_how_to_start_one(visitor, serve, tmp_path, view):
    with serve(tmp_path) as served_nothing:
        page = visitor.open(served_nothing, f"?view={view}")
        assert page.inner_text(".empty code") == "sparring train kuhn-tiny"


def test_a_run_without_episodes_league_or_workers_says_what_to_write(visitor, serve, tmp_path):
    run_writer.write_run(tmp_path / "kuhn", steps=())
    lines = {"replay": "store.every=10", "league": "league.every=50", "workers": "scale.workers=2"}
    with serve(tmp_path) as served_bare_run:
        for view, line in lines.items():
            page = visitor.open(served_bare_run, f"?view={view}")
            assert line in page.inner_text(".empty code")


def test_episodes_that_wait_for_the_index_are_reported(visitor, serve, tmp_path):
    folder = run_writer.write_run(tmp_path / "kuhn", steps=(10,))
    with serve(tmp_path) as served_runs_table:
        run_writer.write_step(folder, 20, [run_writer.episode(80)])
        page = visitor.open(served_runs_table, "?view=runs")
        page.wait_for_selector("td.plays:has-text('4 episodes so far')")
        page.click("td.plays a")
        page.wait_for_selector("table.plays a:has-text('80')")
        page.click("nav >> text=Runs")
        page.wait_for_selector("td.plays:has-text('5 episodes')")
