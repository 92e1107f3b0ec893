"""Evaluation during training: its metrics equal those of matches and exact enumeration."""

import re

import pytest

from sparring.config import resolve
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.initial_states import SeenInitialStates
from sparring.methods.oracles.judge import configured_oracles
from sparring.run import evaluation
from sparring.run.evaluation import FAMILIES, Evaluator, weights_mark

MATCH_METRICS = ("win", "win_or_draw", "return")


def make_engine(*games, **evaluation):
    config = resolve(
        {
            "environments": [{"name": game} if isinstance(game, str) else game for game in games],
            "threads": 1,
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "evaluation": {"opponents": [{"name": "random", "games_per_seat": 20}], **evaluation},
        }
    )
    engine = LocalEngine(config)
    environments = [game for game, _ in engine.environments]
    return engine, Evaluator(
        environments,
        config.evaluation,
        configured_oracles(config.environments, environments),
        SeenInitialStates(config, environments),
    )


def test_metrics_equal_those_of_enumeration_and_matches():
    engine, evaluator = make_engine("kuhn_poker")
    metrics = evaluator.measure(engine.agent("policy"), Stream.from_seed(0))
    game = engine.environments[0][0]
    report = evaluate_exploitability(game, enumerate_info_states(game), engine.agent("policy"))
    assert metrics["nash_conv/kuhn_poker"] == report.nash_conv == pytest.approx(sum(report.gains))
    assert metrics["exploitability/kuhn_poker/first"] == report.gains[0]
    assert metrics["exploitability/kuhn_poker/second"] == report.gains[1]
    assert metrics["illegal_mass/kuhn_poker"] == report.illegal_mass
    assert metrics["illegal_mass_reached/kuhn_poker"] == report.illegal_mass_reached
    for role in ("first", "second"):
        prefix = f"match/kuhn_poker/random/{role}"
        for metric in MATCH_METRICS:
            low, mean, high = (metrics[f"{prefix}/{metric}{suffix}"] for suffix in ("_low", "", "_high"))
            assert low <= mean <= high and (low < high or metric == "return")
        assert 0 <= metrics[f"{prefix}/win"] <= metrics[f"{prefix}/win_or_draw"] <= 1
        assert 0 < metrics[f"{prefix}/illegal"] <= 1  # the policy is untrained
    assert evaluator.notes == []


def test_matches_depend_only_on_the_stream():
    (engine, evaluator), (_, second_evaluator) = (
        make_engine("kuhn_poker", exact=False),
        make_engine("kuhn_poker", exact=False),
    )
    policy, stream = engine.agent("policy"), Stream.from_seed(3)
    metrics = evaluator.measure(policy, stream)
    assert evaluator.measure(policy, stream) == second_evaluator.measure(policy, stream) == metrics
    assert evaluator.measure(policy, Stream.from_seed(4)) != metrics


def test_a_game_too_large_to_enumerate_is_played_without_exact_figures():
    engine, evaluator = make_engine("kuhn_poker", "tic_tac_toe", max_states=100)
    assert len(evaluator.notes) == 1 and "tic_tac_toe" in evaluator.notes[0]
    metrics = evaluator.measure(engine.agent("policy"), Stream.from_seed(0))
    assert "nash_conv/kuhn_poker" in metrics and "nash_conv/tic_tac_toe" not in metrics
    assert "match/tic_tac_toe/random/X/win" in metrics


def test_without_exact_figures_and_opponents_nothing_is_measured():
    engine, evaluator = make_engine("kuhn_poker", exact=False, opponents=[])
    assert evaluator.measure(engine.agent("policy"), Stream.from_seed(0)) == {}
    assert evaluator.notes == []


TTT = {"name": "tic_tac_toe", "oracle": {"name": "minimax"}}
SUDOKU = {"name": "sudoku", "options": {"blanks": 3}, "illegal": {"rule": "random"}, "oracle": {"name": "constraint"}}


def test_games_with_an_oracle_and_held_out_games_have_regret():
    engine, evaluator = make_engine({**TTT, "weight": 0}, "kuhn_poker", exact=False)
    metrics = evaluator.measure(engine.agent("policy"), Stream.from_seed(0))
    for role in ("X", "O"):
        prefix = f"match/tic_tac_toe/random/{role}"
        for metric, max_value in (("regret", 2.0), ("optimal", 1.0)):
            low, mean, high = (metrics[f"{prefix}/{metric}{suffix}"] for suffix in ("_low", "", "_high"))
            assert 0 <= low <= mean <= high and mean <= max_value
        assert metrics[f"{prefix}/judged"] == 1.0
        assert f"{prefix}/win" in metrics and f"{prefix}/success" not in metrics
    assert not [name for name in metrics if "kuhn" in name and name.endswith(("regret", "optimal", "judged"))]


def test_games_of_one_seat_have_success_instead_of_wins():
    engine, evaluator = make_engine(SUDOKU, exact=False)
    metrics = evaluator.measure(engine.agent("policy"), Stream.from_seed(0))
    prefix = "match/sudoku/random/solver"
    low, mean, high = (metrics[f"{prefix}/success{suffix}"] for suffix in ("_low", "", "_high"))
    assert 0 <= low <= mean <= high <= 1
    assert {name.rsplit("/", 1)[1].split("_")[0] for name in metrics} == {
        "success",
        "return",
        "illegal",
        "regret",
        "optimal",
        "judged",
    }


def test_evaluation_uses_an_oracle_without_its_noise():
    noisy = {**TTT, "oracle": {"name": "noisy", "oracle": "minimax", "flip": 0.5}}
    metrics = []
    for game in (TTT, noisy):
        engine, evaluator = make_engine(game, exact=False)
        metrics.append(evaluator.measure(engine.agent("policy"), Stream.from_seed(0)))
    assert metrics[0] == metrics[1]


def test_without_judged_turns_there_is_no_regret():
    engine, evaluator = make_engine({**TTT, "oracle": {"name": "minimax", "max_states": 1}}, exact=False)
    metrics = evaluator.measure(engine.agent("policy"), Stream.from_seed(0))
    assert metrics["match/tic_tac_toe/random/X/judged"] == 0.0
    assert "match/tic_tac_toe/random/X/regret" not in metrics and "match/tic_tac_toe/random/X/optimal" not in metrics


def test_unseen_and_training_puzzles_have_separate_metrics():
    few_puzzles = {"name": "sudoku", "options": {"blanks": 1, "puzzles": 3}, "illegal": {"rule": "random"}}
    engine, evaluator = make_engine(few_puzzles, exact=False)
    states_played = []
    agent = engine.agent("policy")
    original_submit = agent.submit
    agent.submit = lambda turns: (
        states_played.extend(turn.state.spiel.table.start for turn in turns) or original_submit(turns)
    )
    metrics = evaluator.measure(agent, Stream.from_seed(0))
    game = engine.environments[0][0]
    training_states = [start for start in states_played if start in game.starts()]
    assert len(training_states) == len(states_played) - len(training_states) == 20
    for metric in ("success", "return", "illegal"):
        assert {f"match/sudoku/random/solver/{metric}", f"match_seen/sudoku/random/solver/{metric}"} <= set(metrics)
    second_engine, second_evaluator = make_engine("kuhn_poker", exact=False)
    assert not any(
        name.startswith("match_seen/")
        for name in second_evaluator.measure(second_engine.agent("policy"), Stream.from_seed(0))
    )


def test_every_evaluation_metric_is_documented_with_its_weights():
    documented = re.findall(r"^    ([a-z_]+)/\S+", evaluation.__doc__, re.MULTILINE)
    assert set(FAMILIES) == set(documented)
    assert weights_mark("nash_conv/kuhn_poker", "EMA weights") == " (EMA)"
    assert weights_mark("return/kuhn_poker/first", "EMA weights") == " (live)"
    assert weights_mark("match/kuhn_poker/random/first/win", "mixture of members by nash") == " (measured)"
    assert weights_mark("nash_conv/kuhn_poker", "live weights") == ""
