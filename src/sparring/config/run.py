"""One strict configuration of a run: YAML recipes and ``a.b=c`` overrides.

The resolved config re-runs verbatim.

Every field has its one default here, or in the signature of the plug-in it configures. Unknown keys
are errors that name the nearest right one. ``Number`` fields take a schedule as well as a plain
number (see ``schedule.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import not_
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from sparring import names, spelling
from sparring.config.candidates import check_candidates, check_knowledge
from sparring.config.checks import (
    check_bots,
    check_league,
    check_losses,
    check_needs,
    check_playouts,
    check_sharding,
)
from sparring.config.evaluation import EvaluationConfig
from sparring.config.fresh import check_fresh
from sparring.config.gpus import check_gpus
from sparring.config.health import HealthConfig
from sparring.config.league import LeagueConfig
from sparring.config.learning import (
    LearnerConfig,
    LossConfig,
    ProcessConfig,
    RewardConfig,
    WarmupConfig,
)
from sparring.config.model import ModelConfig
from sparring.config.play import EnvironmentConfig, Label, RolloutConfig
from sparring.config.policies import (
    SECTIONS,
    PolicyConfig,
    PolicyName,
    check_learners,
    check_policies,
    completed,
)
from sparring.config.saving import CheckpointConfig, LoggingConfig, StoreConfig
from sparring.config.scale import FRESH, ScaleConfig
from sparring.config_parts import (
    Number,
    PluginConfig,
    Positive,
    Strict,
    config_error,
    refuse_repeated,
)
from sparring.errors import ConfigError
from sparring.guard import LIMIT
from sparring.refs import MAIN
from sparring.rng import Stream


class RunConfig(Strict):
    """Everything a run depends on, besides the code."""

    name: Annotated[str, AfterValidator(names.path_name)] = Field(
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

    @field_validator("environments", "rewards", "losses", mode="before")
    @classmethod
    def _list_of_one(cls, value: Any) -> Any:
        """Take a single name or section as a list of one."""
        return [value] if isinstance(value, str | Mapping) else value

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        return completed(data)

    @model_validator(mode="after")
    def _policies_fit(self) -> RunConfig:
        given = {f"environments.{n}.roles": e.roles for n, e in enumerate(self.environments)}
        check_policies(self.policies, {"roles": self.roles, **given}, self.learner.ranks)
        check_learners(self.policies, self.league.learners, {"roles": self.roles, **given})
        return self

    @property
    def by_policy(self) -> dict[str, RunConfig]:
        """The configuration that each policy is made and trained by, by the policy's name.

        It is that of a run which has this policy alone.
        """
        return {name: self._of(own) for name, own in self.policies.items()} or {MAIN: self}

    def _of(self, own: PolicyConfig) -> RunConfig:
        """Return the configuration of a run that has one policy alone."""
        update = {key: getattr(own, key) for key in SECTIONS}
        update["rollout"] = self.rollout.model_copy(update=dict(own.rollout))
        update["learner"] = self.learner.model_copy(update=dict(own.learner))
        return self.model_copy(update={**update, "policies": {}, "roles": {}})

    def is_frozen(self, policy: str) -> bool:
        """Return whether a policy plays and is not trained."""
        return policy in self.policies and self.policies[policy].frozen

    @model_validator(mode="after")
    def _restarts_between_steps(self) -> RunConfig:
        if self.league.restarts and self.scale.lag:
            raise ValueError(
                f"scale.lag={self.scale.lag}: after a restart in the league plays of before it "
                "would be learnt from; write scale.lag: 0, or restart: false"
            )
        return self

    @model_validator(mode="after")
    def _order_fits(self) -> RunConfig:
        if self.scale.order == FRESH:
            check_fresh(self)
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> RunConfig:
        refuse_repeated(
            "game",
            (game.known_as for game in self.environments),
            "metrics and baselines are kept by the game's name; give one of them a label",
        )
        if not any(game.weight for game in self.environments):
            raise ValueError(
                "every game has weight 0, which holds it out; give one of them weight 1"
            )
        if self.outcome_weight != 1.0 and not self.reorder_outcomes:
            raise ValueError(
                "outcome_weight other than 1 changes what an outcome is worth next to rewards; "
                "write reorder_outcomes: true"
            )
        refuse_repeated(
            "reward",
            (reward.name for reward in self.rewards),
            "a turn has one component of each name",
        )
        return self

    def check_plugins(self) -> RunConfig:
        """Bind every plug-in once, so that wrong names and options fail before anything runs."""
        slots = {
            "league.matchmakers": self.matchmaker,
            "league.keeping": self.league.keeping,
            "league.schedules": self.league.schedule,
            "selection": self.selection,
        }
        slots.update({"selection.curricula": self.curriculum, "selection.replay": self.replay})
        for slot, plugin in slots.items():
            plugin.bind(slot)
        check_league(self)
        for name, own in self.by_policy.items():
            try:
                own.renderer.bind("render")
                own.context.bind("context")
                own.credit.bind("credit")
                if not self.is_frozen(name):
                    check_losses(own)
                    check_candidates(own)
                    check_playouts(own)
                    check_sharding(own)
            except ConfigError as error:
                error.args = (f"policies.{name}: {error}" if self.policies else str(error),)
                raise
        # refuses what does not fit
        self.rollout.plan.bind("rollout.plans")(self.rollout.group_size, (), Stream.from_seed(0))
        if self.knowledge is not None:
            self.knowledge.bind("knowledge")
            check_knowledge(self)
        for reward in self.rewards:
            check_needs(self, reward.bind("rewards").plugin)
        for game in self.environments:
            if game.oracle is not None:
                game.oracle.bind("oracles")
        for sink in self.logging.sinks:
            sink.bind("run.sinks")
        check_bots(self)
        check_gpus(self)
        return self


def resolve(data: Mapping[str, Any]) -> RunConfig:
    """Return the checked configuration of a plain mapping.

    Raises:
        ConfigError: a wrong type or value.
        UnknownNameError: an unknown key, plug-in or option, with the nearest right name.
    """
    try:
        return RunConfig.model_validate(spelling.keys(data, "The configuration")).check_plugins()
    except ValidationError as error:
        raise config_error(error, _keys_at) from None


def _keys_at(path: tuple[int | str, ...]) -> list[str]:
    """Return the field names of the section at ``path``."""
    section: Any = RunConfig
    for part in path:
        if isinstance(part, str) and part in getattr(section, "model_fields", {}):
            annotation = section.model_fields[part].annotation
            section = next(
                (a for a in getattr(annotation, "__args__", ()) if isinstance(a, type)), annotation
            )
    return list(getattr(section, "model_fields", {}))  # none where the path ends in a plain value
