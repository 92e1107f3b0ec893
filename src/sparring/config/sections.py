"""The sections of a run's configuration that no other module holds, and all of them together."""

from __future__ import annotations

from operator import not_
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from sparring.config.league import LeagueConfig
from sparring.config.learning import (
    LearnerConfig,
    LossConfig,
    ProcessConfig,
    RewardConfig,
    WarmupConfig,
)
from sparring.config.parts import (
    Count,
    Number,
    PluginConfig,
    Positive,
    Some,
    Strict,
    refuse_repeated,
)
from sparring.config.play import EnvironmentConfig, Label, RolloutConfig
from sparring.config.plugins.guard import LIMIT
from sparring.config.policies import SECTIONS, ModelConfig, PolicyConfig, PolicyName
from sparring.config.scale import ScaleConfig
from sparring.core.foreign_text import check_path_name
from sparring.core.refs import MAIN


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


class CheckpointConfig(Strict):
    """When the whole state is saved."""

    every: Positive = Field(50, description="steps between checkpoints")
    keep: Positive = Field(2, description="checkpoints kept")


class StoreConfig(Strict):
    """Which episodes are written to the Parquet store."""

    every: Count = Field(
        10, description="steps between stored batches; 1 stores every episode, 0 none"
    )
    keep: Count = Field(
        100, description="stored steps kept: half the newest, half spread over the run; 0 keeps all"
    )


class LoggingConfig(Strict):
    """Where figures go besides the files of the run folder."""

    sinks: list[PluginConfig] = Field(
        default_factory=lambda: [PluginConfig(name="tensorboard")],
        description="plug-ins that are given the figures of every step; none: []",
    )

    @field_validator("sinks")
    @classmethod
    def _names_differ(cls, sinks: list[PluginConfig]) -> list[PluginConfig]:
        refuse_repeated("sink", (sink.name for sink in sinks), "a run is in each of them once")
        return sinks


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


class RunSections(Strict):
    """The fields of ``RunConfig``, each with its default, as checks across sections read them."""

    name: Annotated[str, AfterValidator(check_path_name)] = Field(
        "run", description="name of the recipe"
    )
    summary: str = Field("", description="one line about it")
    seed: int = Field(
        0,
        ge=0,
        lt=2**64,
        description="all randomness of the run is a function of this number, 0 to 2^64 - 1",
    )
    steps: Positive = Field(100, description="updates of the policy")
    threads: int = Field(0, ge=0, le=1024, description="CPU threads; 0 takes one per core")
    call_seconds: float = Field(
        LIMIT,
        ge=0,
        allow_inf_nan=False,
        description=(
            "seconds after which one call of a plug-in (game, agent, oracle ...) hangs; 0: never"
        ),
    )
    environments: list[EnvironmentConfig] = Field(
        min_length=1, description="the environments trained on; ``games`` is the old spelling"
    )
    model: ModelConfig = ModelConfig()
    renderer: PluginConfig = PluginConfig(name="plain")
    context: PluginConfig = Field(
        PluginConfig(name="full"),
        description="what the policy sees of its past at each turn, and so what is trained",
    )
    sampler: PluginConfig = PluginConfig(name="in_process")
    rollout: RolloutConfig = RolloutConfig()
    matchmaker: PluginConfig = PluginConfig(name="mirror")
    bots: dict[Label, PluginConfig] = Field(
        default_factory=dict,
        description="agents with options that the matchmaker may seat, by a name",
    )
    league: LeagueConfig = LeagueConfig()
    rewards: list[RewardConfig] = Field(
        default_factory=list, description="components added to the game's payoffs"
    )
    outcome_weight: Number = Field(
        1.0,
        description="factor of the game's own payoffs in what credit sees; a number or a schedule",
    )
    reorder_outcomes: bool = Field(
        False,
        description=(
            "whether rewards may make a worse outcome of a game worth more than a better one"
        ),
    )
    curriculum: PluginConfig = PluginConfig(name="by_weight")
    selection: PluginConfig = PluginConfig(name="equal_groups")
    replay: PluginConfig = PluginConfig(name="none")
    knowledge: PluginConfig | None = Field(
        None,
        exclude_if=not_,
        description="what the run knows beside its weights, and judges candidates by; null: none",
    )
    credit: PluginConfig = PluginConfig(name="mars")
    losses: list[LossConfig] = Field(
        default_factory=lambda: [LossConfig(name="ppo_clip")],
        min_length=1,
        description="terms of the loss",
    )
    learner: LearnerConfig = LearnerConfig()
    process: ProcessConfig = ProcessConfig()
    policies: dict[PolicyName, PolicyConfig] = Field(
        default_factory=dict, exclude_if=not_, description="several by name; none: one, main"
    )
    roles: dict[str, str] = Field(
        default_factory=dict, exclude_if=not_, description="policy of each role, if several"
    )
    warmup: WarmupConfig = WarmupConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    store: StoreConfig = StoreConfig()
    logging: LoggingConfig = LoggingConfig()
    health: HealthConfig = HealthConfig()
    scale: ScaleConfig = ScaleConfig()

    @property
    def by_policy(self) -> dict[str, Self]:
        """The configuration that each policy is made and trained by, by the policy's name.

        It is that of a run which has this policy alone.
        """
        return {name: self._of(own) for name, own in self.policies.items()} or {MAIN: self}

    def _of(self, own: PolicyConfig) -> Self:
        """Return the configuration of a run that has one policy alone."""
        update = {key: getattr(own, key) for key in SECTIONS}
        update["rollout"] = self.rollout.model_copy(update=dict(own.rollout))
        update["learner"] = self.learner.model_copy(update=dict(own.learner))
        return self.model_copy(update={**update, "policies": {}, "roles": {}})

    def is_frozen(self, policy: str) -> bool:
        """Return whether a policy plays and is not trained."""
        return policy in self.policies and self.policies[policy].frozen
