"""The sections of a configuration besides those about policies, with their defaults."""

from __future__ import annotations

import os
from operator import not_
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from sparring.config.parts import (
    MAX_COUNT,
    AtLeastOne,
    Count,
    CountTo1M,
    CountTo1MOrZero,
    CountTo10K,
    CountTo10KOrZero,
    Gpus,
    Number,
    PluginConfig,
    Positive,
    Strict,
    refuse_repeated,
)
from sparring.config.plugins.guard import CALL_LIMIT_SECONDS
from sparring.config.policies import (
    SECTIONS,
    LearnerConfig,
    LossConfig,
    ModelConfig,
    PolicyConfig,
    PolicyName,
    ProcessConfig,
    RewardConfig,
    SamplingConfig,
    WarmupConfig,
)
from sparring.core.foreign_text import check_label, check_path_name
from sparring.core.records import MAIN

Label = Annotated[str, AfterValidator(check_label)]


class EnvironmentConfig(Strict):
    """An environment for training, or a held-out one with weight 0; a plain string is its name."""

    name: str = Field(description="a hand-written game or any sequential OpenSpiel game")
    label: Label | None = Field(
        None,
        description="its name in metrics and baselines; null: the same as name. Two sizes of one "
        "game need different labels",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="options of the game, e.g. {players: 3}"
    )
    illegal: dict[str, Any] = Field(
        default_factory=dict,
        description="handling of illegal replies: rule, penalty, retries, payoff",
    )
    weight: float = Field(
        1.0, ge=0, description="relative share of the episodes; 0: only warm-up and evaluation"
    )
    oracle: PluginConfig | None = Field(
        None,
        description=(
            "what scores every turn of trained seats, for process rewards and regret; null: none"
        ),
    )
    outcome_gap: float | None = Field(
        None,
        gt=0,
        description="smallest difference between two outcomes, which bounds the shaping rewards; "
        "null: the game's own value",
    )

    scale: float = Field(
        1.0,
        gt=0,
        description="factor on the game's payoffs before credit assignment; metrics stay unscaled",
    )

    roles: dict[str, str] = Field(
        default_factory=dict,
        exclude_if=not_,
        description="policy of each role of this game; overrides ``roles`` of the run",
    )

    @model_validator(mode="before")
    @classmethod
    def _parse_text(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @property
    def display_name(self) -> str:
        """Name of the game in this run."""
        return self.label or self.name


class CandidatesConfig(Strict):
    """Several candidates for each prompt of a trained seat; one of them is played."""

    count: int = Field(
        1, ge=1, le=1024, description="replies to each prompt, at most 1024; 1: no candidates"
    )
    commit: Literal["best", "any_best", "random"] = Field(
        "any_best", description="candidate to play: the first of the best, one of the best, or any"
    )
    explore: float = Field(
        0.0, ge=0, le=1, description="share of decisions that play any candidate instead"
    )
    by: Literal["rewards", "oracle"] = Field(
        "rewards",
        description="what scores the candidates: the run's rewards that read only one turn, or "
        "the game's oracle",
    )


class RolloutConfig(SamplingConfig):
    """How games are played for training."""

    games_per_step: CountTo1M = Field(256, description="games played between two updates")
    group_size: CountTo1M = Field(
        1,
        description=(
            "games that share a deal, for group-relative estimators; divides games_per_step"
        ),
    )
    plan: PluginConfig = Field(
        PluginConfig(name="none"),
        description="where the games of a group begin: at the start, or as branches",
    )
    candidates: CandidatesConfig = CandidatesConfig()
    in_flight: CountTo1M = Field(
        4096,
        description="games running at the same time, for memory and speed; with threads=1 and "
        "float32 on a CPU the results do not depend on this number",
    )
    starts: CountTo1MOrZero = Field(
        0,
        description=(
            "fixed initial states per game, used again and again; 0: a new one for every group"
        ),
    )
    max_turns: AtLeastOne | None = Field(
        None,
        description="turns of all seats after which a game is truncated: it keeps the payoffs so "
        "far, and estimators with a critic bootstrap (their option cut); a number or a schedule",
    )
    refills: CountTo10KOrZero = Field(
        0,
        description=(
            "how often a step plays more games in place of those that selection drops (DAPO)"
        ),
    )
    playouts: CountTo10KOrZero = Field(
        0,
        description=(
            "continuations sampled after every trained turn, to estimate its value; 0: none"
        ),
    )
    retries: CountTo10KOrZero = Field(
        2, description="how often a failed game is restarted before its group is dropped"
    )

    @model_validator(mode="after")
    def _check_groups(self) -> RolloutConfig:
        if self.games_per_step % self.group_size:
            raise ValueError(
                f"group_size={self.group_size} must divide games_per_step={self.games_per_step}"
            )
        return self


EXACT: Final = "exact"  # instead of a number of episodes: expected results by the game tree


def _check_plays(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value == EXACT or (is_number and 0 <= value <= MAX_COUNT and value == int(value)):
        return value
    raise ValueError(
        f"it must be a whole number from 0 to {MAX_COUNT}, or {EXACT}; write plays: 2000, or "
        f"plays: {EXACT}"
    )


Plays = Annotated[int | Literal["exact"], BeforeValidator(_check_plays)]


class LeagueLearnerConfig(Strict):
    """One of several policies that learn in one league."""

    tag: Annotated[str, AfterValidator(lambda text: text and check_label(text))] = Field(
        "",
        description="purpose, such as exploiter, by which matchmakers choose opponents; empty: "
        "its name",
    )
    share: float = Field(
        1.0,
        gt=0,
        le=1e6,
        description="share of the initial states in which it learns, relative to the others'",
    )
    matchmaker: PluginConfig | None = Field(
        None, description="chooses its opponents while it learns; null: the run's matchmaker"
    )
    schedule: PluginConfig | None = Field(
        None, description="when a snapshot of it is taken; null: the league's schedule"
    )
    restart: float | None = Field(
        None,
        ge=0,
        le=1,
        description="probability that it restarts from its initial weights after its snapshot; "
        "null: league.restart",
    )


class LeagueConfig(Strict):
    """Snapshots that are kept as opponents; the matchmaker chooses among them."""

    every: Count = Field(
        0, description="steps between snapshots added to the league; 0: no snapshots"
    )
    schedule: PluginConfig = Field(
        PluginConfig(name="steps"),
        description="when a snapshot is taken: at fixed steps, or by learning progress",
    )
    keep: CountTo10K = Field(
        8, description="snapshots kept for each learner; option ``keeping`` chooses which"
    )
    keeping: PluginConfig = Field(
        PluginConfig(name="spread"), description="which snapshots stay when there are too many"
    )
    start: bool = Field(False, description="whether the initial weights are a permanent member")
    restart: bool = Field(
        False,
        description="whether the learner restarts from its initial weights after each snapshot",
    )
    learners: dict[PolicyName, LeagueLearnerConfig] = Field(
        default_factory=dict,
        exclude_if=not_,
        description="policies that learn in this league, each in all roles; one of them is main",
    )
    together: bool = Field(
        True,
        exclude_if=bool,
        description="whether several learners learn at once; false: one at a time, and the next "
        "one takes over after each snapshot",
    )
    plays: Plays = Field(
        0,
        description="episodes between members after each snapshot, in each environment, which "
        "fill the payoff book; exact: no episodes, but expected returns from the game tree",
    )
    focus: float = Field(
        0.0,
        ge=0,
        le=1,
        exclude_if=not_,
        description="share of these episodes for pairs with a large weight in the meta-strategy "
        "and a large variance of returns; the rest is for the pairs with the fewest episodes",
    )
    answer: str = Field(
        "policy",
        description="which policy is evaluated and played: policy, the published weights; last, "
        "the live weights; average, the EMA weights; or the mixture of members by a meta-solver, "
        "such as nash",
    )
    payoff_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of its weight that a stored result loses per step; 0: none",
    )

    @property
    def tags(self) -> dict[str, str]:
        """Tag of each learner of the league, by name."""
        return {name: learner.tag or name for name, learner in self.learners.items()} or {
            MAIN: MAIN
        }

    def restart_of(self, policy: str) -> float:
        """Return the probability that a learner restarts after its snapshot."""
        learner = self.learners.get(policy)
        return (
            float(self.restart) if learner is None or learner.restart is None else learner.restart
        )

    @property
    def restarts(self) -> bool:
        """Whether a learner may restart from its initial weights."""
        return any(self.restart_of(name) for name in self.tags)

    @model_validator(mode="after")
    def _check_fields(self) -> LeagueConfig:
        if (self.start or self.plays) and not self.every:
            raise ValueError("no snapshot is taken, so there are no members; write every: 20")
        if self.focus and self.plays in (0, EXACT):
            raise ValueError(
                f"focus chooses members that play, but plays: {self.plays} plays none; write for "
                "example plays: 2000, or leave focus out"
            )
        if self.restarts and not self.start:
            raise ValueError("restart needs the initial weights as a member; write start: true")
        if self.start and self.keep < 2:
            raise ValueError("keep: 1 keeps only the initial weights; write keep: 2, or more")
        if self.learners and MAIN not in self.learners:
            raise ValueError(
                f"learners: one of them must be named {MAIN}, which is measured; they are "
                f"{', '.join(self.learners)}"
            )
        if not self.together and not self.every:
            raise ValueError("together: false takes turns at snapshots; write every: 20")
        return self


PINNED, FRESH = "pinned", "fresh"  # values of order
REPRODUCIBILITY_KEYS = ("lag", "order")  # keys that change the results of a run


class ScaleConfig(Strict):
    """Where episodes are played: in the training process or by workers.

    With ``threads: 1`` and the sampler ``in_process``, only ``lag`` and ``order`` change the
    results of a run. All other keys may change when a run resumes.
    """

    fleet: Literal["here", "processes", "ray"] = Field(
        "here",
        description="where episodes are played: the training process; worker processes; or actors "
        "of Ray on many machines",
    )
    workers: int = Field(
        0,
        ge=-1,
        le=4096,
        description="number of workers, each with one thread; 0: the training process plays; "
        "-1: one per core",
    )
    unit_games: CountTo1M = Field(
        32,
        description="episodes in one unit of work, at least a whole group; a lost unit is played "
        "again as a whole",
    )
    lag: int = Field(
        0,
        ge=0,
        le=64,
        description="staleness in steps: step s is sampled with the weights of step s - lag; in "
        "fresh order the largest staleness",
    )
    order: Literal["pinned", "fresh"] = Field(
        "pinned",
        description="pinned: lag alone decides which weights play which step, so a seed fixes the "
        "results; fresh: a step learns from the first finished episodes, episodes go on with newer "
        "weights, and a seed does not fix the results",
    )
    timeout: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="seconds for a unit before its worker counts as hung; null: 20 times the "
        "median, at least 60",
    )
    restarts: Count = Field(10, description="how often a worker is started again in an hour")
    weights: Literal["pipe", "file", "ray"] | None = Field(
        None,
        description="how weights reach workers: with the message; as files that all workers can "
        "read; through Ray's object store; null: ray for fleet ray, file for others",
    )
    address: str | None = Field(
        None, description="address of a running Ray cluster; null: start one on this machine"
    )
    gpus: Gpus = Field(
        (),
        exclude_if=not_,
        description="numbers of this machine's GPUs for workers: worker processes take them in "
        "turn, and a Ray cluster started here has exactly these",
    )
    gpus_per_worker: float | None = Field(
        None,
        le=64,
        exclude_if=lambda value: value is None,
        description="GPUs that each actor of Ray reserves: a whole number, or less than 1 for "
        "several workers on one; null: none",
    )
    share_gpus: bool = Field(
        False,
        exclude_if=not_,
        description="whether learners, workers and replicas of vLLM may be given the same GPU",
    )
    mixed: bool = Field(
        False,
        description="whether workers may have other processors or versions; a seed then does not "
        "fix the results",
    )

    @model_validator(mode="after")
    def _check_fields(self) -> ScaleConfig:
        if self.workers and self.fleet == "here":
            raise ValueError(
                f"workers={self.workers}, but fleet=here has no workers; write fleet: processes"
            )
        if not self.workers and self.fleet != "here":
            raise ValueError(
                f"fleet={self.fleet}, but workers=0; write workers: -1 (one per core), or a number"
            )
        if self.order == FRESH and (not self.workers or not self.lag):
            missing_key = "workers" if not self.workers else "lag"
            raise ValueError(
                f"order=fresh and {missing_key}=0: workers must play while the process learns; "
                "write fleet: processes, workers: -1 (one per core) and lag: 2, or order: pinned"
            )
        if self.weights == "ray" and self.fleet != "ray":
            raise ValueError(
                f"weights=ray needs Ray, but fleet={self.fleet}; write weights: file, or leave "
                "it out"
            )
        if self.address is not None and self.fleet != "ray":
            raise ValueError(
                f"address={self.address} is for a Ray cluster, but fleet={self.fleet}; write "
                "fleet: ray"
            )
        return self

    @model_validator(mode="after")
    def _check_gpus(self) -> ScaleConfig:
        per_worker = self.gpus_per_worker
        starts_ray = self.fleet == "ray" and self.address is None
        if self.gpus and self.fleet == "here":
            raise ValueError(
                f"gpus={list(self.gpus)} are for workers, but fleet={self.fleet}; write fleet: "
                "processes, or leave gpus out (learner.gpus is for learners)"
            )
        if per_worker is not None and self.fleet != "ray":
            raise ValueError(
                f"gpus_per_worker={per_worker:g} is what an actor of Ray reserves, but "
                f"fleet={self.fleet}; write gpus: [1, 2] (numbers of GPUs), or fleet: ray"
            )
        if per_worker is not None and (
            per_worker <= 0 or (per_worker > 1 and not per_worker.is_integer())
        ):
            raise ValueError(
                f"gpus_per_worker={per_worker:g} is not a valid number of GPUs; write 1, 2 "
                "..., a share of one such as 0.5, or null for workers without GPUs"
            )
        if self.gpus and self.fleet == "ray" and not starts_ray:
            raise ValueError(
                f"gpus={list(self.gpus)} are GPUs of this machine, but address={self.address} is a "
                "cluster, which assigns its own GPUs; leave gpus out and write gpus_per_worker: 1"
            )
        if starts_ray and bool(self.gpus) != (per_worker is not None):
            raise ValueError(
                f"fleet=ray, gpus={list(self.gpus)} and gpus_per_worker={per_worker}: Ray on this "
                "machine needs its GPUs, and the number that a worker reserves; write both, "
                "such as gpus: [1, 2] and gpus_per_worker: 1"
            )
        return self

    @property
    def count(self) -> int:
        """Number of workers."""
        return self.workers if self.workers >= 0 else os.cpu_count() or 1


class OpponentConfig(PluginConfig):
    """A bot as an opponent in evaluation."""

    games_per_seat: CountTo1M = Field(100, description="games played from each seat")


class EvaluationConfig(Strict):
    """What is measured while training, and how often."""

    every: Count = Field(20, description="steps between measurements; 0: never")
    exact: bool = Field(
        True, description="exploitability by enumeration, where the game is small enough"
    )
    max_states: Positive = Field(
        20_000, description="information states up to which enumeration is tried"
    )
    opponents: list[OpponentConfig] = Field(
        default_factory=list, description="bots to evaluate against, equally often from each seat"
    )

    def is_due(self, step: int, steps: int) -> bool:
        """Return whether a step is evaluated; the first and the last step always are."""
        return self.every > 0 and (step % self.every == 0 or step in (1, steps))


class CheckpointConfig(Strict):
    """When checkpoints are saved."""

    every: Positive = Field(50, description="steps between checkpoints")
    keep: Positive = Field(2, description="checkpoints kept")


class StoreConfig(Strict):
    """Which episodes are written to the Parquet store."""

    every: Count = Field(
        10, description="steps between stored batches; 1: every episode is stored; 0: none"
    )
    keep: Count = Field(
        100, description="stored steps kept: half the newest, half spread over the run; 0: all"
    )


class LoggingConfig(Strict):
    """Where metrics go besides the files of the run folder."""

    sinks: list[PluginConfig] = Field(
        default_factory=lambda: [PluginConfig(name="tensorboard")],
        description="plug-ins that receive the metrics of every step; none: []",
    )

    @field_validator("sinks")
    @classmethod
    def _check_names(cls, sinks: list[PluginConfig]) -> list[PluginConfig]:
        refuse_repeated("sink", (sink.name for sink in sinks), "name each sink once")
        return sinks


class HealthRule(Strict):
    """A bound on a metric; a value beyond it, or one that is not finite, is unhealthy."""

    metric: str = Field(
        min_length=1,
        description="a metric, or a pattern of the glossary such as seat_asymmetry/GAME",
    )
    above: float | None = Field(
        None, description="values above this are unhealthy; give this or below"
    )
    below: float | None = Field(None, description="values below this are unhealthy")
    for_steps: Positive = Field(1, description="consecutive unhealthy records before the rule acts")
    after_step: float = Field(
        0.0, ge=0, description="first steps without checks; below 1: a share of the run"
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
            "whether the bound is a multiple of the lowest value so far, with above; of the "
            "highest value so far, with below"
        ),
    )
    if_recorded: bool = Field(False, description="whether a missing metric is no error")
    action: Literal["warn", "stop"] = Field(
        "warn", description="what happens when the rule acts, once per metric"
    )

    @model_validator(mode="after")
    def _check_bounds(self) -> HealthRule:
        if (self.above is None) == (self.below is None):
            raise ValueError(f"the rule on {self.metric!r} needs exactly one of above and below")
        if self.times_start and self.times_best:
            raise ValueError(
                f"the rule on {self.metric!r} has times_start and times_best; write one of them"
            )
        return self


def _default_health_rules() -> list[HealthRule]:
    return [
        HealthRule(  # an environment of free text has no list of legal actions
            metric="legal_rate/GAME", below=0.5, for_steps=5, after_step=0.2, if_recorded=True
        ),
        # free text in a required form has no list of legal actions
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
    """Rules that warn early of common failures, and may stop the run."""

    stop: bool = Field(
        False, description="every rule that acts saves and stops the run; --resume goes on"
    )
    rules: list[HealthRule] = Field(
        default_factory=_default_health_rules,
        description="the rules; your list replaces the default list",
    )


class RunSections(Strict):
    """The fields of ``RunConfig`` with their defaults, without checks across sections."""

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
    threads: int = Field(0, ge=0, le=1024, description="CPU threads; 0: one per core")
    call_seconds: float = Field(
        CALL_LIMIT_SECONDS,
        ge=0,
        allow_inf_nan=False,
        description=(
            "time limit in seconds for one plug-in call (game, agent, oracle ...); 0: no limit"
        ),
    )
    environments: list[EnvironmentConfig] = Field(
        min_length=1, description="the environments trained on; ``games`` is the old spelling"
    )
    model: ModelConfig = ModelConfig()
    renderer: PluginConfig = PluginConfig(name="plain")
    context: PluginConfig = Field(
        PluginConfig(name="full"),
        description="which part of the episode's history the policy sees and is trained on at "
        "each turn",
    )
    sampler: PluginConfig = PluginConfig(name="in_process")
    rollout: RolloutConfig = RolloutConfig()
    matchmaker: PluginConfig = PluginConfig(name="mirror")
    bots: dict[Label, PluginConfig] = Field(
        default_factory=dict,
        description="bots with their options, by name, that the matchmaker may use as opponents",
    )
    league: LeagueConfig = LeagueConfig()
    rewards: list[RewardConfig] = Field(
        default_factory=list, description="components added to the game's payoffs"
    )
    outcome_weight: Number = Field(
        1.0,
        description="factor on the game's payoffs before credit assignment; a number or a schedule",
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
        description="what the run learns outside the weights, used to score candidates; null: none",
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
        default_factory=dict,
        exclude_if=not_,
        description="policies by name; empty: a single policy, main",
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
        """For each policy by name, the configuration of a run with only this policy."""
        return {name: self._only(policy) for name, policy in self.policies.items()} or {MAIN: self}

    def _only(self, policy: PolicyConfig) -> Self:
        new_fields = {key: getattr(policy, key) for key in SECTIONS}
        new_fields["rollout"] = self.rollout.model_copy(update=dict(policy.rollout))
        new_fields["learner"] = self.learner.model_copy(update=dict(policy.learner))
        return self.model_copy(update={**new_fields, "policies": {}, "roles": {}})

    def is_frozen(self, policy: str) -> bool:
        """Return whether a policy plays without being trained."""
        return policy in self.policies and self.policies[policy].frozen
