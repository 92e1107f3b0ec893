"""The league of a run: who is kept of its past, who learns in it, and who answers for it."""

from __future__ import annotations

from operator import not_
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sparring.config.parts import LARGEST_COUNT, Count, Few, PluginConfig, Strict
from sparring.config.policies import PolicyName
from sparring.core.foreign_text import check_label
from sparring.core.refs import MAIN

EXACT: Final = "exact"  # in place of a number of plays: their expected results, by the tree


def _plays(value: Any) -> Any:
    """Return a number of plays, or the word, as it was written."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value == EXACT or (number and 0 <= value <= LARGEST_COUNT and value == int(value)):
        return value
    raise ValueError(
        f"it is no number of plays from 0 to {LARGEST_COUNT}; write plays: 2000, say, or plays: "
        f"{EXACT}"
    )


Plays = Annotated[int | Literal["exact"], BeforeValidator(_plays)]


class LeagueLearnerConfig(Strict):
    """One of several policies that learn in one league."""

    tag: Annotated[str, AfterValidator(lambda text: text and check_label(text))] = Field(
        "",
        description="what it is for, such as exploiter: matchmakers choose opponents by it; empty: "
        "its name",
    )
    share: float = Field(
        1.0,
        gt=0,
        le=1e6,
        description="share of the initial states in which it learns, relative to the others'",
    )
    matchmaker: PluginConfig | None = Field(
        None, description="who is met where it learns; null: the run's matchmaker"
    )
    schedule: PluginConfig | None = Field(
        None, description="when a snapshot of it is taken; null: the league's schedule"
    )
    restart: float | None = Field(
        None,
        ge=0,
        le=1,
        description="probability that it begins anew from its start after a snapshot of it; null: "
        "as league.restart says",
    )


class LeagueConfig(Strict):
    """Snapshots kept as opponents; which are met is the matchmaker's choice."""

    every: Count = Field(
        0, description="steps between snapshots taken into the league; 0 keeps none"
    )
    schedule: PluginConfig = Field(
        PluginConfig(name="steps"),
        description="when a snapshot is taken: every so many steps, or by what was learnt",
    )
    keep: Few = Field(
        8, description="snapshots kept of each learner; which ones is the keeping rule's choice"
    )
    keeping: PluginConfig = Field(
        PluginConfig(name="spread"), description="which snapshots stay when there are too many"
    )
    start: bool = Field(
        False,
        description="whether the learner as it is before the first step is a member; it stays",
    )
    restart: bool = Field(
        False, description="whether the learner begins anew from that start after each snapshot"
    )
    learners: dict[PolicyName, LeagueLearnerConfig] = Field(
        default_factory=dict,
        exclude_if=not_,
        description="policies that learn in this league, each in all roles; one of them is main",
    )
    together: bool = Field(
        True,
        exclude_if=bool,
        description="whether several learners learn at once; else one after another, the next one "
        "after each snapshot",
    )
    plays: Plays = Field(
        0,
        description="plays among the members after each snapshot, in each environment, whose "
        "results go into the payoff book; exact: no plays, but what each two would earn, by the "
        "environment's tree",
    )
    focus: float = Field(
        0.0,
        ge=0,
        le=1,
        exclude_if=not_,
        description="share of these plays that goes to pairs of members by their weight in the "
        "meta-strategy and the spread of their returns; 0: to those that have met least",
    )
    answer: str = Field(
        "policy",
        description="who is measured and played with: policy, as it is published; last, the "
        "learner's weights; average, their average; or a meta-solver, such as nash: the mixture "
        "of members that it gives",
    )
    payoff_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of its weight that a result in the payoff book loses per step; 0: none",
    )

    @property
    def tags(self) -> dict[str, str]:
        """The tag of each policy that learns in the league, by its name."""
        return {name: own.tag or name for name, own in self.learners.items()} or {MAIN: MAIN}

    def restart_of(self, policy: str) -> float:
        """Return the probability that a learner begins anew after a snapshot of it."""
        own = self.learners.get(policy)
        return float(self.restart) if own is None or own.restart is None else own.restart

    @property
    def restarts(self) -> bool:
        """Whether a learner may begin anew."""
        return any(self.restart_of(name) for name in self.tags)

    @model_validator(mode="after")
    def _fits(self) -> LeagueConfig:
        if (self.start or self.plays) and not self.every:
            raise ValueError("no snapshot is taken, so there are no members; write every: 20, say")
        if self.focus and self.plays in (0, EXACT):
            raise ValueError(
                f"focus says which members play, and plays: {self.plays} plays none; write plays: "
                "2000, say, or leave focus out"
            )
        if self.restarts and not self.start:
            raise ValueError("restart begins anew from the start, which is kept by start: true")
        if self.start and self.keep < 2:
            raise ValueError("keep: 1 leaves no room beside the start; write keep: 2, or more")
        if self.learners and MAIN not in self.learners:
            raise ValueError(
                f"learners: one of them must be named {MAIN}, which is the one that is measured; "
                f"there are {', '.join(self.learners)}"
            )
        if not self.together and not self.every:
            raise ValueError("together: false changes after a snapshot; write every: 20, say")
        return self
