"""Measuring while training: which figures there are, and that they say what a match or an enumeration says."""

import pytest

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.errors import UnknownNameError
from sparring.evaluate.exploitability import nash_conv
from sparring.evaluate.info_states import enumerate_info_states
from sparring.rng import Stream
from sparring.run.evaluation import Evaluator

PARTS = ("win", "win_or_draw", "return")


def engine(*games, **evaluation):
    config = resolve(
        {
            "games": [{"name": name} for name in games],
            "threads": 1,
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "evaluation": {"opponents": [{"name": "random", "games_per_seat": 20}], **evaluation},
        }
    )
    made = LocalEngine(config)
    return made, Evaluator([game for game, _ in made.games], config.evaluation)


def test_the_figures_of_a_game_are_those_of_enumeration_and_matches():
    made, evaluator = engine("kuhn_poker")
    metrics = evaluator.measure(made.agent("policy"), Stream.from_seed(0))
    game = made.games[0][0]
    report = nash_conv(game, enumerate_info_states(game), made.agent("policy"))
    assert metrics["nash_conv/kuhn_poker"] == report.nash_conv == pytest.approx(sum(report.gains))
    assert metrics["exploitability/kuhn_poker/first"] == report.gains[0]
    assert metrics["exploitability/kuhn_poker/second"] == report.gains[1]
    assert metrics["illegal_mass/kuhn_poker"] == report.illegal_mass
    assert metrics["illegal_mass_reached/kuhn_poker"] == report.illegal_mass_reached
    for role in ("first", "second"):
        prefix = f"match/kuhn_poker/random/{role}"
        for part in PARTS:
            low, mean, high = (metrics[f"{prefix}/{part}{end}"] for end in ("_low", "", "_high"))
            assert low <= mean <= high and (low < high or part == "return")
        assert 0 <= metrics[f"{prefix}/win"] <= metrics[f"{prefix}/win_or_draw"] <= 1
        assert 0 < metrics[f"{prefix}/illegal"] <= 1  # untrained
    assert evaluator.notes == []


def test_games_are_drawn_from_the_stream_alone():
    (made, evaluator), (_, again) = engine("kuhn_poker", exact=False), engine("kuhn_poker", exact=False)
    policy, stream = made.agent("policy"), Stream.from_seed(3)
    first = evaluator.measure(policy, stream)
    assert evaluator.measure(policy, stream) == again.measure(policy, stream) == first
    assert evaluator.measure(policy, Stream.from_seed(4)) != first


def test_what_cannot_be_enumerated_is_noted_and_only_played():
    made, evaluator = engine("kuhn_poker", "tic_tac_toe", max_states=100)
    assert len(evaluator.notes) == 1 and "tic_tac_toe" in evaluator.notes[0]
    metrics = evaluator.measure(made.agent("policy"), Stream.from_seed(0))
    assert "nash_conv/kuhn_poker" in metrics and "nash_conv/tic_tac_toe" not in metrics
    assert "match/tic_tac_toe/random/X/win" in metrics


def test_without_exact_figures_and_opponents_nothing_is_measured():
    made, evaluator = engine("kuhn_poker", exact=False, opponents=[])
    assert evaluator.measure(made.agent("policy"), Stream.from_seed(0)) == {}
    assert evaluator.notes == []


def test_a_game_of_one_purpose_has_its_gap():
    made, evaluator = engine("tiny_hanabi", opponents=[])
    assert evaluator.measure(made.agent("policy"), Stream.from_seed(0))["optimality_gap/tiny_hanabi"] > 0


def test_an_unknown_opponent_is_refused_before_anything_runs():
    with pytest.raises(UnknownNameError, match="Did you mean 'random'"):
        engine("kuhn_poker", opponents=[{"name": "randm"}])
