"""The best-action reward, by hand, and in a run: verdicts reach rewards, credit, figures and the store."""

from dataclasses import replace

import pytest

from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import ConfigError
from sparring.core.records import Verdict
from sparring.engine.local import LocalEngine
from sparring.methods.rewards.best_action import best_action
from sparring.play.store import EpisodeStore
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train

TURNS = [(0, "ok", 2, 0.0), (1, "illegal", 2, 0.0), (0, "ok", 2, 0.0), (1, "ok", 2, 0.0)]


def judged(episode, verdicts):
    return replace(episode, turns=tuple(turn._replace(verdict=verdict) for turn, verdict in zip(episode.turns, verdicts, strict=True)))


def verdict(*best):
    return Verdict(actions=("bet", "pass"), values=tuple(float(action in best) for action in ("bet", "pass")), best=frozenset(best))


def test_right_wrong_illegal_and_abstained(make_episode):
    episode = judged(make_episode(TURNS), [verdict("bet"), verdict("bet"), verdict("pass"), None])
    assert best_action(episode) == (1.0, 0.0, 0.0, None)
    assert best_action(episode, right=0.5, wrong=-2.0) == (0.5, -2.0, -2.0, None)
    assert best_action(judged(make_episode(TURNS), [verdict("bet", "pass")] * 4)) == (1.0, 0.0, 1.0, 1.0)


CONFIG = {
    "steps": 2,
    "threads": 1,
    "environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}, "oracle": {"name": "minimax"}}],
    "rollout": {"games_per_step": 8},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"every": 2, "exact": False},
    "store": {"every": 1},
    "rewards": [{"name": "best_action"}],
    "reorder_outcomes": True,
    "outcome_weight": 0.0,
}


def test_a_run_rewards_reports_and_stores_what_the_oracle_says(tmp_path):
    config = resolve(CONFIG)
    with RunFolder.create(tmp_path / "run", to_yaml(config)) as folder:
        assert train(config, LocalEngine(config), folder).finished
    for line in read_lines(tmp_path / "run" / "metrics.jsonl"):
        metrics = line.get("metrics", line)
        assert metrics["reward/best_action"] == pytest.approx(metrics["optimal_rate/tic_tac_toe"])
        assert metrics["judged_rate/tic_tac_toe"] == 1 and metrics["regret/tic_tac_toe"] > 0
    turns = [turn for _, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes() for turn in episode.turns]
    assert turns and all(turn.verdict.actions == turn.legal_actions for turn in turns)
    assert {turn.rewards["best_action"] for turn in turns} == {0.0, 1.0}
    assert {turn.rewards["game"] for turn in turns} == {0.0}  # outcomes are paid with weight 0


def test_without_an_oracle_it_is_refused():
    games = [{"name": "tic_tac_toe"}]
    with pytest.raises(ConfigError, match=r"'best_action' needs an oracle.*'tic_tac_toe' has none.*oracle: \{name: minimax\}"):
        resolve({**CONFIG, "environments": games})
    held_out = [*CONFIG["environments"], {"name": "kuhn_poker", "weight": 0}]
    assert resolve({**CONFIG, "environments": held_out}).environments[1].oracle is None
    with pytest.raises(ConfigError, match="reorder_outcomes: true"):
        resolve({**CONFIG, "reorder_outcomes": False})
