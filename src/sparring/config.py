"""One strict configuration of a run: YAML recipes and ``a.b=c`` overrides.

The resolved config re-runs verbatim.

Every field has its one default here, or in the signature of the plug-in it configures. Unknown keys
are errors that name the nearest right one. ``Number`` fields take a schedule as well as a plain
number (see ``schedule.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from sparring import names, registry
from sparring.config_parts import (
    Count,
    Few,
    FewOrNone,
    FromOne,
    NotNegative,
    Number,
    PluginConfig,
    Positive,
    Some,
    SomeOrNone,
    Strict,
    Width,
    check_requires,
    config_error,
    refuse_repeated,
)
from sparring.errors import ConfigError
from sparring.guard import LIMIT
from sparring.rng import Stream

__all__ = [
    "Count",
    "Number",
    "PluginConfig",
    "Positive",
    "RunConfig",
    "Strict",
    "refuse_repeated",
    "resolve",
]

Label = Annotated[str, AfterValidator(names.label)]


class LossConfig(PluginConfig):
    """A loss term and its weight in the sum."""

    weight: Number = Field(1.0, description="factor of this term; a number or a schedule")


class RewardConfig(PluginConfig):
    """A reward that shapes the game's own, and its weight."""

    weight: Number = Field(1.0, description="factor of this component; a number or a schedule")


class GameConfig(Strict):
    """A game to train on, or to hold out: weight 0."""

    name: str = Field(description="a hand-written game or any sequential OpenSpiel game")
    label: Label | None = Field(
        None,
        description="its name in metrics and baselines; null: name. Two sizes of one game need two",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="options of the game, e.g. {players: 3}"
    )
    illegal: dict[str, Any] = Field(
        default_factory=dict,
        description="what an illegal reply costs: rule, penalty, retries, payoff",
    )
    weight: float = Field(
        1.0,
        ge=0,
        description="share of the games played; 0 holds it out: only warmed up and measured",
    )
    oracle: PluginConfig | None = Field(
        None,
        description=(
            "judges every turn of trained seats, for process rewards and regret; null: none"
        ),
    )
    outcome_gap: float | None = Field(
        None,
        gt=0,
        description="smallest difference of two outcomes, bounds shaping; null: from the game",
    )

    scale: float = Field(
        1.0,
        gt=0,
        description="factor of the game's payoffs in what credit sees; figures keep its units",
    )

    @property
    def known_as(self) -> str:
        """The game's name in this run."""
        return self.label or self.name


class LoraConfig(Strict):
    """Low-rank adapters: they alone are trained, and the model under them is frozen."""

    rank: Width = Field(16, description="inner width of the adapters")
    alpha: float = Field(32.0, gt=0, description="their scale is alpha / rank")
    targets: list[str] = Field(
        default_factory=list,
        description="layers that get one, e.g. [q_proj, v_proj]; empty: all linear ones",
    )


class ModelConfig(Strict):
    """The model: a pretrained one by name, or a tiny model built from these sizes."""

    name: str = Field(
        "tiny", description="tiny, a model folder, smollm2-135m, gemma3-270m, or a Hugging Face id"
    )
    device: str = Field(
        "auto",
        description="auto (a GPU if there is one, for pretrained models), cpu, cuda, cuda:1 ...",
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="of a pretrained model's weights"
    )
    lora: LoraConfig | None = Field(
        None, description="low-rank adapters; empty trains every weight"
    )
    gradient_checkpointing: bool = Field(
        False, description="compute blocks again in the backward pass: less memory, more time"
    )
    hidden_size: Width = Field(64, description="width of the tiny model")
    layers: Few = Field(2, description="blocks of the tiny model")
    heads: Width = Field(4, description="attention heads of the tiny model")
    context: Some | None = Field(
        None,
        description="longest conversation in tokens; null: 128 for the tiny model, else its limit",
    )

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelConfig:
        if self.hidden_size % self.heads:
            raise ValueError(f"heads={self.heads} must divide hidden_size={self.hidden_size}")
        return self

    @model_validator(mode="after")
    def _tiny_is_on_the_cpu(self) -> ModelConfig:
        if self.name == "tiny" and self.device not in ("auto", "cpu"):
            raise ValueError(
                f"the tiny model runs on the CPU and not on device={self.device!r}; write auto, "
                "or name a pretrained model"
            )
        return self


class RolloutConfig(Strict):
    """How games are played for training."""

    games_per_step: Some = Field(256, description="games played between two updates")
    group_size: Some = Field(
        1,
        description=(
            "games that share a deal, for group-relative estimators; divides games_per_step"
        ),
    )
    plan: PluginConfig = Field(
        PluginConfig(name="none"),
        description="where the games of a group begin: at the start, or as branches",
    )
    in_flight: Some = Field(4096, description="games running at the same time")
    max_new_tokens: Some = Field(2, description="longest reply in tokens, the stop token included")
    temperature: float = Field(1.0, ge=1e-6, le=1e6, description="sampling temperature")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; 1 is off")
    top_k: Count = Field(0, description="keep the k most probable tokens; 0 is off")
    starts: SomeOrNone = Field(
        0,
        description=(
            "fixed deals per game that are played again and again; 0: every group is dealt afresh"
        ),
    )
    max_turns: FromOne | None = Field(
        None,
        description="turns of all seats after which a game is cut: it keeps what was paid so far, "
        "and estimators with a critic bootstrap (their option cut); a number or a schedule",
    )
    refills: FewOrNone = Field(
        0,
        description=(
            "how often a step plays more games in place of those that selection drops (DAPO)"
        ),
    )
    playouts: FewOrNone = Field(
        0,
        description=(
            "games played on from after every trained turn, to estimate its value; 0 plays none"
        ),
    )
    retries: FewOrNone = Field(
        2, description="how often a failed game begins anew before its group is dropped"
    )

    @model_validator(mode="after")
    def _groups_fit(self) -> RolloutConfig:
        if self.games_per_step % self.group_size:
            raise ValueError(
                f"group_size={self.group_size} must divide games_per_step={self.games_per_step}"
            )
        return self


Decay = Annotated[float, Field(ge=0, lt=1)]


class LearnerConfig(Strict):
    """How the weights are updated."""

    learning_rate: NotNegative = Field(
        1e-3, description="AdamW's step size; a number or a schedule"
    )
    betas: tuple[Decay, Decay] = Field((0.9, 0.95), description="AdamW's moment decays")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's decoupled weight decay")
    gradient_norm: float = Field(1.0, gt=0, description="gradients are scaled down to this norm")
    order: Literal["together", "reverse_turns"] = Field(
        "together", description="all turns at once, or last turns first (SeeUPO)"
    )
    epochs: Few = Field(1, description="passes over the data of a step")
    minibatches: Few = Field(1, description="optimiser updates per pass")
    split: Literal["episodes", "sequences"] = Field(
        "episodes",
        description=(
            "what minibatches never part: a whole game, all its seats; or one seat's sequence"
        ),
    )
    micro_tokens: Positive = Field(
        32768, description="tokens per forward pass; bounds memory, changes nothing else"
    )
    reduction: Literal["token_mean", "sequence_mean", "constant"] = Field(
        "token_mean", description="how token losses become one number"
    )
    reduction_constant: float = Field(
        1.0, gt=0, description="divisor per sequence of the constant reduction"
    )
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "decay per update of the averaged weights that are evaluated and exported; 0: off"
        ),
    )


class ProcessConfig(Strict):
    """The process model, trained beside the policy on pairs of games.

    It is trained where the estimator reads its step rewards (`oprl`).
    """

    learning_rate: NotNegative | None = Field(
        None, description="AdamW's step size; a number or a schedule; null: the learner's"
    )
    updates: Few = Field(
        1, description="optimiser updates per step, each on all pairs of the step, before credit"
    )
    pairs: Literal["one_to_one", "all"] = Field(
        "one_to_one",
        description=(
            "no game in two pairs, best with worst; or every better game with every worse one of "
            "its start and role"
        ),
    )


class WarmupConfig(Strict):
    """Optional supervised start: imitate random legal play for a few seconds."""

    updates: FewOrNone = Field(0, description="updates of supervised play; 0 is off")
    games: Some = Field(256, description="random games per update")
    learning_rate: float = Field(3e-3, gt=0, description="step size during warm-up")


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
    """Past selves kept as opponents; which are met is the matchmaker's choice."""

    every: Count = Field(
        0, description="steps between past selves taken into the league; 0 keeps none"
    )
    keep: Few = Field(
        8, description="past selves kept; beyond that the middle of the history thins out"
    )


class CheckpointConfig(Strict):
    """When the whole state is saved."""

    every: Positive = Field(50, description="steps between checkpoints")
    keep: Positive = Field(2, description="checkpoints kept")


class StoreConfig(Strict):
    """Which episodes are written to the Parquet store."""

    every: Count = Field(
        10, description="steps between stored batches; 1 stores every episode, 0 none"
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
        HealthRule(metric="legal_rate/GAME", below=0.5, for_steps=5, after_step=0.2),
        HealthRule(metric="truncated_rate", above=0.5, for_steps=10, after_step=0.2),
        HealthRule(metric="reply_tokens", above=3.0, times_start=True, for_steps=10),
        HealthRule(metric="group_equal_share", above=0.95, for_steps=20, if_recorded=True),
        HealthRule(metric="seat_asymmetry/GAME", above=1.5, for_steps=20),
        HealthRule(metric="advantage_std", below=0.05, for_steps=10),
        HealthRule(metric="sampled_entropy", below=0.01, for_steps=10),
        HealthRule(metric="ratio_tail", above=0.1, for_steps=5),
        HealthRule(metric="gradient_norm", above=1000.0, for_steps=3),
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
    games: list[GameConfig] = Field(min_length=1, description="the games trained on")
    model: ModelConfig = ModelConfig()
    renderer: PluginConfig = PluginConfig(name="plain")
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
            (game.known_as for game in self.games),
            "metrics and baselines are kept by the game's name; give one of them a label",
        )
        if not any(game.weight for game in self.games):
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
        missing = [game.known_as for game in self.games if game.weight and game.oracle is None]
        if "verdicts" in plugin.needs and missing:
            raise ConfigError(
                f"rewards: {plugin.name!r} needs an oracle for every game trained on, "
                f"and {missing[0]!r} has none; write oracle: {{name: minimax}} below the game, or "
                "another of `sparring list oracles`."
            )
        solved = (
            registry.offering("oracles.puzzles", "reference") if "reference" in plugin.needs else ()
        )
        other = [game.known_as for game in self.games if game.weight and game.name not in solved]
        if "reference" in plugin.needs and other:
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

    def check_plugins(self) -> RunConfig:
        """Bind every plug-in once, so that wrong names and options fail before anything runs."""
        slots = {
            "render": self.renderer,
            "league.matchmakers": self.matchmaker,
            "selection": self.selection,
            "credit": self.credit,
        }
        slots.update({"selection.curricula": self.curriculum, "selection.replay": self.replay})
        for slot, plugin in slots.items():
            plugin.bind(slot)
        # refuses what does not fit
        self.rollout.plan.bind("rollout.plans")(self.rollout.group_size, (), Stream.from_seed(0))
        self._check_losses()
        for reward in self.rewards:
            self._check_needs(reward.bind("rewards").plugin)
        for game in self.games:
            if game.oracle is not None:
                game.oracle.bind("oracles")
        for agent in (*self.evaluation.opponents, *self.bots.values()):
            if "terminal" in agent.bind("agents").needs:
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
        return RunConfig.model_validate(dict(data)).check_plugins()
    except ValidationError as error:
        raise config_error(error, _keys_at) from None


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
