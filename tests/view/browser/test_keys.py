"""The keyboard, the address, back and forward, and the exported file."""

import json
import re

import pytest

from tests.view import run_writer

REPLAY_URL = "?view=replay&run=0&step=30&episode={}"


@pytest.fixture(scope="module")
def server_url(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    run_writer.write_run(folder / "kuhn")
    with serve(folder) as server_url:
        yield server_url


def turn_status(page):
    return page.inner_text(".steps [role=status]")


def press(page, key, selector):
    page.keyboard.press(key)
    page.wait_for_selector(selector)


def test_keys_step_through_turns_colours_and_seats(visitor, server_url):
    page = visitor.open(server_url, REPLAY_URL.format(120))
    assert turn_status(page) == "turn 2 of 2"
    press(page, "Home", ".steps :text('turn 1 of 2')")
    assert page.locator("article.turn").count() == 1  # later turns are not drawn
    press(page, "ArrowRight", ".steps :text('turn 2 of 2')")
    press(page, "ArrowRight", "article.turn.current[data-turn='1']")
    press(page, "ArrowLeft", "article.turn.current[data-turn='0']")
    press(page, "End", "article.turn.current[data-turn='1']")
    assert page.locator("article.turn").count() == 2
    page = visitor.open(server_url, REPLAY_URL.format(120))
    for colour in ("probability", "entropy", "none", "advantage"):
        press(page, "c", f".colours [aria-pressed=true]:has-text('{colour}')")
    assert page.locator(".token[class*=pos-]").count() > 0
    assert page.locator(".token[class*=neg-]").count() > 0
    page = visitor.open(server_url, REPLAY_URL.format(120))
    page.focus("article.turn .token")
    text = page.inner_text(".token-told")
    assert "p 0.607 when sampled" in text and "entropy 0.6" in text and "advantage +0.5" in text
    page = visitor.open(server_url, REPLAY_URL.format(120))
    assert "secret card K" in page.inner_text("#view")
    press(page, "1", ".seat-buttons [aria-pressed=true]:has-text('second')")
    assert "secret card K" not in page.content()
    assert "another seat's turn" in page.inner_text("article.turn >> nth=0")
    assert page.inner_text(".timeline .cell-move >> nth=0") == "–"  # no "?", because this move may be public
    press(page, "o", ".seat-buttons [aria-pressed=true]:has-text('all seats')")
    press(page, "0", ".seat-buttons [aria-pressed=true]:has-text('first')")
    assert "secret card J" not in page.content()


def test_the_keys_j_k_and_s_lead_to_other_episodes(visitor, server_url):
    page = visitor.open(server_url, REPLAY_URL.format(120))
    press(page, "j", "h1:has-text('episode 121')")
    press(page, "k", "h1:has-text('episode 120')")
    page.keyboard.press("k")
    page.wait_for_selector("#live:has-text('first episode')")
    page = visitor.open(server_url, "?view=replay&f.illegal=1")
    press(page, "j", "h1:has-text('episode 121')")
    press(page, "j", "h1:has-text('episode 81')")
    press(page, "/", ".found-count:has-text('of 3 episodes')")
    page = visitor.open(server_url, REPLAY_URL.format(120))
    press(page, "s", ".siblings")
    assert "122" in page.inner_text(".siblings")
    page.click(".siblings button:has-text('beside')")
    page.wait_for_selector("table.pair")
    page.keyboard.press("s")
    page.wait_for_selector(".siblings", state="detached")


def test_help_lists_the_keys_and_letters_in_a_field_are_not_keys(visitor, server_url):
    page = visitor.open(server_url, REPLAY_URL.format(120))
    press(page, "?", "dialog[open]")
    assert "save as one HTML file" in page.inner_text("dialog")
    page.keyboard.press("Escape")
    for key, heading in (("c", "Curves"), ("p", "Replays"), ("l", "League"), ("r", "Runs")):
        page.keyboard.press("g")
        press(page, key, f"h1:has-text('{heading}')")
    press(page, "t", "html[data-theme=dark]")
    page = visitor.open(server_url, "?view=replay")
    press(page, "/", "input[type=search]:focus")
    page.keyboard.type("tj?")
    assert page.input_value("input[type=search]") == "tj?"
    assert page.get_attribute("html", "data-theme") == "light"


def test_addresses_lead_to_a_turn_in_each_tab_or_give_an_error(visitor, server_url):
    page = visitor.open(server_url, REPLAY_URL.format(120) + "&turn=1&seat=0")
    assert turn_status(page) == "turn 1 of 2"
    page.wait_for_selector(".seat-buttons [aria-pressed=true]:has-text('first')")
    context = visitor.context()
    first_page = visitor.open(server_url, REPLAY_URL.format(120), context=context)
    second_page = visitor.open(server_url, "?view=runs", context=context)
    press(first_page, "Home", ".steps :text('turn 1 of 2')")
    assert second_page.inner_text("h1") == "Runs"
    visitor.allowed = ("404",)
    page = visitor.open(server_url, REPLAY_URL.format(999))
    page.wait_for_selector("[role=alert]")
    page.click("nav >> text=Runs")
    page.wait_for_selector("table.runs")


def test_the_browser_goes_back_and_forward_between_views(visitor, server_url):
    page = visitor.open(server_url, "?view=runs")
    page.click("nav >> text=Replays")
    page.click("table.plays tbody a >> nth=0")
    page.wait_for_selector("article.turn")
    page.go_back()
    page.wait_for_selector("table.plays")
    page.go_back()
    page.wait_for_selector("table.runs")
    page.go_forward()
    page.go_forward()
    page.wait_for_selector("article.turn")


@pytest.mark.parametrize("seat", [None, 1])
def test_an_episode_is_exported_as_one_page(visitor, server_url, tmp_path, seat):
    page = visitor.open(server_url, REPLAY_URL.format(120) + ("" if seat is None else f"&seat={seat}"))
    with page.expect_download() as download_info:
        page.keyboard.press("e")
    file = tmp_path / "replay.html"
    download_info.value.save_as(file)
    text = file.read_text(encoding="utf-8")
    assert ("secret card K" in text) == (seat is None)
    data = re.search(r'id="replay">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(data)["episode"]["episode"] == 120
    exported_page = visitor.context().new_page()
    exported_page.on("pageerror", lambda error: visitor.faults.append(str(error)))
    exported_page.on("console", visitor.console)
    exported_page.goto(file.as_uri())
    exported_page.wait_for_selector("article.turn")
    press(exported_page, "Home", ".steps :text('turn 1 of 2')")
    press(exported_page, "c", ".colours [aria-pressed=true]:has-text('probability')")
    num_requests = exported_page.evaluate("() => performance.getEntriesByType('resource').length")
    assert num_requests == 0


def test_an_open_dialog_captures_the_keys(visitor, server_url):
    page = visitor.open(server_url, REPLAY_URL.format(120))
    address = page.url
    press(page, "?", "dialog[open]")
    page.keyboard.press("j")  # without the dialog it goes to the next play
    page.keyboard.press("Escape")  # without the dialog it goes to the search
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert page.url == address
    assert "episode 120" in page.inner_text("h1")
    press(page, "?", "dialog[open]")
    page.keyboard.press("?")
    page.wait_for_selector("dialog:not([open])", state="attached")
    press(page, "Escape", "table.plays")  # after closing, the page receives keys again
