"""A person's seat: what it is told and nothing else, its replies, hints, the end, and the record."""

import json
from types import SimpleNamespace

import pytest

from sparring.api.human_play import (
    MAX_CHARS,
    YOU,
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
def room():
    return Lobby()


def sat(room, name, *, seat=0, against="random", seed=3):
    game = room.game(name)
    return InteractiveSession(game, seat, room.opponent(game, against), seed)


def finished(sitting, choose=lambda legal: legal[0]):
    while sitting.pending is not None:
        assert sitting.say("hello" if sitting.legal is None else choose(sitting.legal)) == ""
    return sitting.episode


def test_replies_are_taken_to_the_end_and_what_is_no_action_changes_nothing(room):
    sitting = sat(room, "kuhn_poker", against="cfr")
    assert "Your card is the" in sitting.prompt and sitting.legal == ("pass", "bet")
    episode = finished(sitting)
    assert sitting.legal is None and sitting.prompt == ""
    assert episode.agents == (YOU, "bot-cfr") and sum(episode.returns) == 0
    assert [turn.reply for turn in episode.turns if turn.seat == 0] == [exchange.reply for exchange in sitting.past]
    with pytest.raises(GameError, match="over"):
        sitting.say("bet")
    sitting = sat(room, "tic_tac_toe")
    assert "is not an action of this game" in sitting.say("what")
    assert sitting.say("  ") == "Type a reply."
    assert "at most" in sitting.say("x" * (MAX_CHARS + 1))
    assert sitting.say("I take B2.") == ""
    assert "b2 is not possible now" in sitting.say("b2")
    assert sitting.turn == 1 and sitting.past[0].reply == "b2"
    assert all(turn.event == "ok" for turn in finished(sitting).turns)


def test_seats_that_move_at_once_do_not_hear_each_other_before(room):
    prompts = []

    class Watching:
        name, renderer = "watching", None

        def act(self, turns):
            prompts.extend(turn.prompt for turn in turns)
            return [Reply(text="rock") for _ in turns]

    game = room.game("rock_paper_scissors")
    sitting = InteractiveSession(game, 1, Opponent("bot-watching", "watching", Watching()), 0)
    assert len(prompts) == 1 and sitting.pending.seat == 1
    assert sitting.say("paper") == ""
    assert sitting.episode.returns == (-1.0, 1.0)
    assert {turn.moment for turn in sitting.episode.turns} == {0}


def test_text_is_taken_whole_or_asked_for_again(room):
    sitting = sat(room, "talk")
    assert sitting.legal is None
    assert sitting.say(HOSTILE) == ""
    assert "says:" in sitting.prompt and sitting.legal is not None
    turn = finished(sitting).turns[0]
    assert turn.reply == HOSTILE.replace("\ud800", "?") and turn.event == "ok"
    sitting, prompts = sat(room, "tools"), []
    for _ in range(12):
        prompts.append(sitting.prompt)
        assert sitting.say(HOSTILE) == ""
    wrong = [text for text in prompts if text.startswith("Your reply contained no action.")]
    assert len(wrong) >= 5 and "was played for you" in sitting.prompt + "".join(prompts)
    assert sitting.turn == len(sitting.past) == 12


@pytest.mark.parametrize("name", ["lookups", "sudoku", "urn"])
def test_a_seat_alone(room, name):
    sitting = sat(room, name, against=None)
    assert sitting.opponent is None and sitting.prompt
    assert finished(sitting).agents == (YOU,)


@pytest.mark.parametrize(("name", "seat"), [("kuhn_poker", 0), ("kuhn_poker", 1), ("tic_tac_toe", 0)])
def test_hints_and_the_judgement_are_the_oracles_verdicts(room, name, seat):
    game = room.game(name)
    oracle, why = choose_oracle(game)
    assert oracle is not None, why
    sitting, hints = sat(room, name, seat=seat), []
    while sitting.pending is not None:
        hints.append(sitting.hint(oracle))
        sitting.say(sitting.legal[0])
    episode = sitting.judge_episode(oracle)
    turns = [turn for turn in episode.turns if turn.seat == seat]
    assert [turn.verdict for turn in turns] == hints
    assert all(turn.verdict is not None for turn in episode.turns)
    assert [regret(turn) for turn in turns] == [
        max(hint.values) - hint.values[hint.actions.index(turn.action)] for hint, turn in zip(hints, turns, strict=True)
    ]
    again = judge_episodes([sitting.episode], {name: game}, {name: oracle}, all_seats=True)[0]
    assert again == episode
    with pytest.raises(GameError, match="over"):
        sitting.hint(oracle)


def test_a_finished_play_is_stored_and_reads_back_as_it_was_said(room, tmp_path):
    for number in (1, 2):
        sitting = sat(room, "kuhn_poker", seed=number)
        finished(sitting)
        assert store_episode(tmp_path, sitting.episode) == number
    assert not (tmp_path / "episodes").exists()
    (step, stored) = list(EpisodeStore(tmp_path / "played" / "episodes").episodes())[-1]
    assert (step, stored) == (2, sitting.episode)
    assert len(replay(from_spec(stored.environment), stored)) == len(stored.turns)
    (tmp_path / "b").mkdir()
    sitting = sat(room, "talk")
    sitting.say(HOSTILE)
    finished(sitting)
    store_episode(tmp_path / "b", sitting.episode)
    ((_, stored),) = EpisodeStore(tmp_path / "b" / "played" / "episodes").episodes()
    assert stored == sitting.episode and HOSTILE[:-1] in stored.turns[0].reply


@pytest.mark.parametrize("name", ["kuhn_poker", "sealed_auction", "bargain"])
def test_the_seed_decides_the_play(room, name):
    first, two, other = (finished(sat(room, name, seed=seed)) for seed in (5, 5, 6))
    assert first == two
    assert first.seed != other.seed


def test_players_that_may_be_asked_for(room):
    poker, board = room.game("kuhn_poker"), room.game("tic_tac_toe")
    assert bots_for(poker) == ["cfr", "random"] and bots_for(board) == ["mcts", "minimax", "random"]
    assert bots_for(room.game("bargain")) == ["house", "random"]
    assert bots_for(room.game("kuhn_rounds")) == ["random"]  # cfr would take its time, and then refuse
    assert room.opponent_choices(room.game("urn")) == []
    assert room.opponent(board, "mcts simulations=5").name == "bot-mcts"
    with pytest.raises(UnknownNameError, match="opponent"):
        room.opponent(board, "os.system")
    trusted = Lobby(trusted=["scripted preference=[b2]"])
    assert trusted.opponent(board, "scripted preference=[b2]").name == "bot-scripted"
    with pytest.raises(ConfigError, match="--environment"):
        room.game(None)
    with pytest.raises(UnknownNameError):
        room.game("../../etc/passwd")


def test_every_environment_is_sat_down_at_and_a_run_needs_a_checkpoint(room, run):
    for name in room.environments:
        game = room.game(name)
        sitting = InteractiveSession(game, 0, room.opponent(game, "random"), 1)
        assert sitting.prompt and json.dumps(sitting.legal), name
    there = Lobby(run)
    with pytest.raises(SparringError, match="checkpoint"):
        there.opponent(there.game(None), None)
    assert [name for name, _ in there.opponent_choices(there.game(None))] == ["cfr", "random"]


@pytest.fixture
def run(tmp_path):
    RunFolder.create(tmp_path / "run", to_yaml(resolve(load_recipe("kuhn-tiny"))))
    return tmp_path / "run"


def test_the_newest_policy_is_that_of_now(run, monkeypatch):
    loaded, steps = [], [1]
    monkeypatch.setattr(Lobby, "steps", lambda _: steps[::-1])
    engine = SimpleNamespace(agent=lambda _: None)
    monkeypatch.setattr("sparring.api.load.load_run", lambda _, step: loaded.append(step) or (None, engine, steps[-1]))
    there = Lobby(run)
    game = there.game(None)
    assert [there.opponent(game, "policy").label for _ in range(2)] == ["policy, step 1"] * 2
    steps.append(2)
    assert there.opponent(game, "policy").label == "policy, step 2"
    assert there.opponent(game, "1").name == "past-000002" and loaded == [None, None, 1]


def test_the_answer_of_a_run_sits_opposite(tmp_path):
    path, _ = run_of(tmp_path / "run", league={"every": 1, "start": True, "plays": 6, "answer": "uniform"})
    sits = Lobby(path)
    opposite = sits.opponent(sits.game(None), None)
    assert opposite.label == "mixture of 3 members, step 2"
    members, lines = set(), []
    for seed in range(12):
        sitting = InteractiveSession(sits.game(None), 0, opposite, seed)
        members |= set(sitting._agents) - {YOU, opposite.name}
        assert finished(sitting).agents == (YOU, "mixture-answer")
        assert (
            set(sitting.drawn_members) == {"second"}
            and f"mixture-answer, {sitting.drawn_members['second']}" in sitting._agents
        )
        lines.append(member_line(sitting.drawn_members))
        record = sitting.record(sitting.episode)  # what is stored names who was drawn
        assert record.agents == (YOU, sitting.drawn_members["second"]) and record.returns == sitting.episode.returns
        assert {turn.agent for turn in record.turns} <= set(record.agents) and record.players[1].kind == "snapshot"
    assert set(lines) == {f"Drawn from the mixture for this play: past-00000{step}" for step in range(3)}
    policy = InteractiveSession(sits.game(None), 0, sits.opponent(sits.game(None), "2"), 0)
    assert policy.drawn_members == {} and policy.record(finished(policy)) == policy.episode
    assert revealed_end(sitting, sitting.episode)["drawn"] == lines[-1]
    assert {name.partition(", ")[2] for name in members} == {"past-000000", "past-000001", "past-000002"}
    assert sits.opponent_choices(sits.game(None))[0] == ("policy", "mixture of members, step 2")
    assert sits.opponent(sits.game(None), "2").label == "policy, step 2"
