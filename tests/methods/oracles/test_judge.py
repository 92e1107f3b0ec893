"""Verdicts on finished games: each turn's own state, only whom it is asked of, and what a turn lost."""

from dataclasses import replace

import pytest

from sparring.config import EnvironmentConfig
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.records import Turn, Verdict
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.judge import configured_oracles, is_best, judge_episodes, regret
from sparring.play.replay import replay
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

TIC, NIM = make_game("tic_tac_toe"), make_game("kuhn_poker")
MINIMAX = registry.bind("oracles", "minimax")()


def episodes(game, number=10, trained=(True, True)):
    root = Stream.from_seed(1)
    agents = {"random": registry.bind("players", "random")()}
    specs = [
        EpisodeSpec(
            game=game,
            episode_id=index,
            group_id=index,
            deal=root.child(index).child("deal"),
            stream=root.child(index),
            seats=("random",) * 2,
            trained=trained,
        )
        for index in range(number)
    ]
    return play(specs, agents)


def test_every_turn_gets_the_verdict_on_its_own_state():
    played = episodes(TIC) + episodes(NIM)
    judged = judge_episodes(played, {"tic_tac_toe": TIC, "kuhn_poker": NIM}, {"tic_tac_toe": MINIMAX})
    for before, after in zip(played, judged, strict=True):
        assert replace(after, turns=tuple(turn._replace(verdict=None) for turn in after.turns)) == before
        if after.game == "kuhn_poker":
            assert after is before
        else:
            assert [turn.verdict for turn in after.turns] == MINIMAX.judge(replay(TIC, before))


@pytest.mark.parametrize("everyone", [False, True])
def test_only_trained_seats_unless_everyone_is_asked_for(everyone):
    judged = judge_episodes(episodes(TIC, trained=(False, True)), {"tic_tac_toe": TIC}, {"tic_tac_toe": MINIMAX}, everyone=everyone)
    assert {turn.seat for episode in judged for turn in episode.turns if turn.verdict is not None} == ({0, 1} if everyone else {1})
    assert judge_episodes([], {"tic_tac_toe": TIC}, {"tic_tac_toe": MINIMAX}) == []


def test_an_oracle_that_errs_by_turn_gets_a_stream_of_every_turn():
    class Recorder:
        name = "recorder"
        seen = ()

        def judge(self, states, streams=None):
            self.seen = [stream.key for stream in streams]
            return [None] * len(states)

    recorder, played = Recorder(), episodes(TIC)
    judged = judge_episodes(played, {"tic_tac_toe": TIC}, {"tic_tac_toe": recorder})
    first = recorder.seen
    assert len(set(first)) == len(first) == sum(len(episode.turns) for episode in played)
    assert all(turn.verdict is None for episode in judged for turn in episode.turns)
    judge_episodes(played[::-1], {"tic_tac_toe": TIC}, {"tic_tac_toe": recorder})
    assert sorted(recorder.seen) == sorted(first)


VERDICT = Verdict(actions=("a", "b", "c"), values=(1.0, 0.25, -1.0), best=frozenset("a"))


@pytest.mark.parametrize(
    ("action", "event", "right", "lost"),
    [
        ("a", "ok", True, 0.0),
        ("b", "ok", False, 0.75),
        ("c", "ok", False, 2.0),
        (None, "illegal", False, 2.0),
        ("a", "unparsable", False, 2.0),
    ],
)
def test_what_a_turn_lost(action, event, right, lost):
    turn = Turn(0, 0, "x", "k", VERDICT.actions, "", action, event, {}, verdict=VERDICT)
    assert (is_best(turn), regret(turn)) == (right, lost)
    assert (is_best(turn._replace(verdict=None)), regret(turn._replace(verdict=None))) == (None, None)


def test_an_oracle_that_cannot_judge_its_game_is_refused_before_anything_runs():
    sections = [EnvironmentConfig(name="tic_tac_toe", oracle={"name": "minimax"}), EnvironmentConfig(name="kuhn_poker")]
    assert list(configured_oracles(sections, [TIC, NIM])) == ["tic_tac_toe"]
    with pytest.raises(ConfigError, match="'kuhn_poker' has the oracle 'minimax', which cannot judge it"):
        configured_oracles([EnvironmentConfig(name="kuhn_poker", oracle={"name": "minimax"})], [NIM])
