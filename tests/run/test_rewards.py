"""Rewards in the training loop: a run with all of them, wrong configurations, and the rewards that credit receives."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import load_recipe
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import configured_game
from sparring.play.store import EpisodeStore
from sparring.play.turn_table import ordered_turns
from sparring.report.explanations import glossary
from sparring.run.events import fits, read_lines
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from tests.run.builders import train_in

# rewards that need an oracle; their weights are too small to reach the bound
REWARDS_WITH_ORACLE = {name for name in registry.names("rewards") if registry.load("rewards", name).needs}
# these two need an endpoint and a puzzle
REWARD_NAMES = [name for name in registry.names("rewards") if name not in ("llm_judge", "reference_match")]
# not available here: entropies of an oracle, a lead, and episodes with parts
ABSTAINING_REWARDS = {
    "information_gain",
    "spawn",
    "subtasks_finished",
    "contribution",
}
ALL_REWARDS = [{"name": name, "weight": 1e-6 if name in REWARDS_WITH_ORACLE else 0.5} for name in REWARD_NAMES]
BASE = {
    "steps": 2,
    "threads": 1,
    "environments": [
        {"name": "tic_tac_toe", "illegal": {"rule": "random"}, "oracle": {"name": "minimax"}},
        {"name": "kuhn_poker", "illegal": {"payoff": "spiral"}, "oracle": {"name": "cfr", "iterations": 10}},
    ],
    "rollout": {"games_per_step": 8, "playouts": 1},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"every": 2, "exact": False},
    "store": {"every": 1},
    "rewards": ALL_REWARDS,
}


def play_step(**changes):
    config = resolve({**BASE, **changes})
    engine, turn_tables = LocalEngine(config), []
    methods = Methods.of(config)

    def credit(turns, state, progress):
        turn_tables.append(turns)
        return methods.credit["main"](turns, state, progress=progress)

    return play_round(config, engine, replace(methods, credit={"main": credit}), RunState()), turn_tables[0]


def test_a_run_with_all_rewards_stores_and_reports_them(tmp_path):
    config = resolve(BASE)
    assert train_in(tmp_path / "run", config).finished
    names = {f"reward/{reward['name']}" for reward in ALL_REWARDS}
    for line in read_lines(tmp_path / "run" / "metrics.jsonl"):
        assert all(line.get("metrics", line)[f"abstained/{name}"] == 1 for name in ABSTAINING_REWARDS)
        assert names | {"bounded_share"} <= set(line.get("metrics", line))
    for _, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes():
        for turn in episode.turns:
            assert set(turn.rewards) - {"illegal"} == {"game", *REWARD_NAMES} - ABSTAINING_REWARDS
            assert turn.rewards["format_bonus"] == (0.025 if turn.event == "ok" else 0.0)


def test_credit_gets_shaped_rewards_and_metrics_use_plain_returns():
    rewards = [{"name": "format_bonus", "bonus": 0.01, "penalty": 0.02}]
    (outcome, turns), (plain_outcome, plain_turns) = play_step(rewards=rewards), play_step(rewards=[])
    expected = [0.01 if turn.event == "ok" else -0.02 for _, turn in ordered_turns(outcome.episodes)]
    assert (turns.reward - plain_turns.reward).tolist() == pytest.approx(expected)
    assert outcome.metrics["reward/format_bonus"] == pytest.approx(sum(expected) / len(expected))
    shared_names = {
        name for name in plain_outcome.metrics if name.startswith(("return/", "legal_rate", "forfeit_rate"))
    }
    assert shared_names and all(plain_outcome.metrics[name] == outcome.metrics[name] for name in shared_names)
    assert not any(name.startswith("reward/") for name in plain_outcome.metrics)


def test_penalties_within_a_game_never_reorder_outcomes():
    games = [{"name": "tic_tac_toe", "illegal": {"rule": "random", "penalty": 3.0}}]
    for is_unbounded, bound in ((False, 0.49), (True, math.inf)):
        outcome, turns = play_step(environments=games, rewards=[], reorder_outcomes=is_unbounded)
        sums = np.bincount(turns.trajectory, weights=turns.components["illegal"])
        assert outcome.metrics["legal_rate"] < 1 and outcome.metrics["bounded_share"] == (0.0 if is_unbounded else 1.0)
        assert -bound - 1e-9 <= sums.min() < (-2.9 if is_unbounded else -0.4)


def test_credit_gets_scaled_payoffs_and_metrics_use_the_original():
    kuhn, tictactoe = (
        {"name": "kuhn_poker", "illegal": {"rule": "random"}},
        {"name": "tic_tac_toe", "illegal": {"rule": "random"}},
    )
    (plain_outcome, plain_turns), (scaled_outcome, turns) = (
        play_step(environments=[{**kuhn, "scale": scale}, tictactoe], rewards=[]) for scale in (1.0, 2.5)
    )
    factor = np.array([2.5 if turns.game_names[game] == "kuhn_poker" else 1.0 for game in turns.game])
    assert turns.reward.tolist() == (plain_turns.reward * factor).tolist()
    assert np.abs(plain_turns.reward).max() > 0 and set(factor.tolist()) == {1.0, 2.5}
    figures = [name for name in plain_outcome.metrics if name.startswith(("return/", "seat_asymmetry/", "legal_rate"))]
    assert figures and all(plain_outcome.metrics[name] == scaled_outcome.metrics[name] for name in figures)


def test_exact_values_are_scaled_with_the_payoffs():
    game = {"name": "kuhn_poker", "illegal": {"rule": "random"}}
    sections = {"rewards": [], "credit": {"name": "difference_rewards"}}
    (_, unscaled_turns), (_, turns) = (
        play_step(environments=[{**game, "scale": scale}], **sections) for scale in (1.0, 2.0)
    )
    for name in ("action_value", "default_value", "reward"):
        assert getattr(turns, name) == pytest.approx(2.0 * getattr(unscaled_turns, name))
    assert np.abs(turns.action_value).max() > 0


def test_the_scaled_payoffs_of_the_mars_paper_are_at_most_4():
    config = resolve(load_recipe("mars/multi-game-paper"))
    max_payoffs = [configured_game(section).max_utility * section.scale for section in config.environments]
    assert max_payoffs == [4.0, 4.0, 4.0]


def format_reward_of_seat(episode, seat):
    return sum(
        value
        for turn in episode.turns
        if turn.seat == seat
        for name, value in turn.rewards.items()
        if name == "format_bonus"
    )


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({}, 0.49),
        ({"reorder_outcomes": True}, 50.0),
        ({"environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}, "outcome_gap": 0.1}]}, 0.049),
        ({"environments": [{"name": "tic_tac_toe", "illegal": {"rule": "forfeit", "payoff": "spiral"}}]}, 0.245),
    ],
)
def test_the_bound_comes_from_the_game_unless_given_or_removed(changes, bound):
    games = [{"name": "tic_tac_toe", "illegal": {"rule": "random"}}]
    large_rewards = [{"name": "format_bonus", "bonus": 10.0, "penalty": 10.0}]
    outcome, _ = play_step(**{"environments": games, "rewards": large_rewards, **changes})
    totals = [
        abs(format_reward_of_seat(episode, seat))
        for episode in outcome.episodes
        for seat in (0, 1)
        if any(turn.seat == seat for turn in episode.turns)
    ]
    if "reorder_outcomes" in changes:
        assert outcome.metrics["bounded_share"] == 0.0 and all(value % 10.0 == 0.0 for value in totals)
    else:
        assert outcome.metrics["bounded_share"] == 1.0 and max(totals) == pytest.approx(bound)
    assert max(totals) <= bound + 1e-9


def test_every_metric_of_shaping_is_documented():
    outcome, _ = play_step()
    documented = glossary()
    for name in outcome.metrics:
        assert any(fits(pattern, name) for pattern in documented), name


@pytest.mark.parametrize(
    ("rewards", "error", "message"),
    [
        ([{"name": "lenght"}], UnknownNameError, "Unknown reward 'lenght'. Did you mean 'length'"),
        (
            [{"name": "format_bonus", "bonus": {"schedule": "linear", "start": 1, "end": -1}}],
            ConfigError,
            "option 'bonus'",
        ),
        ([{"name": "format_bonus", "weight": "much"}], ConfigError, "weight"),
        (
            [{"name": "length"}, {"name": "length", "preset": "mars_paper"}],
            ConfigError,
            "reward 'length' is listed twice",
        ),
    ],
)
def test_a_wrong_configuration_fails_before_anything_runs(rewards, error, message):
    with pytest.raises(error, match=message):
        resolve({**BASE, "rewards": rewards})


@pytest.mark.parametrize(
    "credit",
    [
        {"name": "vpr"},
        {"name": "vpr", "baseline": "state", "whiten": True},
        {"name": "vpr", "outcome": 1.0},
        {"name": "ppr", "process": "best_action"},
        {"name": "at_grpo", "local": "best_action"},
    ],
    ids=str,
)
def test_a_step_without_judged_turns_continues(credit):
    config = resolve(
        {
            "steps": 2,
            "threads": 1,
            "environments": [
                {
                    "name": "kuhn_poker",
                    "illegal": {"rule": "random"},
                    "oracle": {"name": "noisy", "oracle": "cfr", "abstain": 1.0},
                }
            ],
            "rollout": {"games_per_step": 8, "group_size": 4},
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "rewards": [{"name": "best_action"}],
            "credit": credit,
        }
    )
    metrics = play_round(config, LocalEngine(config), Methods.of(config), RunState()).metrics
    assert metrics["abstained/best_action"] == 1.0 and "advantage_std" in metrics
    if credit == {"name": "vpr"}:
        assert metrics["credit/judged_share"] == 0.0 and metrics["advantage_std"] == 0.0
