"""A person at the terminal: boards, rules, help, the end of a play and the next one."""

import re
import shutil

import pytest
from typer.testing import CliRunner

from sparring import cli
from sparring.api.human_play import InteractiveSession, Lobby, keep
from sparring.core.errors import SparringError
from tests.run_with_members import run_of

SMALL = ["steps=1", "rollout.games_per_step=8", "model.hidden_size=16", "model.layers=1", "threads=1"]
SMALL += ["evaluation.exact=false", "evaluation.opponents=[]"]


def call(*arguments, text=None):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input=text)


@pytest.fixture(scope="module")
def poker(tmp_path_factory):
    path = tmp_path_factory.mktemp("play") / "run"
    outcome = call("train", "kuhn-tiny", *SMALL, "environments.0.options.style=brief", "--run", path)
    assert outcome.exit_code == 0, outcome.output
    return path


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("play") / "run"
    outcome = call("train", "tictactoe-tiny", *SMALL, "--run", path)
    assert outcome.exit_code == 0, outcome.output
    return path


def told(*arguments, text):
    """Return what is shown; the command must end well, whatever the input."""
    outcome = call("play", *arguments, text=text)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_a_play_of_poker_from_the_rules_to_the_show_down(poker):
    shown = told(poker, "--seed", 3, text="what\nbet\nn\n")
    assert "We play Kuhn poker with 2 players." in shown
    assert "You are first. The deal is --seed 3." in shown
    assert "Your card is the Queen." in shown and "Betting so far: none." in shown
    assert "'what' is not an action of this game; it does not count as a move" in shown
    assert "The cards: first Queen, second Jack." in shown
    assert re.search(r"You (won|lost): [+-]\d\. Payoffs: first [+-]\d, second [+-]\d\.", shown)
    assert re.search(r"1  first \(you\) +bet\n", shown)
    assert re.search(r"2  second \(policy\) .*\[.*(pass|bet) 0\.\d\d", shown)
    assert shown.count("Again?") == 1


def test_the_board_is_drawn_and_the_end_is_said(lines):
    shown = told(lines, text="b2\na1\nc1\na3\nc3\na2\nc2\nb1\nb3\n" * 2)
    assert "  a b c\n1 . . .\n2 . . .\n3 . . .\n" in shown
    assert re.search(r"The player 'O' chose [abc][123]\.", shown)
    assert re.search(r"(You won: |You lost: |A draw\. Payoffs: X )[+-]", shown)


@pytest.mark.parametrize("word", ["?", "help"])
def test_help_shows_the_rules_again(poker, word):
    assert told(poker, text=f"{word}\nq\n").count("We play Kuhn poker") == 2


def test_another_play_has_another_deal_which_is_fresh_unless_asked_for(poker):
    shown = told(poker, "--seed", 3, text="bet\ns\nbet\nbet\nbet\ny\n")
    assert "You are first. The deal is --seed 3." in shown
    assert "You are second. The deal is --seed 4." in shown
    deals = {re.search(r"--seed (\d+)", told(poker, text="")).group(1) for _ in range(4)}
    assert len(deals) > 1
    assert told(poker, "--seed", 5, text="bet\n") == told(poker, "--seed", 5, text="bet\n")


@pytest.mark.parametrize("text", ["", "?", "bet\n", "bet\npass\n", "bet\nbet\n\n"])
def test_the_end_of_input_ends_the_session(poker, text):
    assert told(poker, text=text).endswith("You left the game.\n")


def test_bots_and_answers_of_a_run_sit_opposite(poker, tmp_path):
    outcome = call("play", poker, "--seat", 2)
    assert isinstance(outcome.exception, SparringError)
    assert "seats 0 to 1" in str(outcome.exception)
    shown = told("--environment", "tic_tac_toe", "--against", "scripted preference=[c3]", "--seed", 1, text="b2\nq\n")
    assert "tic_tac_toe, against scripted preference=[c3]." in shown
    assert "The player 'O' chose c3." in shown
    assert "urn, alone." in told("--environment", "urn", text="q\n")
    assert "against policy, step 1, of" in told(poker, "--against", "1", text="q\n")
    assert "against random, of" in told(poker, "--against", "random", text="q\n")
    path, _ = run_of(tmp_path / "run")
    assert "against policy, step 2, of" in told(path, text="q\n")
    assert "against mixture of 3 members, step 2, of" in told(path, "--answer", "uniform", text="q\n")
    shown = told(path, "--answer", "delta_uniform delta=1", text="bet\nbet\nn\n")
    assert "Drawn from the mixture for this play: past-000002." in shown
    assert "against learner, step 2, of" in told(path, "--answer", "last", text="q\n")
    assert "keeps none" in str(call("play", path, "--answer", "average", text="q\n").exception)


@pytest.mark.parametrize(("arguments", "why"), [([], "--environment"), (["--environment", "nim", "--checkpoint", "4"], "only a run has checkpoints"), (["--environment", "kuhn_poker", "--against", "nobody"], "nobody")])
def test_what_cannot_be_played_is_said_in_a_line(arguments, why):
    outcome = call("play", *arguments)
    assert isinstance(outcome.exception, SparringError)
    assert why in str(outcome.exception) and "\n" not in str(outcome.exception)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--environment", "nim", "--answer", "nash"], "only a run has an answer"),
        (["RUN", "--answer", "nash", "--against", "random"], "leave one out"),
        (["RUN", "--answer", "nesh"], "Did you mean 'nash'"),
        (["RUN", "--answer", "nash"], "has none at step 1"),
    ],
)
def test_an_answer_that_cannot_be_had_is_said_in_a_line(poker, arguments, why):
    outcome = call("play", *(str(poker) if one == "RUN" else one for one in arguments), text="q\n")
    assert isinstance(outcome.exception, SparringError)
    assert why in str(outcome.exception) and "\n" not in str(outcome.exception)


def test_what_people_played_is_shown(poker, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(poker, run)
    outcome = call("show", run, "--played")
    assert "Nobody has played in" in str(outcome.exception)
    room = Lobby(run)
    game = room.game(None)
    for _ in range(2):
        sitting = InteractiveSession(game, 0, room.opponent(game, "random"), 3)
        while sitting.pending is not None:
            sitting.say("bet")
        keep(run, sitting.episode)
    shown = call("show", run, "--played", "--ids").output
    assert "There is no episode 9 of people in" in str(call("show", run, "--played", "--step", 9).exception)
    assert "person-you" in shown and "bot-random" in shown and "Stored steps: 1, 2." in shown


def test_play_web_serves_the_page_with_what_was_chosen(poker, monkeypatch):
    found = {}
    monkeypatch.setattr("sparring.view.serve.serve", lambda roots, *_, **options: found.update(options, roots=roots))
    arguments = ["play", str(poker), "--web", "--no-browser", "--seat", "1", "--against", "mcts simulations=5", "--seed", "7"]
    assert call("play", poker, "--web", "--answer", "last").exit_code == 0 and found["answer"] == "last"
    outcome = CliRunner().invoke(cli.app, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert found["roots"] == [poker] and found["trusted"] == ["mcts simulations=5"] and found["browser"] is False
    assert found["query"] == "?view=play&run=0&environment=kuhn_poker&seat=1&against=mcts+simulations%3D5&seed=7&begin=1"
    assert CliRunner().invoke(cli.app, ["play", "--environment", "nim", "--web"]).exit_code == 0
    assert found["roots"] == [] and found["query"].startswith("?view=play&environment=nim")
    assert "seats 0 to 1" in str(CliRunner().invoke(cli.app, ["play", str(poker), "--web", "--seat", "9"]).exception)
