"""The sections of a configuration about policies: models, credit, losses and the learner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from sparring.config.parts import (
    Count,
    CountTo1M,
    CountTo10K,
    CountTo10KOrZero,
    Gpus,
    NotNegative,
    Number,
    PluginConfig,
    Positive,
    Strict,
    Width,
    merge,
)
from sparring.core.errors import quoted
from sparring.core.foreign_text import check_file_name


class LossConfig(PluginConfig):
    """A loss term and its weight in the sum."""

    weight: Number = Field(1.0, description="factor of this term; a number or a schedule")


class RewardConfig(PluginConfig):
    """A shaping reward that is added to the game's payoffs, and its weight."""

    weight: Number = Field(1.0, description="factor of this component; a number or a schedule")


Decay = Annotated[float, Field(ge=0, lt=1)]
Reduction = Literal["token_mean", "sequence_mean", "agent_mean", "constant"]


class UpdateConfig(Strict):
    """How the weights of a policy are updated."""

    learning_rate: NotNegative = Field(
        1e-3, description="AdamW's step size; a number or a schedule"
    )
    betas: tuple[Decay, Decay] = Field((0.9, 0.95), description="AdamW's moment decays")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's decoupled weight decay")
    gradient_norm: float = Field(1.0, gt=0, description="gradients are scaled down to this norm")
    order: Literal["together", "reverse_turns"] = Field(
        "together",
        description="whether to update on all turns at once, or on the last turns first (SeeUPO)",
    )
    epochs: CountTo10K = Field(1, description="passes over the data of a step")
    minibatches: CountTo10K = Field(1, description="optimiser updates per pass")
    split: Literal["episodes", "sequences"] = Field(
        "episodes",
        description=(
            "unit that minibatches never split: a game with all its seats, or one seat's sequence"
        ),
    )
    micro_tokens: Positive = Field(
        32768, description="tokens per forward pass; bounds memory, changes nothing else"
    )
    leaves: int = Field(
        1,
        ge=1,
        le=1024,
        description=(
            "number of parts of a minibatch, a power of 2; their gradients are added along a fixed "
            "tree, so the exact results depend on this number, but not on which process computes "
            "a part"
        ),
    )
    reduction: Reduction = Field(
        "token_mean",
        description=(
            "how token losses become one number; agent_mean: equal weight for every episode, "
            "within it for every conversation of a seat, and within that for every token"
        ),
    )
    reduction_constant: float = Field(
        1.0, gt=0, description="divisor per sequence of the constant reduction"
    )
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "decay per update of the EMA weights, which are evaluated and exported; at most "
            "n / (n + 4) at update n; 0: off"
        ),
    )

    master_weights: bool = Field(
        False,
        description=(
            "whether to keep a float32 copy of each weight and of AdamW's moments, if the weights "
            "have 16 bits (model.dtype), so that small updates are not lost"
        ),
    )

    @field_validator("leaves")
    @classmethod
    def _check_leaves_field(cls, value: int) -> int:
        return check_power_of_2("leaves", value)


class LearnerConfig(UpdateConfig):
    """How weights are updated, and by how many learners."""

    ranks: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "learners, each a process that computes its share of the leaves: a power of 2, at most "
            "leaves; set for the run, not per policy"
        ),
    )
    sharding: Literal["none", "fsdp2"] = Field(
        "none",
        description=(
            "fsdp2 splits weights, gradients and optimiser among the learners; set for the run, "
            "not per policy"
        ),
    )
    gradient_sync: Literal["leaf", "pass"] = Field(
        "leaf",
        description=(
            "when learners with fsdp2 add their gradients: after each leaf, which gives the same "
            "numbers as one learner, or after each forward pass, which needs less memory; no "
            "difference if a leaf is one pass"
        ),
    )
    gpus: Gpus = Field(
        (),
        exclude_if=not_,
        description=(
            "numbers of this machine's GPUs for the learners, one each, in their order; empty: "
            "with model.device: cuda learner r takes GPU r; set for the run, not per policy"
        ),
    )

    @property
    def shards(self) -> bool:
        """Whether the trained weights are split among several learners."""
        return self.sharding != "none" and self.ranks > 1

    @model_validator(mode="after")
    def _check_fields(self) -> LearnerConfig:
        check_power_of_2("ranks", self.ranks)
        check_leaves(self, self.ranks)
        if self.gpus and len(self.gpus) != self.ranks:
            raise ValueError(
                f"gpus={list(self.gpus)} and ranks={self.ranks}: each learner takes one GPU; write "
                f"{self.ranks} numbers, or leave gpus out: learner r takes GPU r"
            )
        return self


def check_power_of_2(name: str, value: int) -> int:
    """Check that a number is a power of 2, and return it.

    Args:
        name: name of the key.
        value: the number, at least 1.
    """
    if value & (value - 1):
        smaller = 1 << (value.bit_length() - 1)
        raise ValueError(f"{name}={value} is not a power of 2; write {smaller} or {2 * smaller}")
    return value


def check_leaves(update: UpdateConfig, ranks: int, prefix: str = "") -> None:
    """Raise ValueError if a policy has fewer leaves than the run has learners.

    Args:
        update: settings of the policy's updates.
        ranks: number of learners of the run.
        prefix: text before the message.
    """
    if ranks > update.leaves:
        raise ValueError(
            f"{prefix}ranks={ranks} is more than leaves={update.leaves}, so some ranks would do "
            f"nothing; write leaves: {ranks}, or a multiple"
        )


class ProcessConfig(Strict):
    """The reward model, trained on pairs of games for estimators of step rewards (`oprl`)."""

    learning_rate: NotNegative | None = Field(
        None, description="AdamW's step size; a number or a schedule; null: the learner's"
    )
    updates: CountTo10K = Field(
        1, description="optimiser updates per step, each on all pairs of the step, before credit"
    )
    pairs: Literal["one_to_one", "all"] = Field(
        "one_to_one",
        description=(
            "one_to_one: each game in at most one pair, best with worst; all: every better game "
            "with every worse game that has the same initial state and role"
        ),
    )


class WarmupConfig(Strict):
    """Optional supervised start: a few updates that imitate random legal play or a player."""

    updates: CountTo10KOrZero = Field(0, description="number of supervised updates; 0: none")
    games: CountTo1M = Field(256, description="imitated games per update")
    player: PluginConfig | None = Field(
        None,
        exclude_if=not_,
        description=(
            "player to imitate, in every seat, e.g. {name: biased, weights: {rock: 3}}; null: "
            "random legal play"
        ),
    )
    learning_rate: float = Field(3e-3, gt=0, description="step size during warm-up")


class SamplingConfig(Strict):
    """How replies are drawn."""

    max_new_tokens: CountTo1M = Field(2, description="longest reply in tokens, with the stop token")
    temperature: float = Field(1.0, ge=1e-6, le=1e6, description="sampling temperature")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; 1: off")
    top_k: Count = Field(0, description="keep the k most probable tokens; 0: off")


class LoraConfig(Strict):
    """Low-rank adapters (LoRA): only they are trained, and the model is frozen."""

    rank: Width = Field(16, description="inner width of the adapters")
    alpha: float = Field(32.0, gt=0, description="the adapters are scaled by alpha / rank")
    targets: list[str] = Field(
        default_factory=list,
        description="layers with an adapter, e.g. [q_proj, v_proj]; empty: all linear layers",
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
        "float32", description="number type of a pretrained model's weights"
    )
    lora: LoraConfig | None = Field(
        None, description="low-rank adapters; null: all weights are trained"
    )
    gradient_checkpointing: bool = Field(
        False, description="compute blocks again in the backward pass: less memory, more time"
    )
    hidden_size: Width = Field(64, description="width of the tiny model")
    layers: CountTo10K = Field(2, description="blocks of the tiny model")
    heads: Width = Field(4, description="attention heads of the tiny model")
    context: CountTo1M | None = Field(
        None,
        description="longest conversation in tokens; null: 128 for the tiny model, else its limit",
    )

    @property
    def weight_bytes(self) -> int:
        """Bytes per weight; the tiny model has 32-bit weights."""
        return 4 if self.name == "tiny" or self.dtype == "float32" else 2

    @model_validator(mode="after")
    def _check_heads(self) -> ModelConfig:
        if self.hidden_size % self.heads:
            raise ValueError(f"heads={self.heads} must divide hidden_size={self.hidden_size}")
        return self

    @model_validator(mode="after")
    def _check_tiny_device(self) -> ModelConfig:
        if self.name == "tiny" and self.device not in ("auto", "cpu"):
            raise ValueError(
                f"the tiny model runs on the CPU and not on device={self.device!r}; write auto, "
                "or name a pretrained model"
            )
        return self


PolicyName = Annotated[str, AfterValidator(check_file_name)]  # a prefix of file names


class PolicyConfig(Strict):
    """One of several policies (docs/policies.md); missing keys have the run's values."""

    frozen: bool = Field(
        False,
        description="whether the policy keeps its initial weights, or those of its model folder",
    )
    model: ModelConfig = ModelConfig()
    renderer: PluginConfig = PluginConfig(name="plain")
    context: PluginConfig = PluginConfig(name="full")
    sampler: PluginConfig = PluginConfig(name="in_process")
    rollout: SamplingConfig = SamplingConfig()
    credit: PluginConfig = PluginConfig(name="mars")
    losses: list[LossConfig] = Field(
        default_factory=lambda: [LossConfig(name="ppo_clip")],
        min_length=1,
        description="terms of the loss",
    )
    learner: UpdateConfig = UpdateConfig()
    process: ProcessConfig = ProcessConfig()


SECTIONS = tuple(key for key in PolicyConfig.model_fields if key != "frozen")


def complete_policies(data: Any) -> Any:
    """Return a run's configuration with all keys of each policy.

    Missing keys of a policy get the run's values, or the defaults. Each learner of a league is a
    policy, even if ``policies`` does not list it.

    Args:
        data: the unchecked configuration.
    """
    policies_data = data.get("policies") if isinstance(data, Mapping) else None
    learners = _learner_names(data)
    if learners and (policies_data is None or isinstance(policies_data, Mapping)):
        policies_data = {**dict.fromkeys(learners), **(policies_data or {})}
    if not isinstance(policies_data, Mapping):
        return data
    run_values = {key: data[key] for key in SECTIONS if key in data}
    for section, section_class in (("rollout", SamplingConfig), ("learner", UpdateConfig)):
        settings = run_values.get(section)
        if isinstance(settings, Mapping):
            run_values[section] = {
                key: settings[key] for key in settings if key in section_class.model_fields
            }
    policies = {
        name: merge(run_values, {} if policy is None else _without_ranks(policy))
        if policy is None or isinstance(policy, Mapping)
        else policy
        for name, policy in policies_data.items()
    }
    return {**data, "policies": policies}


def _without_ranks(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    learner = policy.get("learner")
    if not isinstance(learner, Mapping) or learner.get("ranks") != 1:
        return policy
    return {**policy, "learner": {key: learner[key] for key in learner if key != "ranks"}}


def _learner_names(data: Any) -> tuple[str, ...]:
    league = data.get("league") if isinstance(data, Mapping) else None
    names = league.get("learners") if isinstance(league, Mapping) else None
    return (
        tuple(name for name in names if isinstance(name, str)) if isinstance(names, Mapping) else ()
    )


def check_learners(
    policies: Mapping[str, PolicyConfig],
    learners: Collection[str],
    roles: Mapping[str, Mapping[str, str]],
) -> None:
    """Check that the learners of a league are the trained policies; raise ValueError otherwise.

    Args:
        policies: the run's policies.
        learners: learners of the league; may be empty.
        roles: policy of each role, by configuration key.
    """
    names = set(learners)
    if not names:
        return
    for key, policy_of_role in roles.items():
        if policy_of_role:
            raise ValueError(
                f"{key}: each learner of the league plays all roles; leave out roles, or "
                "league.learners"
            )
    for name, policy in policies.items():
        if policy.frozen == (name in names):
            state = (
                "is frozen and cannot learn" if policy.frozen else "is trained and not among them"
            )
            raise ValueError(
                f"league.learners: the policy {quoted(name)} {state}; the learners are "
                f"{', '.join(learners)}"
            )


def check_policies(
    policies: Mapping[str, PolicyConfig], roles: Mapping[str, Mapping[str, str]], ranks: int
) -> None:
    """Raise ValueError for a role with an unknown policy, too few leaves, or no trained policy.

    Args:
        policies: the run's policies.
        roles: policy of each role, by configuration key.
        ranks: number of learners of the run; each trained policy needs as many leaves.
    """
    for policy, config in policies.items():
        if not config.frozen:
            check_leaves(config.learner, ranks, f"policies.{policy}.learner: ")
    for key, policy_of_role in roles.items():
        for role, name in policy_of_role.items():
            if name not in policies:
                names = ", ".join(policies) or "none; write them below `policies`"
                raise ValueError(
                    f"{key} gives the role {quoted(role)} to {quoted(name)}, which is not a policy "
                    f"of this run; its policies are {names}"
                )
    if policies and all(config.frozen for config in policies.values()):
        raise ValueError(
            "every policy is frozen, so nothing is trained; leave frozen: true out of one policy"
        )


def without_policy(metric: str, policies: Iterable[str]) -> str:
    """Return a metric's name without its policy: ``leader/loss`` is a ``loss``.

    Args:
        metric: name of the metric in the records.
        policies: names of the run's policies.
    """
    policy, _, metric_name = metric.partition("/")
    return metric_name if metric_name and policy in policies else metric
