"""When a run says that something is wrong with it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sparring.config_parts import (
    Positive,
    Strict,
)


class HealthRule(Strict):
    """A metric and the bound beyond which it must not stay.

    A value that is no number counts as beyond.
    """

    metric: str = Field(
        min_length=1,
        description="a metric, or a pattern of the glossary such as seat_asymmetry/GAME",
    )
    above: float | None = Field(
        None, description="values above this are unhealthy; give this or below"
    )
    below: float | None = Field(None, description="values below this are unhealthy")
    for_steps: Positive = Field(
        1, description="times in a row that the metric is recorded so before the rule acts"
    )
    after_step: float = Field(
        0.0, ge=0, description="first steps not looked at; below 1: that share of the run"
    )
    times_start: bool = Field(
        False,
        description=(
            "whether the bound is a multiple of the mean of the metric's first 5 records in this "
            "run"
        ),
    )
    times_best: bool = Field(
        False,
        description=(
            "whether the bound is a multiple of the lowest value recorded so far, with above; of "
            "the highest, with below"
        ),
    )
    if_recorded: bool = Field(
        False, description="whether nothing is said where the metric never appears"
    )
    action: Literal["warn", "stop"] = Field(
        "warn", description="what the rule does, once per metric"
    )

    @model_validator(mode="after")
    def _one_bound(self) -> HealthRule:
        if (self.above is None) == (self.below is None):
            raise ValueError(f"the rule on {self.metric!r} needs exactly one of above and below")
        if self.times_start and self.times_best:
            raise ValueError(
                f"the rule on {self.metric!r} has times_start and times_best; write one of them"
            )
        return self


def _health_rules() -> list[HealthRule]:
    """Return the rules of every run that names none of its own."""
    return [
        HealthRule(  # an environment of free text has no list of legal actions
            metric="legal_rate/GAME", below=0.5, for_steps=5, after_step=0.2, if_recorded=True
        ),
        # a deduction is half of all decisions, and has no list of legal actions
        HealthRule(metric="unparsable_rate", above=0.25, for_steps=5, after_step=0.2),
        HealthRule(metric="truncated_rate", above=0.5, for_steps=10, after_step=0.2),
        HealthRule(metric="reply_tokens", above=3.0, times_start=True, for_steps=10),
        HealthRule(metric="group_equal_share", above=0.95, for_steps=20, if_recorded=True),
        HealthRule(metric="seat_asymmetry/GAME", above=1.5, for_steps=20),
        HealthRule(metric="advantage_std", below=0.05, for_steps=10),
        HealthRule(metric="sampled_entropy", below=0.01, for_steps=10),
        HealthRule(metric="ratio_tail", above=0.1, for_steps=5),
        HealthRule(metric="gradient_norm", above=1000.0, for_steps=3),
        HealthRule(metric="withheld_share", above=0.2, for_steps=5, if_recorded=True),
        HealthRule(
            metric="nash_conv/GAME",
            above=2.0,
            times_best=True,
            for_steps=5,
            after_step=0.1,
            if_recorded=True,
        ),
    ]


class HealthConfig(Strict):
    """Rules that warn early of what usually goes wrong, and may stop the run."""

    stop: bool = Field(
        False, description="every rule that acts saves and stops the run; --resume goes on"
    )
    rules: list[HealthRule] = Field(
        default_factory=_health_rules,
        description="what is watched; a list of one's own replaces this one",
    )
