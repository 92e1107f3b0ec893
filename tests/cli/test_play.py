"""A person plays at the terminal: boards, rules, help, the end of an episode and the next one."""

import re
import shutil

import pytest

from sparring.api.human_play import InteractiveSession, Lobby, store_episode
from tests.cli.builders import assert_refused, call, succeed
from tests.run_with_members import run_of

SMALL = ["steps=1", "rollout.games_per_step=8", "model.hidden_size=16", "model.layers=1", "threads=1"]
SMALL += ["evaluation.exact=false", "evaluation.opponents=[]"]


@pytest.fixture(scope="module")
def poker_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("play") / "run"
    succeed("train", "kuhn-tiny", *SMALL, "environments.0.options.style=brief", "--run", path)
    return path


def output_of(*arguments, text):
    return succeed("play", *arguments, text=text).output


def test_an_episode_of_poker_from_the_rules_to_the_showdown(poker_run):
    output = output_of(poker_run, "--seed", 3, text="what\nbet\nn\n")
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
        "--environment", "tic_tac_toe", "--against", "random", text="b2\na1\nc1\na3\nc3\na2\nc2\nb1\nb3\n" * 2
    )
    assert "  a b c\n1 . . .\n2 . . .\n3 . . .\n" in output
    assert re.search(r"The player 'O' chose [abc][123]\.", output)
    assert re.search(r"(You won: |You lost: |A draw\. Payoffs: X )[+-]", output)


@pytest.mark.parametrize("word", ["?", "help"])
def test_help_shows_the_rules_again(poker_run, word):
    assert output_of(poker_run, text=f"{word}\nq\n").count("We play Kuhn poker") == 2


def test_each_episode_has_a_new_deal_unless_a_seed_is_given(poker_run):
    output = output_of(poker_run, "--seed", 3, text="bet\ns\nbet\nbet\nbet\ny\n")
    assert "You are first. The deal is --seed 3." in output
    assert "You are second. The deal is --seed 4." in output
    deals = {re.search(r"--seed (\d+)", output_of(poker_run, text="")).group(1) for _ in range(4)}
    assert len(deals) > 1
    assert output_of(poker_run, "--seed", 5, text="bet\n") == output_of(poker_run, "--seed", 5, text="bet\n")


@pytest.mark.parametrize("text", ["", "?", "bet\n", "bet\npass\n", "bet\nbet\n\n"])
def test_the_end_of_input_ends_the_session(poker_run, text):
    assert output_of(poker_run, text=text).endswith("You left the game.\n")


def test_a_person_plays_against_bots_and_answers_of_a_run(poker_run, tmp_path):
    output = output_of(
        "--environment", "tic_tac_toe", "--against", "scripted preference=[c3]", "--seed", 1, text="b2\nq\n"
    )
    assert "tic_tac_toe, against scripted preference=[c3]." in output
    assert "The player 'O' chose c3." in output
    assert "urn, alone." in output_of("--environment", "urn", text="q\n")
    assert "against policy, step 1, of" in output_of(poker_run, "--against", "1", text="q\n")
    assert "against random, of" in output_of(poker_run, "--against", "random", text="q\n")
    path, _ = run_of(tmp_path / "run")
    assert "against policy, step 2, of" in output_of(path, text="q\n")
    assert "against mixture of 3 members, step 2, of" in output_of(path, "--answer", "uniform", text="q\n")
    output = output_of(path, "--answer", "delta_uniform delta=1", text="bet\nbet\nn\n")
    assert "Drawn from the mixture for this episode: past-000002." in output
    assert "against learner, step 2, of" in output_of(path, "--answer", "last", text="q\n")
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


def test_episodes_of_people_are_shown(poker_run, tmp_path):
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
