"""A person plays at the terminal: boards, rules, help, the end of an episode and the next one."""

import re
import shutil

import pytest

from sparring.api.human_play import InteractiveSession, Lobby, store_episode
from tests.cli.builders import assert_refused, call, succeed
from tests.run_with_members import run_of

SMALL_OVERRIDES = ["steps=1", "rollout.games_per_step=8", "model.hidden_size=16", "model.layers=1", "threads=1"]
SMALL_OVERRIDES += ["evaluation.exact=false", "evaluation.opponents=[]"]


@pytest.fixture(scope="module")
def poker_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("play") / "run"
    succeed("train", "kuhn-tiny", *SMALL_OVERRIDES, "environments.0.options.style=brief", "--run", path)
    return path


def output_of(*arguments, typed):
    return succeed("play", *arguments, text=typed).output


def test_an_episode_of_poker_from_the_rules_to_the_showdown(poker_run):
    output = output_of(poker_run, "--seed", 3, typed="what\nbet\nn\n")
    assert "We play Kuhn poker with 2 players." in output
    assert "You are first. The deal is --seed 3." in output
    assert "Your card is the Queen." in output and "Betting so far: none." in output
    assert "'what' is not an action of this game; it does not count as a move" in output
    assert "The cards: first Queen, second Jack." in output
    assert re.search(r"You (won|lost): [+-]\d\. Payoffs: first [+-]\d, second [+-]\d\.", output)
    assert re.search(r"1  first \(you\) +bet\n", output)
    assert re.search(r"2  second \(policy\) .*\[.*(pass|bet) 0\.\d\d", output)
    assert output.count("Again?") == 1


def test_the_board_and_the_result_are_printed():
    output = output_of(
        "--environment", "tic_tac_toe", "--against", "random", typed="b2\na1\nc1\na3\nc3\na2\nc2\nb1\nb3\n" * 2
    )
    assert "  a b c\n1 . . .\n2 . . .\n3 . . .\n" in output
    assert re.search(r"The player 'O' chose [abc][123]\.", output)
    assert re.search(r"(You won: |You lost: |A draw\. Payoffs: X )[+-]", output)


@pytest.mark.parametrize("word", ["?", "help"])
def test_help_shows_the_rules_again(poker_run, word):
    assert output_of(poker_run, typed=f"{word}\nq\n").count("We play Kuhn poker") == 2


def test_each_episode_has_a_new_deal_unless_a_seed_is_given(poker_run):
    output = output_of(poker_run, "--seed", 3, typed="bet\ns\nbet\nbet\nbet\ny\n")
    assert "You are first. The deal is --seed 3." in output
    assert "You are second. The deal is --seed 4." in output
    deals = {re.search(r"--seed (\d+)", output_of(poker_run, typed="")).group(1) for _ in range(4)}
    assert len(deals) > 1
    assert output_of(poker_run, "--seed", 5, typed="bet\n") == output_of(poker_run, "--seed", 5, typed="bet\n")


@pytest.mark.parametrize("text", ["", "?", "bet\n", "bet\npass\n", "bet\nbet\n\n"])
def test_the_session_ends_when_the_input_ends(poker_run, text):
    assert output_of(poker_run, typed=text).endswith("You left the game.\n")


def test_opponents_are_bots_checkpoints_and_mixtures_of_a_run(poker_run, tmp_path):
    output = output_of(
        "--environment", "tic_tac_toe", "--against", "scripted preference=[c3]", "--seed", 1, typed="b2\nq\n"
    )
    assert "tic_tac_toe, against scripted preference=[c3]." in output
    assert "The player 'O' chose c3." in output
    assert "urn, alone." in output_of("--environment", "urn", typed="q\n")
    assert "against policy, step 1, of" in output_of(poker_run, "--against", "1", typed="q\n")
    assert "against random, of" in output_of(poker_run, "--against", "random", typed="q\n")
    path, _ = run_of(tmp_path / "run")
    assert "against policy, step 2, of" in output_of(path, typed="q\n")
    assert "against mixture of 3 members, step 2, of" in output_of(path, "--answer", "uniform", typed="q\n")
    output = output_of(path, "--answer", "delta_uniform delta=1", typed="bet\nbet\nn\n")
    assert "Drawn from the mixture for this episode: past-000002." in output
    assert "against learner, step 2, of" in output_of(path, "--answer", "last", typed="q\n")
    assert "this run has none" in str(call("play", path, "--answer", "average", text="q\n").exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--environment"),
        (["--environment", "nim", "--checkpoint", "4"], "only a run has checkpoints"),
        (["--environment", "kuhn_poker", "--against", "nobody"], "nobody"),
        (["RUN", "--seat", "2"], "seats 0 to 1"),
        (["--environment", "nim", "--answer", "nash"], "--answer nash needs a run folder"),
        (["RUN", "--answer", "nash", "--against", "random"], "leave one out"),
        (["RUN", "--answer", "nesh"], "Did you mean 'nash'"),
        (["RUN", "--answer", "nash"], "has none at step 1"),
    ],
)
def test_a_wrong_play_command_is_refused_with_one_line(poker_run, arguments, message):
    assert_refused(
        call("play", *(str(poker_run) if word == "RUN" else word for word in arguments), text="q\n"), message
    )


def test_show_lists_the_episodes_that_people_played(poker_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(poker_run, run)
    outcome = call("show", run, "--played")
    assert "Nobody has played in" in str(outcome.exception)
    lobby = Lobby(run)
    game = lobby.game(None)
    for _ in range(2):
        session = InteractiveSession(game, 0, lobby.opponent(game, "random"), 3)
        while session.pending is not None:
            session.submit_reply("bet")
        store_episode(run, session.episode)
    output = call("show", run, "--played", "--ids").output
    assert "has no episode 9 with a person" in str(call("show", run, "--played", "--step", 9).exception)
    assert "person-you" in output and "bot-random" in output and "Stored steps: 1, 2." in output


def test_play_web_opens_the_page_with_the_chosen_options(poker_run, monkeypatch):
    serve_options = {}
    monkeypatch.setattr(
        "sparring.view.serve.serve", lambda roots, *_, **options: serve_options.update(options, roots=roots)
    )
    arguments = [
        "play",
        str(poker_run),
        "--web",
        "--no-browser",
        "--seat",
        "1",
        "--against",
        "mcts simulations=5",
        "--seed",
        "7",
    ]
    assert call("play", poker_run, "--web", "--answer", "last").exit_code == 0 and serve_options["answer"] == "last"
    succeed(*arguments)
    assert (
        serve_options["roots"] == [poker_run]
        and serve_options["trusted"] == ["mcts simulations=5"]
        and serve_options["browser"] is False
    )
    assert (
        serve_options["query"]
        == "?view=play&run=0&environment=kuhn_poker&seat=1&against=mcts+simulations%3D5&seed=7&begin=1"
    )
    succeed("play", "--environment", "nim", "--web")
    assert serve_options["roots"] == [] and serve_options["query"].startswith("?view=play&environment=nim")
    assert "seats 0 to 1" in str(call("play", str(poker_run), "--web", "--seat", "9").exception)
