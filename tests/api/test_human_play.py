"""A person plays one seat: the prompts, replies, hints, the end, and the stored record."""

import json
from types import SimpleNamespace

import pytest

from sparring.api.human_play import (
    MAX_CHARS,
    PERSON_NAME,
    InteractiveSession,
    Lobby,
    Opponent,
    bots_for,
    store_episode,
)
from sparring.config import resolve
from sparring.config.recipe import load_recipe, to_yaml
from sparring.core.errors import ConfigError, GameError, SparringError, UnknownNameError
from sparring.environments.catalogue import from_spec
from sparring.measure.oracle_choice import choose_oracle
from sparring.methods.oracles.judge import judge_episodes, regret
from sparring.play.players.base import Reply
from sparring.play.replay import replay
from sparring.play.store import EpisodeStore
from sparring.report.episode_summary import member_line
from sparring.run.folder import RunFolder
from sparring.view.play_worker import revealed_end
from tests.run_with_members import run_of

HOSTILE = "</script><script>hit()</script> \u202egpj.exe \x1b[31m \ud800"


@pytest.fixture(scope="module")
def lobby():
    return Lobby()


def new_session(lobby, name, *, seat=0, against="random", seed=3):
    game = lobby.game(name)
    return InteractiveSession(game, seat, lobby.opponent(game, against), seed)


def play_to_end(session, choose=lambda legal: legal[0]):
    while session.pending is not None:
        assert session.submit_reply("hello" if session.legal is None else choose(session.legal)) == ""
    return session.episode


def test_replies_are_played_to_the_end_and_an_illegal_reply_changes_nothing(lobby):
    session = new_session(lobby, "kuhn_poker", against="cfr")
    assert "Your card is the" in session.prompt and session.legal == ("pass", "bet")
    episode = play_to_end(session)
    assert session.legal is None and session.prompt == ""
    assert episode.agents == (PERSON_NAME, "bot-cfr") and sum(episode.returns) == 0
    assert [turn.reply for turn in episode.turns if turn.seat == 0] == [
        exchange.reply for exchange in session.person_turns
    ]
    with pytest.raises(GameError, match="over"):
        session.submit_reply("bet")
    session = new_session(lobby, "tic_tac_toe")
    assert "is not an action of this game" in session.submit_reply("what")
    assert session.submit_reply("  ") == "Type a reply."
    assert "at most" in session.submit_reply("x" * (MAX_CHARS + 1))
    assert session.submit_reply("I take B2.") == ""
    assert "b2 is not possible now" in session.submit_reply("b2")
    assert session.turn_number == 1 and session.person_turns[0].reply == "b2"
    assert all(turn.event == "ok" for turn in play_to_end(session).turns)


def test_seats_that_move_at_once_do_not_see_each_others_replies(lobby):
    prompts = []

    class RecordingPlayer:
        name, renderer = "watching", None

        def act(self, turns):
            prompts.extend(turn.prompt for turn in turns)
            return [Reply(text="rock") for _ in turns]

    game = lobby.game("rock_paper_scissors")
    session = InteractiveSession(game, 1, Opponent("bot-watching", "watching", RecordingPlayer()), 0)
    assert len(prompts) == 1 and session.pending.seat == 1
    assert session.submit_reply("paper") == ""
    assert session.episode.returns == (-1.0, 1.0)
    assert {turn.moment for turn in session.episode.turns} == {0}


def test_free_text_is_stored_unchanged_and_unparsable_text_gets_a_correction_prompt(lobby):
    session = new_session(lobby, "talk")
    assert session.legal is None
    assert session.submit_reply(HOSTILE) == ""
    assert "says:" in session.prompt and session.legal is not None
    turn = play_to_end(session).turns[0]
    assert turn.reply == HOSTILE.replace("\ud800", "?") and turn.event == "ok"
    session, prompts = new_session(lobby, "tools"), []
    for _ in range(12):
        prompts.append(session.prompt)
        assert session.submit_reply(HOSTILE) == ""
    correction_prompts = [text for text in prompts if text.startswith("Your reply contained no action.")]
    assert len(correction_prompts) >= 5 and "was played for you" in session.prompt + "".join(prompts)
    assert session.turn_number == len(session.person_turns) == 12


@pytest.mark.parametrize("name", ["lookups", "sudoku", "urn"])
def test_a_person_plays_an_environment_of_one_seat(lobby, name):
    session = new_session(lobby, name, against=None)
    assert session.opponent is None and session.prompt
    assert play_to_end(session).agents == (PERSON_NAME,)


@pytest.mark.parametrize(("name", "seat"), [("kuhn_poker", 0), ("kuhn_poker", 1), ("tic_tac_toe", 0)])
def test_hints_and_judgements_are_the_verdicts_of_the_oracle(lobby, name, seat):
    game = lobby.game(name)
    oracle, reason = choose_oracle(game)
    assert oracle is not None, reason
    session, hints = new_session(lobby, name, seat=seat), []
    while session.pending is not None:
        hints.append(session.judge_decision(oracle))
        session.submit_reply(session.legal[0])
    episode = session.judge_episode(oracle)
    turns = [turn for turn in episode.turns if turn.seat == seat]
    assert [turn.verdict for turn in turns] == hints
    assert all(turn.verdict is not None for turn in episode.turns)
    assert [regret(turn) for turn in turns] == [
        max(hint.values) - hint.values[hint.actions.index(turn.action)] for hint, turn in zip(hints, turns, strict=True)
    ]
    judged_episode = judge_episodes([session.episode], {name: game}, {name: oracle}, all_seats=True)[0]
    assert judged_episode == episode
    with pytest.raises(GameError, match="over"):
        session.judge_decision(oracle)


def test_a_finished_episode_is_stored_and_reads_back_equal(lobby, tmp_path):
    for number in (1, 2):
        session = new_session(lobby, "kuhn_poker", seed=number)
        play_to_end(session)
        assert store_episode(tmp_path, session.episode) == number
    assert not (tmp_path / "episodes").exists()
    (step, stored_episode) = list(EpisodeStore(tmp_path / "played" / "episodes").episodes())[-1]
    assert (step, stored_episode) == (2, session.episode)
    assert len(replay(from_spec(stored_episode.environment), stored_episode)) == len(stored_episode.turns)
    (tmp_path / "b").mkdir()
    session = new_session(lobby, "talk")
    session.submit_reply(HOSTILE)
    play_to_end(session)
    store_episode(tmp_path / "b", session.episode)
    ((_, stored_episode),) = EpisodeStore(tmp_path / "b" / "played" / "episodes").episodes()
    assert stored_episode == session.episode and HOSTILE[:-1] in stored_episode.turns[0].reply


@pytest.mark.parametrize("name", ["kuhn_poker", "sealed_auction", "bargain"])
def test_the_seed_decides_the_episode(lobby, name):
    episode, same_seed, other_seed = (play_to_end(new_session(lobby, name, seed=seed)) for seed in (5, 5, 6))
    assert episode == same_seed
    assert episode.seed != other_seed.seed


def test_a_lobby_offers_the_players_that_fit_an_environment(lobby):
    poker, board = lobby.game("kuhn_poker"), lobby.game("tic_tac_toe")
    assert bots_for(poker) == ["cfr", "random"] and bots_for(board) == ["mcts", "minimax", "random"]
    assert bots_for(lobby.game("bargain")) == ["house", "random"]
    assert bots_for(lobby.game("kuhn_rounds")) == ["random"]  # cfr refuses a game of this size
    assert lobby.opponent_choices(lobby.game("urn")) == []
    assert lobby.opponent(board, "mcts simulations=5").name == "bot-mcts"
    with pytest.raises(UnknownNameError, match="opponent"):
        lobby.opponent(board, "os.system")
    lobby_with_scripted = Lobby(trusted=["scripted preference=[b2]"])
    assert lobby_with_scripted.opponent(board, "scripted preference=[b2]").name == "bot-scripted"
    with pytest.raises(ConfigError, match="--environment"):
        lobby.game(None)
    with pytest.raises(UnknownNameError):
        lobby.game("../../etc/passwd")


def test_a_person_can_play_every_environment_but_a_run_needs_a_checkpoint(lobby, run):
    for name in lobby.environments:
        game = lobby.game(name)
        session = InteractiveSession(game, 0, lobby.opponent(game, "random"), 1)
        assert session.prompt and json.dumps(session.legal), name
    run_lobby = Lobby(run)
    with pytest.raises(SparringError, match="checkpoint"):
        run_lobby.opponent(run_lobby.game(None), None)
    assert [name for name, _ in run_lobby.opponent_choices(run_lobby.game(None))] == ["cfr", "random"]


@pytest.fixture
def run(tmp_path):
    RunFolder.create(tmp_path / "run", to_yaml(resolve(load_recipe("kuhn-tiny"))))
    return tmp_path / "run"


def test_the_policy_as_opponent_follows_the_newest_checkpoint(run, monkeypatch):
    steps_loaded, steps = [], [1]
    monkeypatch.setattr(Lobby, "steps", lambda _: steps[::-1])
    engine = SimpleNamespace(agent=lambda _: None)
    monkeypatch.setattr(
        "sparring.api.load.load_run", lambda _, step: steps_loaded.append(step) or (None, engine, steps[-1])
    )
    run_lobby = Lobby(run)
    game = run_lobby.game(None)
    assert [run_lobby.opponent(game, "policy").label for _ in range(2)] == ["policy, step 1"] * 2
    steps.append(2)
    assert run_lobby.opponent(game, "policy").label == "policy, step 2"
    assert run_lobby.opponent(game, "1").name == "past-000002" and steps_loaded == [None, None, 1]


def test_a_person_plays_against_the_answer_of_a_run(tmp_path):
    path, _ = run_of(tmp_path / "run", league={"every": 1, "start": True, "plays": 6, "answer": "uniform"})
    run_lobby = Lobby(path)
    opponent = run_lobby.opponent(run_lobby.game(None), None)
    assert opponent.label == "mixture of 3 members, step 2"
    members, lines = set(), []
    for seed in range(12):
        session = InteractiveSession(run_lobby.game(None), 0, opponent, seed)
        members |= set(session._agents) - {PERSON_NAME, opponent.name}
        assert play_to_end(session).agents == (PERSON_NAME, "mixture-answer")
        assert (
            set(session.drawn_members) == {"second"}
            and f"mixture-answer, {session.drawn_members['second']}" in session._agents
        )
        lines.append(member_line(session.drawn_members))
        record = session.record(session.episode)  # the stored record names the member that was drawn
        assert (
            record.agents == (PERSON_NAME, session.drawn_members["second"])
            and record.returns == session.episode.returns
        )
        assert {turn.agent for turn in record.turns} <= set(record.agents) and record.players[1].kind == "snapshot"
    assert set(lines) == {f"Drawn from the mixture for this episode: past-00000{step}" for step in range(3)}
    policy = InteractiveSession(run_lobby.game(None), 0, run_lobby.opponent(run_lobby.game(None), "2"), 0)
    assert policy.drawn_members == {} and policy.record(play_to_end(policy)) == policy.episode
    assert revealed_end(session, session.episode)["drawn"] == lines[-1]
    assert {name.partition(", ")[2] for name in members} == {"past-000000", "past-000001", "past-000002"}
    assert run_lobby.opponent_choices(run_lobby.game(None))[0] == ("policy", "mixture of members, step 2")
    assert run_lobby.opponent(run_lobby.game(None), "2").label == "policy, step 2"
