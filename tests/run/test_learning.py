"""That it learns: a short run of Kuhn poker from random weights."""

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.engine.local import LocalEngine
from sparring.run.evaluation import Evaluator
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round


@pytest.mark.slow
def test_kuhn_poker_from_random_weights():
    changes = ["steps=180", "rollout.games_per_step=512", "learner.average=0.98", "threads=1"]
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), changes))
    engine, methods, state = LocalEngine(config), Methods.of(config), RunState()
    evaluator = Evaluator([game for game, _ in engine.environments], config.evaluation)
    first = evaluator.measure(engine.agent("policy"), engine.root)
    difference = 0.0
    while state.step < config.steps:
        outcome = play_round(config, engine, methods, state)
        state = outcome.state
        difference = max(difference, outcome.metrics["logprob_difference_max"])
    last = evaluator.measure(engine.agent("policy"), engine.root)
    assert outcome.metrics["legal_rate"] > 0.98
    assert first["illegal_mass/kuhn_poker"] > 0.5 > 0.05 > last["illegal_mass/kuhn_poker"]
    assert last["nash_conv/kuhn_poker"] < 0.35 < first["nash_conv/kuhn_poker"]
    assert difference < 1e-4
