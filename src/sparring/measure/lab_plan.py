"""What the credit lab is to compare, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparring import registry
from sparring.config_parts import parse_plugin
from sparring.errors import ConfigError
from sparring.measure.gradient_figures import (
    GradientFigures,
)
from sparring.measure.lab_episodes import Critic
from sparring.registry import Bound
from sparring.types import Credit, Interval, TurnTable

ALL = "all"
MIN_BATCHES = 4
PAID_FROM = {"game", "batch"}  # what a reward may read in the lab
Estimator = Callable[[TurnTable, Mapping[str, Any]], Credit]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabPlan:
    """How a comparison is made."""

    episodes: int = 20_000  # rounded up to whole batches
    group_size: int = 8
    batch_size: int = 64
    critic: Critic = "exact"
    # share of the batches, the first ones, that estimators see but no figure counts
    burn_in: float = 0.0
    playouts: int = 5  # games from each position, for estimators that read values by playing on
    # what estimators are paid by in place of the game, as NAME[:PRESET] key=value; "": the game
    reward: str = ""
    seed: int = 0
    timed: bool = True

    def __post_init__(self) -> None:
        if self.batch_size < 1 or not 0 <= self.burn_in < 1:
            raise ConfigError(
                f"--batch {self.batch_size} must be at least 1 and --burn-in {self.burn_in} in "
                "[0, 1)."
            )
        if self.playouts < 1:
            raise ConfigError(f"--playouts {self.playouts} must be at least 1.")
        if self.batches - self.skipped < MIN_BATCHES:
            wanted = int(np.ceil(MIN_BATCHES / (1 - self.burn_in))) * self.batch_size
            raise ConfigError(
                f"--episodes {self.episodes} make {self.batches - self.skipped} counted batches "
                f"of {self.batch_size}; intervals need {MIN_BATCHES}: write --episodes {wanted} "
                "or more."
            )

    @property
    def batches(self) -> int:
        """Number of batches played."""
        return -(-self.episodes // self.batch_size)

    @property
    def skipped(self) -> int:
        """Number of batches that are not counted."""
        return int(self.burn_in * self.batches)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabRow:
    """What is known of one estimator on the lab's episodes.

    ``refused`` says why nothing is, where it is so.
    """

    estimator: str
    refused: str | None = None
    gradient: GradientFigures | None = None
    # by role, in the parameters of the seat alone
    seats: Mapping[str, GradientFigures] = field(default_factory=dict)
    # share of the turns with an advantage and |Q - V| > 1e-9 whose advantage has the sign of Q - V
    right_sign: float = np.nan
    zeros: float = np.nan  # share of all turns whose advantage is 0
    effective: float = np.nan  # effective sample size (sum |A|)^2 / sum A^2 as a share of the turns
    seconds: float | None = None  # per 100,000 turns


@dataclass(frozen=True, kw_only=True, slots=True)
class LabReport:
    """A comparison: what was played, how sure the lab can be, and a row per estimator."""

    game: str
    num_info_states: int
    num_parameters: int
    episodes: int
    batches: int  # that were counted
    turns: int
    returns: tuple[float, ...]  # exact expected return per seat
    gradient_norm: float  # of the exact gradient
    check: Interval  # bias of the plain returns' gradient without control variates: the truth is 0
    rows: tuple[LabRow, ...]


def estimator_names(text: str) -> list[str]:
    """Return the estimators of a comma-separated list.

    "all" is every one that is found, and every preset as NAME:PRESET.

    Raises:
        UnknownNameError: no such estimator, preset or option.
        ConfigError: the list is empty, or an option's value is wrong or left out.
    """
    found: list[str] = []
    for item in filter(None, map(str.strip, text.split(","))):
        if item == ALL:
            for name in registry.names("credit"):
                found += [
                    name,
                    *(f"{name}:{preset}" for preset in registry.load("credit", name).presets),
                ]
        else:
            bind_estimator(item)
            found.append(item)
    if not found:
        raise ConfigError(
            f"--estimators {text!r} names none; write --estimators all, or a list such as "
            "outcome,rloo,'gae lam=0.5'."
        )
    return list(dict.fromkeys(found))


def bind_estimator(text: str) -> Bound:
    """Return the estimator of a text such as ``rloo``, ``mars:as_released`` or ``gae lam=0.5``.

    For errors see ``registry.bind``.
    """
    name, preset, options = parse_plugin(text, "Estimator", "gae lam=0.5")
    return registry.bind("credit", name, options, preset=preset)


def bind_reward(text: str) -> Bound:
    """Return the reward of a text such as ``contribution by=difference``.

    Raises:
        ConfigError: it reads what the lab does not make, such as an oracle's verdicts.
    """
    name, preset, options = parse_plugin(text, "Reward", "contribution by=difference")
    found = registry.bind("rewards", name, options, preset=preset)
    lacking = sorted(set(found.plugin.needs) - PAID_FROM)
    if lacking:
        raise ConfigError(
            f"--reward {text!r} reads {', '.join(lacking)}, which the lab does not make; name a "
            "reward that reads plays alone, such as 'contribution by=difference'."
        )
    return found
