"""The sections of a configuration about policies: models, credit, losses and the learner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from sparring.config.parts import (
    Count,
    Few,
    FewOrNone,
    Gpus,
    NotNegative,
    Number,
    PluginConfig,
    Positive,
    Some,
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
    """A reward that shapes the game's own, and its weight."""

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
    leaves: int = Field(
        1,
        ge=1,
        le=1024,
        description=(
            "parts of a minibatch whose gradients are added along a fixed tree, a power of 2: the "
            "bits depend on it, and not on who computes a part"
        ),
    )
    reduction: Reduction = Field(
        "token_mean",
        description=(
            "how token losses become one number; agent_mean: every play weighs the same, in it "
            "every conversation of a seat, and in it every token"
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
            "decay per update of the EMA weights, which are evaluated and exported; at update n at "
            "most n / (n + 4); 0: off"
        ),
    )

    master_weights: bool = Field(
        False,
        description=(
            "keep a copy of each weight and AdamW's moments in float32, where the weights have 16 "
            "bits (model.dtype): updates too small for those are not lost"
        ),
    )

    @field_validator("leaves")
    @classmethod
    def _halves(cls, value: int) -> int:
        return power_of_2("leaves", value)


class LearnerConfig(UpdateConfig):
    """How the weights are updated, and by how many learners."""

    ranks: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "learners, each a process that computes its share of the leaves: a power of 2, at most "
            "leaves; of the run, not of a policy"
        ),
    )
    sharding: Literal["none", "fsdp2"] = Field(
        "none",
        description=(
            "fsdp2 splits weights, gradients and optimiser among the learners; of the run, not of "
            "a policy"
        ),
    )
    gradient_sync: Literal["leaf", "pass"] = Field(
        "leaf",
        description=(
            "when split learners add their gradients: after each leaf, with the bits of one "
            "learner, or after each forward pass, so that none holds a whole gradient; the same "
            "where a leaf is one pass"
        ),
    )
    gpus: Gpus = Field(
        (),
        exclude_if=not_,
        description=(
            "numbers of this machine's GPUs that learners take, one each, learner 0 the first; "
            "empty: with model.device: cuda learner r takes GPU r; of the run, not of a policy"
        ),
    )

    @property
    def shards(self) -> bool:
        """Whether what is trained is split among several learners."""
        return self.sharding != "none" and self.ranks > 1

    @model_validator(mode="after")
    def _fits(self) -> LearnerConfig:
        power_of_2("ranks", self.ranks)
        check_leaves(self, self.ranks)
        if self.gpus and len(self.gpus) != self.ranks:
            raise ValueError(
                f"gpus={list(self.gpus)} and ranks={self.ranks}: each learner takes one GPU; write "
                f"{self.ranks} numbers, or leave gpus out: learner r takes GPU r"
            )
        return self


def power_of_2(name: str, value: int) -> int:
    """Return a number that is a power of 2, or raise ValueError.

    Args:
        name: of its key.
        value: the number, at least 1.
    """
    if value & (value - 1):
        below = 1 << (value.bit_length() - 1)
        raise ValueError(f"{name}={value} is no power of 2; write {below} or {2 * below}")
    return value


def check_leaves(update: UpdateConfig, ranks: int, where: str = "") -> None:
    """Raise ValueError if a policy has fewer leaves than the run has learners.

    Args:
        own: how its weights are updated.
        ranks: learners of the run.
        where: what the message begins with.
    """
    if ranks > update.leaves:
        raise ValueError(
            f"{where}ranks={ranks} is more than leaves={update.leaves}, so some ranks would do "
            f"nothing; write leaves: {ranks}, or a multiple"
        )


class ProcessConfig(Strict):
    """The reward model, trained beside the policy on pairs of games.

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
    """Optional supervised start: imitate random legal play, or a player's, for a few seconds."""

    updates: FewOrNone = Field(0, description="updates of supervised play; 0 is off")
    games: Some = Field(256, description="games of imitated play per update")
    player: PluginConfig | None = Field(
        None,
        exclude_if=not_,
        description=(
            "who sits in every seat and is imitated, e.g. {name: biased, weights: {rock: 3}}; "
            "null: random legal play"
        ),
    )
    learning_rate: float = Field(3e-3, gt=0, description="step size during warm-up")


class SamplingConfig(Strict):
    """How replies are drawn."""

    max_new_tokens: Some = Field(2, description="longest reply in tokens, the stop token included")
    temperature: float = Field(1.0, ge=1e-6, le=1e6, description="sampling temperature")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; 1 is off")
    top_k: Count = Field(0, description="keep the k most probable tokens; 0 is off")


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

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight; the tiny model's have 32 bits."""
        return 4 if self.name == "tiny" or self.dtype == "float32" else 2

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


PolicyName = Annotated[str, AfterValidator(check_file_name)]  # it begins names of files


class PolicyConfig(Strict):
    """One of several, as docs/policies.md tells; what it leaves out, key by key, the run says."""

    frozen: bool = Field(
        False, description="whether it plays as it began, or as its model folder has it, for ever"
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


def completed(data: Any) -> Any:
    """Return a run's configuration in which every policy says everything.

    What a policy leaves out is what the run says, or its default. A complete one stays as it is.
    Where a league has learners, each of them is a policy, whether or not it is written below
    ``policies``.

    Args:
        data: as written, before it is checked.
    """
    written = data.get("policies") if isinstance(data, Mapping) else None
    learners = _learners(data)
    if learners and (written is None or isinstance(written, Mapping)):
        written = {**dict.fromkeys(learners), **(written or {})}
    if not isinstance(written, Mapping):
        return data
    shared = {key: data[key] for key in SECTIONS if key in data}
    for section, kind in (("rollout", SamplingConfig), ("learner", UpdateConfig)):
        settings = shared.get(section)
        if isinstance(settings, Mapping):
            shared[section] = {key: settings[key] for key in settings if key in kind.model_fields}
    policies = {
        name: merge(shared, {} if policy is None else _without_ranks(policy))
        if policy is None or isinstance(policy, Mapping)
        else policy
        for name, policy in written.items()
    }
    return {**data, "policies": policies}


def _without_ranks(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a policy as written, without the one learner that files of before give to each."""
    learner = policy.get("learner")
    if not isinstance(learner, Mapping) or learner.get("ranks") != 1:
        return policy
    return {**policy, "learner": {key: learner[key] for key in learner if key != "ranks"}}


def _learners(data: Any) -> tuple[str, ...]:
    league = data.get("league") if isinstance(data, Mapping) else None
    named = league.get("learners") if isinstance(league, Mapping) else None
    return (
        tuple(name for name in named if isinstance(name, str)) if isinstance(named, Mapping) else ()
    )


def check_learners(
    policies: Mapping[str, PolicyConfig],
    learners: Collection[str],
    roles: Mapping[str, Mapping[str, str]],
) -> None:
    """Raise ValueError if the learners of a league are not the policies that are trained.

    Args:
        policies: of the run.
        learners: of its league; none: there is one, or roles say who is who.
        roles: policy of each role, by the key of the configuration that says it.
    """
    known = set(learners)
    if not known:
        return
    for key, policy_of_role in roles.items():
        if policy_of_role:
            raise ValueError(
                f"{key}: each learner of the league plays all roles; leave the roles out, or "
                "league.learners"
            )
    for name, policy in policies.items():
        if policy.frozen == (name in known):
            state = (
                "is frozen and learns nothing" if policy.frozen else "is trained and not among them"
            )
            raise ValueError(
                f"league.learners: the policy {quoted(name)} {state}; the learners are "
                f"{', '.join(learners)}"
            )


def check_policies(
    policies: Mapping[str, PolicyConfig], roles: Mapping[str, Mapping[str, str]], ranks: int
) -> None:
    """Raise ValueError if a role is given to no policy of the run, no policy is trained, or one has
    fewer leaves than there are learners.

    Args:
        policies: of the run.
        roles: policy of each role, by the key of the configuration that says it.
        ranks: learners of the run.
    """
    for policy, config in policies.items():
        if not config.frozen:
            check_leaves(config.learner, ranks, f"policies.{policy}.learner: ")
    for key, policy_of_role in roles.items():
        for role, name in policy_of_role.items():
            if name not in policies:
                known = ", ".join(policies) or "none; write them below `policies`"
                raise ValueError(
                    f"{key} gives the role {quoted(role)} to {quoted(name)}, which is no policy "
                    f"of this run; there are {known}"
                )
    if policies and all(config.frozen for config in policies.values()):
        raise ValueError(
            "every policy is frozen, so that nothing is trained; leave frozen: true out of one"
        )


def of_any(metric: str, policies: Iterable[str]) -> str:
    """Return a metric's name without the policy in front of it: ``leader/loss`` is a ``loss``.

    Args:
        metric: its name in the records.
        policies: names of the run's policies.
    """
    first, _, rest = metric.partition("/")
    return rest if rest and first in policies else metric
