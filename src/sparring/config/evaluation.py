"""What is measured while training, and against whom the policy plays."""

from __future__ import annotations

from pydantic import Field

from sparring.config_parts import PluginConfig, Positive, Some, Strict


class OpponentConfig(PluginConfig):
    """A bot to be measured against."""

    games_per_seat: Some = Field(100, description="games played from each seat")


class EvaluationConfig(Strict):
    """What is measured while training, and how often."""

    every: Positive = Field(20, description="steps between measurements")
    exact: bool = Field(
        True, description="exploitability by enumeration, where the game is small enough"
    )
    max_states: Positive = Field(
        20_000, description="information states up to which enumeration is tried"
    )
    opponents: list[OpponentConfig] = Field(
        default_factory=list, description="bots played against, seats balanced"
    )
