"""About how long a run takes on this machine, before it is begun."""

from __future__ import annotations

import time

from sparring.config import RunConfig
from sparring.config.scale import ScaleConfig
from sparring.engine.local import LocalEngine
from sparring.engine.machine import operations_per_second
from sparring.engine.plan import TINY, TOLD, sampled_tokens
from sparring.errors import CreditError, ModelError
from sparring.run.methods import Methods
from sparring.run.state import RunState
from sparring.run.step import play_round
from sparring.system.text import in_words

__all__ = ["estimate", "in_words", "reckoned_minutes", "timed_minutes"]
SIZES = (64, 256)  # games of the two rounds that are timed
# updates or plays of a step, and tokens of a reply, beyond which no step is tried
MOST_REPEATED, MOST_TOKENS = 64, 2048
OPERATIONS = 2 + 6  # per parameter and token: played once, trained on forwards and backwards


def estimate(config: RunConfig, parameters: int | None) -> str:
    """Return in words about how long the steps of a run take here.

    Args:
        config: of the run.
        parameters: of its model; None where they are not known.
    """
    plugins = [bot.bind("players") for bot in config.bots.values()] + [
        reward.bind("rewards") for reward in config.rewards
    ]
    if any(getattr(bound.plugin.module, "ASKS_OTHERS", False) for bound in plugins):
        return "unknown: the run asks an endpoint, and nobody was asked for this"
    if config.model.name == TINY:
        if _is_long(config):
            return "unknown: a step is too long to be tried for this"
        try:
            words = in_words(timed_minutes(config))
        except (CreditError, ModelError) as error:
            return f"unknown: {error}"
        alone = " without workers" if config.scale.workers else ""
        return (
            f"about {words} on this machine{alone}, by two small steps; evaluation and warm-up "
            "come on top"
        )
    if parameters is None:
        return "unknown: the model is not on this machine"
    tokens = sampled_tokens(config) * (1 + TOLD / config.rollout.max_new_tokens)
    words = in_words(reckoned_minutes(parameters, tokens, config.steps))
    return (
        f"about {words} of arithmetic on this machine's CPU, if every game is as long as its "
        "rules allow"
    )


def _is_long(config: RunConfig) -> bool:
    """Return whether even a small step of a run would take long."""
    learner, rollout = config.learner, config.rollout
    repeated = max(
        learner.epochs * learner.minibatches,
        config.process.updates,
        rollout.playouts,
        rollout.candidates.count,
        rollout.refills,
    )
    return repeated > MOST_REPEATED or rollout.max_new_tokens > MOST_TOKENS


def timed_minutes(config: RunConfig) -> float:
    """Return the minutes of a run's steps, by two small rounds.

    A step of g games takes a + b g seconds; a and b are those of the two rounds. Warm-up,
    evaluation, workers and what grows with the run (snapshots, longer games) are left out.
    """
    group, wanted = config.rollout.group_size, config.rollout.games_per_step
    sizes = sorted({min(wanted, group * -(-size // group)) for size in SIZES})
    seconds = [_round_seconds(config, size) for size in sizes]
    if len(sizes) == 1:
        return config.steps * seconds[0] * wanted / sizes[0] / 60
    slope = max((seconds[1] - seconds[0]) / (sizes[1] - sizes[0]), 0.0)
    return config.steps * (seconds[1] + slope * (wanted - sizes[1])) / 60


def _round_seconds(config: RunConfig, games: int) -> float:
    """Return the seconds of a step of so many games, the second of two: the first pays for what is
    kept.
    """
    rollout = config.rollout.model_copy(update={"games_per_step": games})
    small = config.model_copy(update={"rollout": rollout, "scale": ScaleConfig()})
    engine, methods, seconds = LocalEngine(small), Methods.of(small), 0.0
    for step in range(2):
        began = time.perf_counter()
        play_round(small, engine, methods, RunState(step=step))
        seconds = time.perf_counter() - began
    return seconds


def reckoned_minutes(parameters: int, tokens_per_step: float, steps: int) -> float:
    """Return the minutes of the model's own arithmetic on this machine's CPU.

    Each token takes 2 operations a parameter when it is played and 6 when it is trained on, at the
    rate of a matrix product.

    Args:
        parameters: of the model.
        tokens_per_step: of all conversations of a step, told and said.
        steps: of the run.
    """
    return steps * tokens_per_step * parameters * OPERATIONS / operations_per_second() / 60
