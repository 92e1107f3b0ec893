"""The league of a run: who is kept of its past, who learns in it, and who answers for it."""

from __future__ import annotations

from pydantic import Field, model_validator

from sparring.config_parts import Count, Few, PluginConfig, Strict


class LeagueConfig(Strict):
    """Snapshots kept as opponents; which are met is the matchmaker's choice."""

    every: Count = Field(
        0, description="steps between snapshots taken into the league; 0 keeps none"
    )
    keep: Few = Field(8, description="snapshots kept; which ones is the keeping rule's choice")
    keeping: PluginConfig = Field(
        PluginConfig(name="spread"), description="which snapshots stay when there are too many"
    )
    start: bool = Field(
        False,
        description="whether the learner as it is before the first step is a member; it stays",
    )
    restart: bool = Field(
        False,
        description="whether the learner begins anew from that start after each snapshot",
    )
    plays: Count = Field(
        0,
        description="plays among the members after each snapshot, in each environment, whose "
        "results go into the payoff book",
    )
    answer: str = Field(
        "policy",
        description="who is measured and played with: policy, as it is published; last, the "
        "learner's weights; or a meta-solver, such as nash: the mixture of members that it gives",
    )
    payoff_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of its weight that a result in the payoff book loses per step; 0: none",
    )

    @model_validator(mode="after")
    def _fits(self) -> LeagueConfig:
        if (self.start or self.plays) and not self.every:
            raise ValueError("no snapshot is taken, so there are no members; write every: 20, say")
        if self.restart and not self.start:
            raise ValueError("restart begins anew from the start, which is kept by start: true")
        if self.start and self.keep < 2:
            raise ValueError("keep: 1 leaves no room beside the start; write keep: 2, or more")
        return self
