"""A person at the terminal: boards, rules, help, the end of a play and the next one."""

import re
import shutil

import pytest

from sparring.api.human_play import InteractiveSession, Lobby, store_episode
from tests.cli.builders import assert_refused, call, succeed
from tests.run_with_members import run_of

SMALL = ["steps=1", "rollout.games_per_step=8", "model.hidden_size=16", "model.layers=1", "threads=1"]
SMALL += ["evaluation.exact=false", "evaluation.opponents=[]"]


@pytest.fixture(scope="module")
def poker(tmp_path_factory):
    path = tmp_path_factory.mktemp("play") / "run"
    succeed("train", "kuhn-tiny", *SMALL, "environments.0.options.style=brief", "--run", path)
    return path


def output_of(*arguments, text):
    return succeed("play", *arguments, text=text).output


def test_a_play_of_poker_from_the_rules_to_the_show_down(poker):
    output = output_of(poker, "--seed", 3, text="what\nbet\nn\n")
    assert "We play Kuhn poker with 2 players." in output
    assert "You are first. The deal is --seed 3." in output
    assert "Your card is the Queen." in output and "Betting so far: none." in output
    assert "'what' is not an action of this game; it does not count as a move" in output
    assert "The cards: first Queen, second Jack." in output
    assert re.search(r"You (won|lost): [+-]\d\. Payoffs: first [+-]\d, second [+-]\d\.", output)
    assert re.search(r"1  first \(you\) +bet\n", output)
    assert re.search(r"2  second \(policy\) .*\[.*(pass|bet) 0\.\d\d", output)
    assert output.count("Again?") == 1


def test_the_board_is_drawn_and_the_end_is_said():
    output = output_of(
        "--environment", "tic_tac_toe", "--against", "random", text="b2\na1\nc1\na3\nc3\na2\nc2\nb1\nb3\n" * 2
    )
    assert "  a b c\n1 . . .\n2 . . .\n3 . . .\n" in output
    assert re.search(r"The player 'O' chose [abc][123]\.", output)
    assert re.search(r"(You won: |You lost: |A draw\. Payoffs: X )[+-]", output)


@pytest.mark.parametrize("word", ["?", "help"])
def test_help_shows_the_rules_again(poker, word):
    assert output_of(poker, text=f"{word}\nq\n").count("We play Kuhn poker") == 2


def test_another_play_has_another_deal_which_is_fresh_unless_asked_for(poker):
    output = output_of(poker, "--seed", 3, text="bet\ns\nbet\nbet\nbet\ny\n")
    assert "You are first. The deal is --seed 3." in output
    assert "You are second. The deal is --seed 4." in output
    deals = {re.search(r"--seed (\d+)", output_of(poker, text="")).group(1) for _ in range(4)}
    assert len(deals) > 1
    assert output_of(poker, "--seed", 5, text="bet\n") == output_of(poker, "--seed", 5, text="bet\n")


@pytest.mark.parametrize("text", ["", "?", "bet\n", "bet\npass\n", "bet\nbet\n\n"])
def test_the_end_of_input_ends_the_session(poker, text):
    assert output_of(poker, text=text).endswith("You left the game.\n")


def test_bots_and_answers_of_a_run_sit_opposite(poker, tmp_path):
    output = output_of(
        "--environment", "tic_tac_toe", "--against", "scripted preference=[c3]", "--seed", 1, text="b2\nq\n"
    )
    assert "tic_tac_toe, against scripted preference=[c3]." in output
    assert "The player 'O' chose c3." in output
    assert "urn, alone." in output_of("--environment", "urn", text="q\n")
    assert "against policy, step 1, of" in output_of(poker, "--against", "1", text="q\n")
    assert "against random, of" in output_of(poker, "--against", "random", text="q\n")
    path, _ = run_of(tmp_path / "run")
    assert "against policy, step 2, of" in output_of(path, text="q\n")
    assert "against mixture of 3 members, step 2, of" in output_of(path, "--answer", "uniform", text="q\n")
    output = output_of(path, "--answer", "delta_uniform delta=1", text="bet\nbet\nn\n")
    assert "Drawn from the mixture for this episode: past-000002." in output
    assert "against learner, step 2, of" in output_of(path, "--answer", "last", text="q\n")
    assert "this run has none" in str(call("play", path, "--answer", "average", text="q\n").exception)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "--environment"),
        (["--environment", "nim", "--checkpoint", "4"], "only a run has checkpoints"),
        (["--environment", "kuhn_poker", "--against", "nobody"], "nobody"),
        (["RUN", "--seat", "2"], "seats 0 to 1"),
        (["--environment", "nim", "--answer", "nash"], "only a run has an answer"),
        (["RUN", "--answer", "nash", "--against", "random"], "leave one out"),
        (["RUN", "--answer", "nesh"], "Did you mean 'nash'"),
        (["RUN", "--answer", "nash"], "has none at step 1"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_line(poker, arguments, why):
    assert_refused(call("play", *(str(poker) if word == "RUN" else word for word in arguments), text="q\n"), why)


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
        store_episode(run, sitting.episode)
    output = call("show", run, "--played", "--ids").output
    assert "has no episode 9 with a person" in str(call("show", run, "--played", "--step", 9).exception)
    assert "person-you" in output and "bot-random" in output and "Stored steps: 1, 2." in output


def test_play_web_serves_the_page_with_what_was_chosen(poker, monkeypatch):
    served = {}
    monkeypatch.setattr("sparring.view.serve.serve", lambda roots, *_, **options: served.update(options, roots=roots))
    arguments = [
        "play",
        str(poker),
        "--web",
        "--no-browser",
        "--seat",
        "1",
        "--against",
        "mcts simulations=5",
        "--seed",
        "7",
    ]
    assert call("play", poker, "--web", "--answer", "last").exit_code == 0 and served["answer"] == "last"
    succeed(*arguments)
    assert served["roots"] == [poker] and served["trusted"] == ["mcts simulations=5"] and served["browser"] is False
    assert (
        served["query"] == "?view=play&run=0&environment=kuhn_poker&seat=1&against=mcts+simulations%3D5&seed=7&begin=1"
    )
    succeed("play", "--environment", "nim", "--web")
    assert served["roots"] == [] and served["query"].startswith("?view=play&environment=nim")
    assert "seats 0 to 1" in str(call("play", str(poker), "--web", "--seat", "9").exception)
