"""A person plays in the browser: only by keys, to the end, and the next episode."""

import shutil

import pytest

import sparring
from sparring.play.store import EpisodeStore
from tests.view import run_writer

PLAY = "?view=play&run=&environment={}&against={}&seat={}&seed=3&begin=1"
START = 60_000  # milliseconds that the playing process may take to start


@pytest.fixture(scope="module")
def server_url(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    run_writer.write_run(folder / "kuhn")
    with serve(folder) as server_url:
        yield server_url


def begin_play(visitor, server_url, environment, opponent="random", seat=0, **options):
    page = visitor.open(server_url, PLAY.format(environment, opponent, seat), loaded=False, **options)
    page.wait_for_selector(".play-body[data-phase=yours]", timeout=START)
    return page


def press(page, key, selector):
    page.keyboard.press(key)
    page.wait_for_selector(selector, timeout=START)


def test_poker_is_played_to_the_end_by_keys(visitor, server_url):
    page = begin_play(visitor, server_url, "kuhn_poker", "cfr")
    assert "We play Kuhn poker" in page.inner_text("details.rules[open]")
    assert "Your card is the Queen." in page.inner_text(".told-now")
    assert page.inner_text(".play-status").startswith("Your turn, first.")
    assert "Jack" not in page.inner_text(".play-now")
    press(page, "r", "details.rules:not([open])")
    press(page, "h", ".act.good .worth")
    assert "oracle cfr" in page.inner_text(".doing .note")
    assert "best" in page.get_attribute(".act.good", "aria-label")
    turn = 0
    while page.get_attribute(".play-body", "data-phase") != "over":
        turn += 1
        press(page, "1", f".play-body[data-phase=over], .play-body[data-turn='1.{turn}'][data-phase=yours]")
    page.wait_for_selector(".judged")
    assert "The cards: first Queen, second Jack." in page.inner_text(".ending")
    assert "first (you)" in page.inner_text(".show-down")
    assert page.inner_text(".play-status").startswith("The end. You ")
    page.wait_for_selector(".ending select[name=seat]")
    page.select_option(".ending select[name=seat]", "1")
    press(page, "n", ".play-body[data-turn='2.0'][data-phase=yours]")
    assert "second: you" in page.inner_text(".sitter.you")


def test_typed_text_is_escaped_and_a_reload_keeps_the_episode(visitor, server_url):
    page = begin_play(visitor, server_url, "talk")
    page.keyboard.type("<img src=x onerror='window.hit=1'> \u202e h1")
    press(page, "Enter", ".play-body[data-turn='1.1'][data-phase=yours]")
    assert "<img src=x" in page.inner_text(".so-far") and "U+202E" in page.inner_text(".so-far")
    assert page.evaluate("() => window.hit") is None and page.locator(".so-far img").count() == 0
    page.reload()
    page.wait_for_selector(".play-body[data-turn='1.1'][data-phase=yours]")
    press(page, "2", ".play-body[data-phase=over]")
    page.wait_for_selector(".ending .note:has-text('no oracle')")


def test_an_illegal_action_is_reported_beside_the_input(visitor, server_url):
    page = begin_play(visitor, server_url, "sudoku", "", theme="dark", width=390)
    page.keyboard.type("nonsense")
    press(page, "Enter", "[role=alert]:has-text('is not an action of this game')")
    assert page.input_value(".say") == "nonsense"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_choices_start_an_episode_and_external_links_do_not(visitor, server_url):
    page = visitor.open(server_url, "?view=play&run=", loaded=False)
    page.wait_for_selector(".play-body[data-phase=choosing]", timeout=START)
    page.select_option("select[name=environment]", "tic_tac_toe")
    page.wait_for_selector("select[name=against] option[value=minimax]", state="attached")
    page.select_option("select[name=against]", "random")
    page.select_option("select[name=seat]", "1")
    page.focus(".begin")
    press(page, "Enter", ".play-body[data-phase=yours]")
    assert "O: you" in page.inner_text(".sitter.you")
    page.go_back()
    page = visitor.open(server_url, "?view=runs", loaded=False)
    num_sessions = len(server_url.plays._sessions)
    page.goto(server_url.base + PLAY.format("urn", "", 0))
    page.wait_for_selector(".play-body[data-phase=choosing]", timeout=START)
    assert page.input_value("select[name=environment]") == "urn"
    assert len(server_url.plays._sessions) == num_sessions


@pytest.mark.slow
def test_an_episode_that_hangs_can_be_left(visitor, server_url):
    page = begin_play(visitor, server_url, "simple_negotiation", "minimax")
    page.click(".act >> nth=1")
    page.wait_for_selector(".play-body[data-phase=thinking]")
    page.click(".anew")
    page.wait_for_selector(".play-body[data-phase=choosing]", timeout=START)
    page.select_option("select[name=environment]", "urn")
    page.wait_for_selector(".begin:enabled")
    page.wait_for_function("() => document.querySelectorAll('select[name=against]').length === 0")
    page.click(".begin")
    page.wait_for_selector(".play-body[data-phase=yours]", timeout=START)
    assert "urn" in page.inner_text(".play-head h1")


@pytest.fixture(scope="module")
def served_people(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    turn = run_writer.turn(0, "bet", prompt="welcome, person")
    person_episode = run_writer.episode(40, turn, agents=("person-me", "bot-cfr"))
    run_writer.write_people_episode(run_writer.write_run(folder / "kuhn") / "played", 10, person_episode)
    with serve(folder) as served_people:
        yield served_people


def test_episodes_of_people_can_be_chosen_and_opened(visitor, served_people):
    page = visitor.open(served_people, "?view=replay")
    page.click(".filters summary")
    page.select_option("[data-field=of]", "people")
    page.wait_for_selector(".found-count:has-text('of 1 episode')")
    assert "people" in page.inner_text("table.plays tbody tr")
    page.click("table.plays tbody a")
    page.wait_for_selector("article.turn:has-text('welcome, person')")
    assert "people=1" in page.url
    page.keyboard.press("/")
    page.wait_for_selector(".found-count:has-text('of 1 episode')")
    assert "people=1" not in page.url


CHANGES = (
    *(
        "steps=2",
        "threads=1",
        "store.every=1",
        "warmup.updates=1",
        "warmup.games=8",
        "rollout.games_per_step=8",
        "checkpoint.every=1",
        "checkpoint.keep=2",
    ),
    *("model.hidden_size=8", "model.layers=1", "model.heads=1", "evaluation.exact=false", "evaluation.opponents=[]"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "kuhn"
    sparring.train("kuhn-tiny", *CHANGES, run=path)
    return path


def address(run, turn=1):
    number = next(episode.episode_id for step, episode in EpisodeStore(run / "episodes").episodes() if step == 2)
    return f"?view=replay&run=0&step=2&episode={number}&turn={turn}"


def test_the_policys_probabilities_are_shown_with_their_step(visitor, serve, run):
    with serve(run) as server_url:
        page = visitor.open(server_url, address(run))
        page.wait_for_selector(".legal-moves .bar.chance", timeout=30_000)
        text = page.inner_text(".legal-moves")
        assert "policy: learner, live weights of the checkpoint of step 1; other replies" in text
        assert "The p of a token is from the weights that sampled it" in text
        assert "policy, step 1" in page.inner_text(".legal-moves thead")
        assert page.locator(".legal-moves .bar.chance").count() == page.locator(".legal-moves tbody tr").count()


def test_without_probabilities_a_reason_is_shown(visitor, serve, run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "kuhn")
    for file in folder.glob("checkpoints/*/model.safetensors"):
        file.write_bytes(b"?")
    with serve(folder) as server_url:
        page = visitor.open(server_url, address(folder))
        page.wait_for_selector(".legal-moves >> text=has changed", timeout=30_000)
        assert page.locator(".legal-moves .bar.chance").count() == 0
        visitor.close()  # before the server stops, as the page polls it every second
