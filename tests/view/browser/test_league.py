"""The league view in a browser: the family tree by keys and in words."""

import json

import pytest

from sparring.core.records import ref
from sparring.league.payoffs import Payoffs, Results, RowKey
from tests.view import run_writer

EVIL = "<img src=x onerror=window.hit=1>\u202e"


def book(**results):
    counts = Results(**results)
    pairs = (("learner", "past-000020"), ("past-000020", "learner"))
    return Payoffs({RowKey("kuhn_poker", 0, *map(ref, pair)): counts for pair in pairs}).to_json()


def write_league(folder):
    """Write a run with three snapshots, of which two stay; one has a tag and a parent."""
    run = run_writer.write_run(folder)
    config = run / "config.yaml"
    config.write_text(config.read_text() + "league: {every: 10, keep: 2}\n")
    folder_of_step = run / "checkpoints" / "step_000030"
    folder_of_step.mkdir(parents=True)
    record = {"version": 30, "tag": EVIL, "parent": "past-000010"}
    members = {"past-000020": 20, "past-000030": record}
    (folder_of_step / "engine.json").write_text(json.dumps({"version": 30, "members": members}))
    payoffs = book(games=4, wins=3, losses=1, returns=2.0)
    (folder_of_step / "state.json").write_text(json.dumps({"payoffs": payoffs}))
    return run


@pytest.fixture(scope="module")
def server_url(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    write_league(folder / "kuhn")
    with serve(folder) as server_url:
        yield server_url


@pytest.mark.parametrize(("theme", "width"), [("light", 1366), ("dark", 1366), ("light", 390)], ids=str)
def test_the_tree_is_drawn_in_words_and_by_keys(visitor, server_url, theme, width):
    page = visitor.open(server_url, "?view=league", theme=theme, width=width)
    page.wait_for_selector(".tree svg a")
    text = page.inner_text(".tree-said")
    assert "learner, step 30" in text and "past-000030" in text
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


def test_tree_cells_and_tables_have_descriptions(visitor, server_url):
    page = visitor.open(server_url, "?view=league")
    page.click(".tree summary")
    rows = page.locator(".tree tbody tr")
    assert rows.count() == 5  # the initial weights, three snapshots, the learner
    assert "past-000010" in rows.nth(3).inner_text() and "(by step)" not in rows.nth(3).inner_text()
    assert page.locator(".tree path.edge.recorded").count() == 1
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    text = "learner against past-000020: mean return +0.5 in 4 episodes; win rate 0.75"
    page.focus(".heat a >> nth=0")
    assert page.inner_text(".cell-said").startswith(text)
    assert "about 282 more episodes for ±0.05." in page.inner_text(".cell-said")
    assert text in page.get_attribute(".heat a >> nth=0", "title")
    assert "no difference shown; about 282 more episodes for ±0.05" in page.inner_text("tbody >> nth=0")
    titles = page.locator("h3").all_text_contents()
    assert "Mean return of each row's player against each column's" in titles


def test_a_run_without_a_league_shows_one_sentence(visitor, serve, tmp_path):
    run_writer.write_run(tmp_path / "mirror")
    write_league(tmp_path / "league")
    with serve(tmp_path) as server_url:
        page = visitor.open(server_url, "?view=league&run=1")
        text = page.inner_text("#view")
        assert "This run has no league: mirror self-play." in text and "docs/league.md" in text
        for word in ("Meta-strategy", "Family tree", "Win rate", "win rate", "Members"):
            assert word not in text
        page.select_option("select", label="league")
        page.wait_for_selector(".tree svg a")
        page.select_option("select", label="mirror")
        page.wait_for_selector(".tree svg a", state="detached")


NAMES = ("past-000010", "past-000020", "past-000030", "past-000040")
WEIGHTS = "() => [...document.querySelectorAll('.weights tbody tr')].map((row) => row.innerText)"


def write_cyclic_payoffs(folder):
    run = run_writer.write_run(folder)
    config = run / "config.yaml"
    config.write_text(config.read_text() + "league: {every: 10, answer: nash}\n")
    run_writer.append(run / "metrics.jsonl", {"step": 31, "nash_conv/kuhn_poker": 0.25})
    rows = {
        RowKey("kuhn_poker", 0, ref(NAMES[i]), ref(NAMES[j])): Results(
            games=100, wins=100 * ends, losses=100 - 100 * ends, returns=200 * ends - 100
        )
        for i in range(3)
        for j, ends in (((i + 1) % 3, 1), ((i + 2) % 3, 0))
    }
    folder_of_step = run / "checkpoints" / "step_000030"
    folder_of_step.mkdir(parents=True)
    members = {name: {"version": 1, "tag": EVIL if name == NAMES[1] else None} for name in NAMES}
    (folder_of_step / "engine.json").write_text(json.dumps({"version": 30, "members": members}))
    (folder_of_step / "state.json").write_text(json.dumps({"payoffs": Payoffs(rows).to_json()}))
    return run


def write_sides(folder):
    """Write a run with separate sides: weights 1/4 and 3/4 on the first side, 1/2 each on the second."""
    run = write_cyclic_payoffs(folder)
    config = run / "config.yaml"
    config.write_text(config.read_text() + "matchmaker: {name: meta_strategy, sides: apart, solver: uniform}\n")
    rows = {}
    for index, payoffs in enumerate(((0.6, 0), (0.2, 0.4))):
        for column, payoff in enumerate(payoffs):
            for seat, member, opponent, sign in ((0, index, column, 1), (1, column, index, -1)):
                row = RowKey("kuhn_poker", seat, ref(NAMES[member]), ref(NAMES[opponent]))
                rows[row] = Results(games=100, draws=100, returns=sign * 100 * payoff)
    folder_of_step = run / "checkpoints" / "step_000030"
    members = {name: {"version": 1} for name in NAMES[:2]}
    (folder_of_step / "engine.json").write_text(json.dumps({"version": 30, "members": members}))
    (folder_of_step / "state.json").write_text(json.dumps({"payoffs": Payoffs(rows).to_json()}))


@pytest.fixture(scope="module")
def separate_sides(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("apart")
    write_sides(folder / "kuhn")
    with serve(folder) as server_url:
        yield server_url


@pytest.mark.parametrize("width", [1366, 390])
def test_with_separate_sides_each_member_has_two_bars(visitor, separate_sides, width):
    page = visitor.open(separate_sides, "?view=league", width=width)
    rows = [row.split() for row in page.evaluate(WEIGHTS)]
    assert rows == [["1", NAMES[0], "0.25", "0.50"], ["2", NAMES[1], "0.75", "0.50"]]
    heads = page.evaluate("() => [...document.querySelectorAll('.weights thead th')].map((one) => one.innerText)")
    assert heads == ["No.", "Member", "In the first side", "In the second side"]
    assert page.locator(".weights .bar").count() == 4
    text = page.inner_text(".meta-strategy")
    assert "Each of two sides has its own (sides: apart)" in text
    assert "Mean payoff of the row in the first side against the column in the second" in text
    page.focus(".meta-heat [tabindex='0']")
    assert page.inner_text(".meta-payoffs .cell-said").startswith(
        "past-000010 in the first side against past-000010 in the second: mean payoff +0.6 in 100 episodes"
    )
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def cyclic_payoffs(tmp_path_factory, serve):
    """Serve a run whose members beat each other in a circle."""
    folder = tmp_path_factory.mktemp("cyclic")
    write_cyclic_payoffs(folder / "kuhn")
    with serve(folder) as server_url:
        yield server_url


@pytest.mark.parametrize(("theme", "width"), [("light", 1366), ("dark", 1366), ("light", 390)], ids=str)
def test_weights_are_shown_beside_payoffs(visitor, cyclic_payoffs, theme, width):
    page = visitor.open(cyclic_payoffs, "?view=league&solver=max_entropy_nash", theme=theme, width=width)
    rows = page.evaluate(WEIGHTS)
    assert [row.split()[-1] for row in rows] == ["0.25"] * 4
    assert "<img src=x" in rows[1] and page.evaluate("() => window.hit") is None
    text = page.inner_text(".meta-strategy")
    assert "Weights by max_entropy_nash, chosen on this page, as of the checkpoint of step 30" in text
    assert "3 of 6 pairs of members have not met: their payoff counts as 0" in text
    assert page.locator(".meta-heat .unplayed").count() == 6
    assert page.inner_text(".meta-heat tbody tr:nth-child(1) td:nth-child(3)") == "+1\n100"
    bars = page.locator(".weights .bar")
    assert bars.count() == 4
    assert "25%" in bars.nth(0).evaluate("(one) => getComputedStyle(one).backgroundImage")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_the_chosen_solver_is_stored_in_the_address(visitor, cyclic_payoffs):
    page = visitor.open(cyclic_payoffs, "?view=league")
    assert "the run's own (league.answer)" in page.inner_text(".meta-strategy")
    assert page.inner_text(".answer-said").startswith("Exploitability over time is that of the mixture")
    choice = page.get_by_label("meta-solver")
    choice.focus()
    choice.select_option("last")
    page.wait_for_selector(".meta-strategy :text('Weights by last')")
    assert [row.split()[-1] for row in page.evaluate(WEIGHTS)] == ["0", "0", "0", "1.00"]
    assert "solver=last" in page.url
    assert page.evaluate("() => document.activeElement.value") == "last"
    page.get_by_label("meta-solver").select_option("")
    page.wait_for_selector(".meta-strategy :text('Weights by nash')")
    assert "solver" not in page.url


def test_failing_solvers_and_answers_leave_other_parts_visible(visitor, cyclic_payoffs):
    page = visitor.open(cyclic_payoffs, "?view=league&solver=nothing")
    assert "nothing is not a built-in meta-solver" in page.inner_text(".meta-strategy")
    assert page.evaluate(WEIGHTS)[0].split()[-1] == "–"
    assert page.locator(".meta-heat tbody tr").count() == 4
    page.wait_for_selector(".tree svg a")
    visitor.allowed = ("500",)
    context = visitor.context()
    context.route("**/api/runs/0/meta*", lambda route: route.fulfill(status=500, body='{"error": "broken"}'))
    page = visitor.open(cyclic_payoffs, "?view=league", context=context)
    assert "meta-strategy: broken" in page.inner_text(".meta-strategy")
    page.wait_for_selector(".tree svg a")


def test_payoffs_are_described_by_keys(visitor, cyclic_payoffs):
    page = visitor.open(cyclic_payoffs, "?view=league")
    page.focus(".meta-heat [tabindex='0']")
    assert "no member plays against itself" in page.inner_text(".meta-payoffs .cell-said")
    page.keyboard.press("ArrowRight")
    text = page.inner_text(".meta-payoffs .cell-said")
    assert text.startswith("past-000010 against past-000020: mean payoff +1 in 100 episodes; win rate")
    assert "95 % interval 0.963 to 1.00" in text
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")  # no cell is further left
    page.keyboard.press("End")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert "past-000040 against past-000010: no episodes" in page.inner_text(".meta-payoffs .cell-said")
    assert page.locator(".meta-heat [tabindex='0']").count() == 1
    assert "learner, step" in page.inner_text(".tree-said")  # the tree has not moved
