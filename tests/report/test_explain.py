"""`sparring explain` for games, metrics and unknown names."""

import pytest

from sparring.report.explanations import entries, explanation, meanings
from sparring.report.game_page import format_exact_values, format_sample, recipes_for_game, sample_play

QUICK = ("kuhn_poker", "tic_tac_toe", "nim", "tiny_hanabi", "liars_dice", "sokoban", "mastermind")


@pytest.mark.parametrize("name", QUICK)
def test_a_game_is_explained_to_a_newcomer(name):
    text = explanation(name)
    for expected_text in (
        "Rules\n",
        "A sample episode with default options",
        "Payoffs: ",
        "Next steps",
        "sparring play RUN",
    ):
        assert expected_text in text, expected_text
    assert max(map(len, text.splitlines())) <= 100


def test_games_have_rules_values_samples_and_recipes():
    text = " ".join(explanation("kuhn_poker").split())
    assert "The deck holds 3 cards" in text
    assert "Uniform play has NashConv 0.9167" in text and "-0.0556 to first, 0.0556 to second" in text
    assert "Your card is the Queen." in text and "kuhn first Q" in text
    assert "sparring train demo" in text
    assert sample_play("sokoban").ending.endswith("Payoffs: pusher 1.")
    assert "oracle" in sample_play("sokoban").chooser and sample_play("nim").chooser == "moves at random"
    assert format_exact_values("connect_four") == ""
    assert "The best team is worth 10 to each seat." in format_exact_values("tiny_hanabi")
    assert "Best play is worth 1." in format_exact_values("needle_chain")
    assert recipes_for_game("kuhn_poker")[0] == "demo"
    assert "tiny" in recipes_for_game("sudoku")[0]
    for slot in ("methods", "environments"):
        for entry in entries(slot):
            assert not entry["summary"].startswith(("Return", "Render", "Sit ")), entry
            assert "[N]" not in entry["summary"] and "[M" not in entry["summary"], entry


@pytest.mark.parametrize("name", QUICK)
def test_a_sample_episode_is_fixed_and_short(name):
    assert sample_play(name) == sample_play(name)
    lines = format_sample(sample_play(name))
    assert lines[-1].startswith("Payoffs: ") and len(lines) <= 80


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nash_conv", "metric nash_conv/GAME"),
        ("nash_conv/kuhn_poker", "Uniform play has NashConv 0.9167"),
        ("nash_conv/GAME", "metric nash_conv/GAME"),
        ("illegal_mass_reached", "weighted by the probability that an"),
        ("exploitability", "metric exploitability/GAME/ROLE"),
        ("value/kuhn_poker/first", "expected return of the role"),
        ("match/success", "metric match/GAME/BOT/ROLE/success"),
        ("legal_rate", "metric legal_rate/GAME"),
        ("breakthrough", "In OpenSpiel it is 'Breakthrough'"),
    ],
)
def test_metrics_are_explained_with_and_without_their_placeholders(name, text):
    assert text in " ".join(explanation(name).split())


def test_meanings_come_from_the_glossary_and_need_no_import():
    texts = meanings(["loss", "nash_conv/kuhn_poker", "own_figure"])
    assert texts["loss"].startswith("weighted sum of the loss terms")
    assert "0 at equilibrium" in texts["nash_conv/kuhn_poker"]
    assert "own_figure" not in texts
