"""One strict configuration of a run: YAML recipes and ``a.b=c`` overrides.

The resolved config re-runs verbatim.

Every field has its one default here, or in the signature of the plug-in it configures. Unknown keys
are errors that name the nearest right one. ``Number`` fields take a schedule as well as a plain
number (see ``schedule.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator

from sparring import names, registry, spelling
from sparring.config.evaluation import EvaluationConfig, LeagueConfig
from sparring.config.health import HealthConfig
from sparring.config.learning import (
    LearnerConfig,
    LossConfig,
    ProcessConfig,
    RewardConfig,
    WarmupConfig,
)
from sparring.config.model import ModelConfig
from sparring.config.play import EnvironmentConfig, Label, RolloutConfig
from sparring.config.saving import CheckpointConfig, StoreConfig
from sparring.config_parts import (
    Number,
    PluginConfig,
    Positive,
    Strict,
    check_requires,
    config_error,
    refuse_repeated,
)
from sparring.errors import ConfigError, MissingError
from sparring.guard import LIMIT
from sparring.parts import load_part, offering
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
    credit: PluginConfig = PluginConfig(name="mars")
    losses: list[LossConfig] = Field(
        default_factory=lambda: [LossConfig(name="ppo_clip")],
        min_length=1,
        description="terms of the loss",
    )
    learner: LearnerConfig = LearnerConfig()
    process: ProcessConfig = ProcessConfig()
    warmup: WarmupConfig = WarmupConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    store: StoreConfig = StoreConfig()
    health: HealthConfig = HealthConfig()

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

    def _check_needs(self, plugin: registry.Plugin) -> None:
        """Refuse a reward that reads verdicts, playouts or references where a game has none."""
        if "playouts" in plugin.needs and not self.rollout.playouts:
            raise ConfigError(
                f"rewards: {plugin.name!r} needs games played on from every turn; write "
                "rollout.playouts: 4 (any number)."
            )
        missing = [
            game.known_as for game in self.environments if game.weight and game.oracle is None
        ]
        if "verdicts" in plugin.needs and missing:
            raise ConfigError(
                f"rewards: {plugin.name!r} needs an oracle for every game trained on, "
                f"and {missing[0]!r} has none; write oracle: {{name: minimax}} below the game, or "
                "another of `sparring list oracles`."
            )
        if "reference" not in plugin.needs:
            return
        solved = offering("environments", "solver", "def reference(")
        other = [
            game.known_as
            for game in self.environments
            if game.weight and game.name not in solved and not _has_reference(game.name)
        ]
        if other:
            raise ConfigError(
                f"rewards: {plugin.name!r} needs a reference solution of every game trained on, "
                f"and {other[0]!r} has none; play {', '.join(solved)}, or use the reward "
                "best_action with an oracle."
            )

    def _check_losses(self) -> None:
        """Refuse losses none of which trains the policy.

        Refuse also one that fits a critic where the estimator reads none.
        """
        losses = [loss.bind("losses").plugin for loss in self.losses]
        if not any(loss.trains for loss in losses):
            named = ", ".join(loss.name for loss in losses)
            raise ConfigError(
                f"losses: nothing trains the policy, as {named} cannot alone; add a line such as "
                "- {name: ppo_clip}."
            )
        fitting = [loss.name for loss in losses if "values" in loss.needs]
        credit = self.credit.bind("credit")
        if fitting and "critic" not in registry.asks(credit):
            raise ConfigError(
                f"losses: {fitting[0]!r} fits a critic, and credit {self.credit.name!r} reads "
                "none; leave it out, or write credit: {name: gae}."
            )
        check_requires(
            credit, [loss.name for loss in losses], [reward.name for reward in self.rewards]
        )

    def _check_candidates(self) -> None:
        """Refuse candidates that nothing judges, and credit that compares them without any."""
        several, credit = self.rollout.candidates, self.credit.bind("credit")
        if several.count == 1:
            if "candidates" in registry.asks(credit):
                raise MissingError(
                    f"credit: {self.credit.name!r} compares the replies to one prompt here, and "
                    "there is one; write rollout.candidates.count: 4 (2 or more)."
                )
            return
        without = [one.known_as for one in self.environments if one.weight and one.oracle is None]
        if several.by == "oracle" and without:
            raise MissingError(
                f"rollout.candidates.by: the oracle is to judge, and {without[0]!r} has none; "
                "write oracle: {name: minimax} below the environment, or another of `sparring "
                "list oracles`."
            )
        reads = {
            reward.name: getattr(reward.bind("rewards").plugin.module, "READS", "")
            for reward in self.rewards
        }
        if "candidates" in registry.asks(credit):
            requires = getattr(credit.plugin.module, "REQUIRES", {})
            for option in requires.get("components", ()):
                named = credit.options.get(option, credit.plugin.options[option].default)
                if reads.get(named, "turn") != "turn":
                    raise ConfigError(
                        f"credit: {credit.plugin.name!r} compares candidates by {named!r} (its "
                        f"option {option}), which reads more than one turn, so that a reply that "
                        "was not played has none; name best_action or regret."
                    )
        if several.by == "rewards" and "turn" not in reads.values():
            raise MissingError(
                f"rollout.candidates.count is {several.count}, and no reward of the run judges a "
                "turn by itself; add to rewards a line such as - {name: best_action}, or write "
                "rollout.candidates.by: oracle."
            )

    def check_plugins(self) -> RunConfig:
        """Bind every plug-in once, so that wrong names and options fail before anything runs."""
        slots = {
            "render": self.renderer,
            "context": self.context,
            "league.matchmakers": self.matchmaker,
            "league.keeping": self.league.keeping,
            "selection": self.selection,
            "credit": self.credit,
        }
        slots.update({"selection.curricula": self.curriculum, "selection.replay": self.replay})
        for slot, plugin in slots.items():
            plugin.bind(slot)
        # refuses what does not fit
        self.rollout.plan.bind("rollout.plans")(self.rollout.group_size, (), Stream.from_seed(0))
        self._check_losses()
        self._check_candidates()
        for reward in self.rewards:
            self._check_needs(reward.bind("rewards").plugin)
        for game in self.environments:
            if game.oracle is not None:
                game.oracle.bind("oracles")
        for agent in (*self.evaluation.opponents, *self.bots.values()):
            if "terminal" in agent.bind("players").needs:
                raise ConfigError(
                    f"agent {agent.name!r} sits at a terminal, where a run asks nobody; meet it "
                    "with `sparring play`."
                )
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


def _has_reference(game: str) -> bool:
    """Return whether a game has a solver that gives reference solutions; it may be from outside."""
    solver = (
        load_part("environments", game, "solver") if registry.known("environments", game) else None
    )
    return solver is not None and hasattr(solver.module, "reference")


def _keys_at(path: tuple[int | str, ...]) -> list[str]:
    """Return the field names of the section at ``path``."""
    section: Any = RunConfig
    for part in path:
        if isinstance(part, str):
            annotation = section.model_fields[part].annotation
            section = next(
                (a for a in getattr(annotation, "__args__", ()) if isinstance(a, type)), annotation
            )
    return list(section.model_fields)
