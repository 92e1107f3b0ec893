"""Configurations and single steps of small runs that tests of methods share."""

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round


def config_of(*environments, **changes):
    """Return the configuration of one step in these environments with a very small model."""
    model = {"hidden_size": 8, "layers": 1, "heads": 1}
    base = {"environments": list(environments), "steps": 1, "threads": 1, "model": model, "reorder_outcomes": True}
    return resolve({**base, **changes})


def play_step(config, engine=None):
    """Return the outcome of a run's first step."""
    engine = engine or LocalEngine(config)
    return play_round(config, engine, Methods.of(config, [game for game, _ in engine.environments]), RunState())
