"""What is measured while training, and against whom the policy plays."""

from __future__ import annotations

from pydantic import Field

from sparring.config_parts import (
    Count,
    Few,
    PluginConfig,
    Positive,
    Some,
    Strict,
)


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


class LeagueConfig(Strict):
    """Snapshots kept as opponents; which are met is the matchmaker's choice."""

    every: Count = Field(
        0, description="steps between snapshots taken into the league; 0 keeps none"
    )
    keep: Few = Field(8, description="snapshots kept; which ones is the keeping rule's choice")
    keeping: PluginConfig = Field(
        PluginConfig(name="spread"), description="which snapshots stay when there are too many"
    )
    payoff_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of its weight that a result in the payoff book loses per step; 0: none",
    )
