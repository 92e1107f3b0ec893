"""How long a run takes, by service times: measured by a probe, or stated by the user."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from sparring.config import RunConfig
from sparring.config.gpus import VLLM
from sparring.engine.machine import gpu_gb
from sparring.engine.plan import TOLD, sampled_tokens
from sparring.errors import ConfigError, UnknownNameError, quoted
from sparring.experiments.scale_file import Probe
from sparring.experiments.scale_plan import plan

GPU_GB = 80.0  # of a GPU, where none is here and nobody says
UNKNOWN = (
    "unknown; state --assume play=TOKENS --assume learn=TOKENS (a second, of one GPU or process), "
    "or give --times FILE of `sparring scale probe`"
)
KEYS = {
    "gpu_gb": "memory of a GPU, GB",
    "play": "tokens that one worker, replica or process samples a second",
    "learn": "tokens that one learner trains on a second",
}


class Assumed(NamedTuple):
    """What a user states of machines."""

    gpu_gb: float
    play: float | None = None
    learn: float | None = None


def assumed(given: Iterable[str]) -> Assumed:
    """Return what texts such as ``play=3000`` state.

    Raises:
        ConfigError: one cannot be read, or is no positive number.
        UnknownNameError: it is of something else.
    """
    found: dict[str, float] = {}
    for text in given:
        key, _, value = text.partition("=")
        if key not in KEYS:
            raise UnknownNameError("figure of --assume", key, KEYS)
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < 1e12:
            raise ConfigError(
                f"--assume {quoted(text)}: {KEYS[key]}, is a positive number; write {key}=80, say."
            )
        found[key] = number
    return Assumed(found.pop("gpu_gb", 0.0) or gpu_gb() or GPU_GB, **found)


def by_probe(config: RunConfig, times: Path) -> str:
    """Return in words how long a run takes, by the times that a probe has measured.

    Raises:
        ConfigError: the file holds no probe.
    """
    found, scale = Probe.read(times), config.scale
    step = found.alone
    if scale.workers:
        rows = plan(found, workers=scale.count, lags=[scale.lag]).rows
        step = next(row.outcome.step_seconds for row in rows if row.lag == scale.lag)
    step *= config.rollout.games_per_step / found.plays
    return f"{config.steps * step / 3600:,.2f} hours: a step takes {step:.3g} s, by {times}"


def by_rates(config: RunConfig, rates: Assumed) -> str:
    """Return in words how long a run takes at stated rates, if every play is as long as may be."""
    if rates.play is None or rates.learn is None:
        return UNKNOWN
    who, ranks = players(config), config.learner.ranks
    sampled = sampled_tokens(config)
    trained = sampled * (1 + TOLD / config.rollout.max_new_tokens) * config.learner.epochs
    play, learn = sampled / (rates.play * who), trained / (rates.learn * ranks)
    step = max(play, learn) if config.scale.lag else play + learn
    return (
        f"{config.steps * step / 3600:,.1f} hours at most: in a step {sampled:,} tokens are "
        f"sampled by {who} in {play:,.1f} s, and {trained:,.0f} are learnt from by {ranks} in "
        f"{learn:,.1f} s{', at the same time' if config.scale.lag else ''}"
    )


def players(config: RunConfig) -> int:
    """Return how many draw replies side by side."""
    scale, sampler = config.scale, config.sampler
    if scale.workers:
        return scale.count * max(int(scale.gpus_per_worker or 1), 1)
    replicas = sampler.bind("samplers").options.get("replicas", 1)
    return int(replicas) if sampler.name == VLLM else 1
