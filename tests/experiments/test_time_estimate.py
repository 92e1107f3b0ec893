import pytest

from sparring.config import resolve
from sparring.errors import CreditError
from sparring.experiments import time_estimate
from sparring.experiments.time_estimate import estimate, in_words, reckoned_minutes, timed_minutes
from sparring.recipe import load_recipe

TINY = {"environments": [{"name": "kuhn_poker"}], "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "threads": 1}


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0.2, "12 seconds"), (1.0, "1 minute"), (1.6, "2 minutes"), (200, "3.3 hours"), (66000, "1,100 hours")],
)
def test_durations_in_words(minutes, words):
    assert in_words(minutes) == words


@pytest.mark.parametrize(
    ("games", "group", "minutes"),
    [(1024, 1, 10 * (1 + 10.24) / 60), (48, 1, 10 * (1 + 0.48) / 60), (960, 96, 10 * (1 + 9.6) / 60)],
)
def test_a_step_is_taken_to_cost_a_constant_and_so_much_a_game(monkeypatch, games, group, minutes):
    asked = []
    monkeypatch.setattr(time_estimate, "_round_seconds", lambda config, count: asked.append(count) or 1 + 0.01 * count)
    config = resolve({**TINY, "steps": 10, "rollout": {"games_per_step": games, "group_size": group}})
    assert timed_minutes(config) == pytest.approx(minutes)
    assert all(count % group == 0 and count <= games for count in asked)


def test_the_tiny_model_is_tried_and_the_run_goes_as_without(monkeypatch):
    config = resolve({**TINY, "steps": 5, "rollout": {"games_per_step": 16}})
    assert estimate(config, 1).startswith("about ")


def test_nobody_is_asked_for_an_estimate():
    bots = {"far": {"name": "endpoint", "model": "m", "base_url": "http://127.0.0.1:9/v1"}}
    config = resolve({**TINY, "bots": bots})
    assert estimate(config, 1).startswith("unknown: the run asks an endpoint")


def test_arithmetic_goes_with_parameters_tokens_and_steps():
    once = max(reckoned_minutes(10**8, 1000, 10) for _ in range(3))
    assert reckoned_minutes(10**10, 1000, 10) > 10 * once > 0


def test_a_run_whose_first_plays_nobody_can_judge_has_an_estimate_too():
    assert estimate(resolve(load_recipe("vpr/sudoku-tiny")), None).startswith("about ")


def test_a_run_whose_steps_cannot_be_tried_has_no_estimate_and_a_plan(monkeypatch):
    def fails(config, count):
        raise CreditError("credit 'x': nothing to compare")

    monkeypatch.setattr(time_estimate, "_round_seconds", fails)
    assert estimate(resolve(TINY), None) == "unknown: credit 'x': nothing to compare"
