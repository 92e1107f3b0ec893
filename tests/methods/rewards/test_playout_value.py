"""The value of the position after a turn as its reward, by hand and in a run."""

from dataclasses import replace

import pytest

from sparring.config import resolve
from sparring.core.errors import ConfigError
from sparring.engine.local import LocalEngine
from sparring.methods.rewards.playout_value import playout_value
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

CONFIG = {
    "steps": 2,
    "threads": 1,
    "environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 8, "group_size": 4, "playouts": 2},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "rewards": [{"name": "playout_value"}],
    "reorder_outcomes": True,
    "outcome_weight": 0.0,
    "credit": {"name": "vpr", "process": "playout_value"},
}


def test_by_hand(make_episode):
    episode = make_episode([(0, "ok", 2, 0.0), (1, "ok", 2, 0.0)])
    assert playout_value(episode) == (None, None)
    assert playout_value(replace(episode, turns=(episode.turns[0]._replace(playout=0.25), episode.turns[1]))) == (0.25, None)


def test_a_run_learns_from_it():
    config = resolve(CONFIG)
    engine = LocalEngine(config)
    outcome = play_round(config, engine, Methods.of(config), RunState())
    turns = [turn for episode in outcome.episodes for turn in episode.turns]
    assert all(turn.rewards["playout_value"] == turn.playout for turn in turns)
    assert {-1.0, 0.0, 1.0} > {turn.playout for turn in turns} or len({turn.playout for turn in turns}) > 3
    assert outcome.metrics["gradient_norm"] > 0 and "abstained/playout_value" not in outcome.metrics
    again = play_round(config, LocalEngine(config), Methods.of(config), RunState())
    assert again.episodes == outcome.episodes


def test_without_playouts_it_is_refused():
    with pytest.raises(ConfigError, match=r"'playout_value' needs games played on.*rollout.playouts: 4"):
        resolve({**CONFIG, "rollout": {"games_per_step": 8}})
