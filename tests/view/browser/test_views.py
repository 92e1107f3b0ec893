"""Every view in both themes and on a narrow screen: drawn, whole, nothing refused."""

import pytest

from tests.view import run_made as made

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
def served(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        made.write_run(folder / f"kuhn-{seed}", seed=seed)
    with serve(folder) as served:
        yield served


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize(("theme", "width"), [("light", 1366), ("dark", 1366), ("light", 390)], ids=str)
def test_a_view_is_drawn(visitor, served, name, theme, width):
    query, heading, part = VIEWS[name]
    page = visitor.open(served, query, theme=theme, width=width)
    assert heading in page.inner_text("h1")
    page.wait_for_selector(part)
    assert page.get_attribute("html", "data-theme") == theme
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('button, a, input, select')].filter((one) =>"
        " !(one.textContent.trim() || one.ariaLabel || one.title || one.labels?.length)).length"
    )
    assert unnamed == 0


def test_the_token_leaves_the_address_and_without_one_the_page_says_what_to_do(visitor, served):
    page = visitor.open(served, "?view=runs")
    assert "token" not in page.url
    visitor.allowed = ("401",)
    page = visitor.context().new_page()
    page.goto(served.base)
    page.wait_for_selector(".failure")
    assert "sparring view" in page.inner_text(".failure")


def test_the_theme_is_switched_and_kept(visitor, served):
    page = visitor.open(served, "?view=curves&metrics=loss")
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    page.reload()
    page.wait_for_selector("html[data-loaded]")
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") != "rgb(0, 0, 0)"


def test_runs_are_filtered_ticked_and_compared(visitor, served):
    page = visitor.open(served, "?view=runs")
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


def test_three_seeds_are_a_band_and_two_are_lines(visitor, served):
    page = visitor.open(served, "?view=curves&runs=0,1,2&group=1&metrics=loss")
    note = "n = 3 seeds"
    assert note in page.inner_text("[data-metric=loss] .readout")
    assert "t-interval" in page.inner_text("[data-metric=loss] .readout")
    page.uncheck(".legend label:has-text('kuhn-2') input")
    page.wait_for_function("() => !document.querySelector('[data-metric=loss] .readout').innerText.includes('n = 3')")
    said = page.inner_text("[data-metric=loss] .readout")
    assert "kuhn-0" in said and "kuhn-1" in said


def test_health_is_listed_and_figures_are_found_on_another_axis(visitor, served):
    page = visitor.open(served, "?view=curves&runs=0&metrics=loss")
    assert page.inner_text("section:has-text('Health') tbody").count("loss is large") == 1
    page.fill("input[aria-label='find a figure']", "seconds play")
    page.click(".found button:has-text('seconds/play')")
    page.wait_for_selector("[data-metric='seconds/play'] .plot *")
    page.select_option("select", "tokens")
    page.wait_for_selector("[data-metric=loss] [aria-label*='over tokens']")
    assert "x=tokens" in page.url


def test_plays_are_found_sorted_and_paged(visitor, served):
    page = visitor.open(served, "?view=replay&run=0")
    assert "of 12 plays" in page.inner_text(".found-count")
    page.click("text=illegal replies")
    page.wait_for_selector(".found-count:has-text('of 3 plays')")
    page.click("thead button:has-text('play')")
    page.wait_for_selector("th[aria-sort=descending]:has-text('play')")
    assert page.inner_text("table.plays tbody th") == "121"
    page.go_back()
    page.wait_for_selector("th[aria-sort=descending]:has-text('step')")


def test_a_filter_that_is_no_range_is_said(visitor, served):
    visitor.allowed = ("400",)
    page = visitor.open(served, "?view=replay")
    page.click(".filters summary")
    page.fill("[data-field=turns]", "many")
    page.press("[data-field=turns]", "Enter")
    page.wait_for_selector("[role=alert]")
    assert "turns" in page.inner_text("[role=alert]")
    assert page.input_value("[data-field=turns]") == "many"  # the form is still there


def test_curves_are_drawn_by_uplot_under_the_same_policy(visitor, served):
    page = visitor.open(served, "?view=curves&runs=0,1,2&group=1&metrics=loss")
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
def test_a_pressed_button_is_legible_under_the_pointer(visitor, served, theme):
    page = visitor.open(served, "?view=replay&run=0&step=30&episode=120", theme=theme)
    page.click(".seat-buttons button:has-text('second')")
    page.wait_for_selector(".seat-buttons [aria-pressed=true]:has-text('second')")
    page.hover(".seat-buttons [aria-pressed=true]")
    assert page.eval_on_selector(".seat-buttons [aria-pressed=true]", CONTRAST) >= 4.5


def test_filters_are_folded_and_buttons_have_words(visitor, served):
    page = visitor.open(served, "?view=replay&run=0")
    assert not page.is_visible("[data-field=turns]")
    page.click(".filters summary")
    page.select_option("[data-field=illegal]", "1")
    page.wait_for_selector(".filters summary:has-text('filters: illegal reply')")
    assert page.is_visible("[data-field=turns]")  # a choice does not fold them
    assert "positive advantage" in page.get_attribute("label:has([data-field=wrong])", "title")
    page = visitor.open(served, "?view=replay&run=0&step=30&episode=120")
    page.click("button:has-text('Next play')")
    page.wait_for_selector("h1:has-text('play 121')")
    page.click("button:has-text('Previous play')")
    page.wait_for_selector("h1:has-text('play 120')")
