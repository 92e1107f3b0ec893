"""The league in a browser: the family tree by keys and in words."""

import json

import pytest

from sparring.core.refs import ref
from sparring.league.payoffs import Payoffs, Results, Row
from tests.view import run_made as made

EVIL = "<img src=x onerror=window.hit=1>\u202e"


def book(**results):
    """Return the payoff book in which two players have met."""
    ends = Results(**results)
    pairs = (("learner", "past-000020"), ("past-000020", "learner"))
    return Payoffs({Row("kuhn_poker", 0, *map(ref, pair)): ends for pair in pairs}).to_json()


def write_league(folder):
    """Write a run with three snapshots, of which two stay; one has a tag and a parent."""
    run = made.write_run(folder)
    config = run / "config.yaml"
    config.write_text(config.read_text() + "league: {every: 10, keep: 2}\n")
    own = run / "checkpoints" / "step_000030"
    own.mkdir(parents=True)
    record = {"version": 30, "tag": EVIL, "parent": "past-000010"}
    members = {"past-000020": 20, "past-000030": record}
    (own / "engine.json").write_text(json.dumps({"version": 30, "members": members}))
    payoffs = book(games=4, wins=3, losses=1, returns=2.0)
    (own / "state.json").write_text(json.dumps({"payoffs": payoffs}))
    return run


@pytest.fixture(scope="module")
def served(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    write_league(folder / "kuhn")
    with serve(folder) as served:
        yield served


@pytest.mark.parametrize(("theme", "width"), [("light", 1366), ("dark", 1366), ("light", 390)], ids=str)
def test_the_tree_is_drawn_in_words_and_by_keys(visitor, served, theme, width):
    page = visitor.open(served, "?view=league", theme=theme, width=width)
    page.wait_for_selector(".tree svg a")
    said = page.inner_text(".tree-said")
    assert "learner, step 30" in said and "past-000030" in said
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".tree-said").startswith("past-000030, step 30: in the league")
    assert "<img src=x" in page.inner_text(".tree-said")  # text, no markup
    page.keyboard.press("p")
    assert "past-000010" in page.evaluate("() => document.activeElement.ariaLabel")
    assert "left the league" in page.inner_text(".tree-said")
    page.keyboard.press("Enter")
    page.wait_for_selector("table.plays")
    assert "f.player=past-000010" in page.url
    assert page.evaluate("() => window.hit") is None


def test_tree_cells_and_tables_are_said(visitor, served):
    page = visitor.open(served, "?view=league")
    page.click(".tree summary")
    rows = page.locator(".tree tbody tr")
    assert rows.count() == 5  # the start, three snapshots, the learner
    assert "past-000010" in rows.nth(3).inner_text() and "(by step)" not in rows.nth(3).inner_text()
    assert page.locator(".tree path.edge.recorded").count() == 1
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    said = "learner against past-000020: mean return +0.5 in 4 plays; win rate 0.75"
    page.focus(".heat a >> nth=0")
    assert page.inner_text(".cell-said").startswith(said)
    assert "about 282 more plays for ±0.05." in page.inner_text(".cell-said")
    assert said in page.get_attribute(".heat a >> nth=0", "title")
    assert "no difference shown; about 282 more plays for ±0.05" in page.inner_text("tbody >> nth=0")
    titles = page.locator("h3").all_text_contents()
    assert "Mean return of each row's player against each column's" in titles


def test_a_run_without_a_league_says_so_in_a_sentence_and_no_more(visitor, serve, tmp_path):
    made.write_run(tmp_path / "mirror")
    write_league(tmp_path / "league")
    with serve(tmp_path) as served:
        page = visitor.open(served, "?view=league&run=1")
        said = page.inner_text("#view")
        assert "This run has no league: mirror self-play." in said and "docs/league.md" in said
        for word in ("Meta-strategy", "Family tree", "Win rate", "win rate", "Members"):
            assert word not in said
        page.select_option("select", label="league")
        page.wait_for_selector(".tree svg a")
        page.select_option("select", label="mirror")
        page.wait_for_selector(".tree svg a", state="detached")
