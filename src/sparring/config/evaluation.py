"""What is measured while training, and against whom the policy plays."""

from __future__ import annotations

from pydantic import Field

from sparring.config_parts import Count, PluginConfig, Positive, Some, Strict


class OpponentConfig(PluginConfig):
    """A bot to be measured against."""

    games_per_seat: Some = Field(100, description="games played from each seat")


class EvaluationConfig(Strict):
    """What is measured while training, and how often."""

    every: Count = Field(20, description="steps between measurements; 0 measures never")
    exact: bool = Field(
        True, description="exploitability by enumeration, where the game is small enough"
    )
    max_states: Positive = Field(
        20_000, description="information states up to which enumeration is tried"
    )
    opponents: list[OpponentConfig] = Field(
        default_factory=list, description="bots played against, seats balanced"
    )

    def is_due(self, step: int, steps: int) -> bool:
        """Return whether a step of a run of so many steps is measured: the first and last are."""
        return self.every > 0 and (step % self.every == 0 or step in (1, steps))
