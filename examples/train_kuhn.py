"""Train a tiny language model on Kuhn poker with a loop of your own, and measure it exactly."""

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.run.evaluation import Evaluator
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

config = resolve(
    {
        "environments": [{"name": "kuhn_poker", "illegal": {"rule": "forfeit", "penalty": 1.0}}],
        "steps": 60,
        "rollout": {"games_per_step": 256},
        "credit": {"name": "mars"},
        "losses": [{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": 0.2}],
        "learner": {"learning_rate": 0.002, "minibatches": 4, "average": 0.95},
    }
)
engine, methods = LocalEngine(config), Methods.of(config)
evaluator = Evaluator([game for game, _ in engine.environments], config.evaluation)
state = RunState()
while state.step < config.steps:
    outcome = play_round(config, engine, methods, state)
    state = outcome.state
    if state.step % 20 == 0:
        measured = evaluator.measure(engine.agent("policy"), engine.root)
        print(
            f"step {state.step}: legal {outcome.metrics['legal_rate']:.3f}, "
            f"NashConv {measured['nash_conv/kuhn_poker']:.3f}"
        )
