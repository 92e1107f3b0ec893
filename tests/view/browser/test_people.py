"""Plays of people in the finder, and opened."""

import pytest

from tests.view import run_made as made


@pytest.fixture(scope="module")
def served(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    own = made.turn(0, "bet", said="welcome, person")
    played = made.episode(40, own, agents=("person-me", "bot-cfr"))
    made.write_played(made.write_run(folder / "kuhn") / "played", 10, played)
    with serve(folder) as served:
        yield served


def test_plays_of_people_are_chosen_and_opened(visitor, served):
    page = visitor.open(served, "?view=replay")
    page.click(".filters summary")
    page.select_option("[data-field=of]", "people")
    page.wait_for_selector(".found-count:has-text('of 1 play')")
    assert "people" in page.inner_text("table.plays tbody tr")
    page.click("table.plays tbody a")
    page.wait_for_selector("article.turn:has-text('welcome, person')")
    assert "people=1" in page.url
    page.keyboard.press("/")
    page.wait_for_selector(".found-count:has-text('of 1 play')")
    assert "people=1" not in page.url
