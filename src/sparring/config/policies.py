"""Several policies in one run: what each of them is, and which roles it plays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from sparring.config.learning import LossConfig, ProcessConfig, UpdateConfig, check_leaves
from sparring.config.parts import Few, PluginConfig, Some, Strict, Width, merge
from sparring.config.play import SamplingConfig
from sparring.core.errors import quoted
from sparring.core.foreign_text import check_file_name


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
    given = data.get("policies") if isinstance(data, Mapping) else None
    learners = _learners(data)
    if learners and (given is None or isinstance(given, Mapping)):
        given = {**dict.fromkeys(learners), **(given or {})}
    if not isinstance(given, Mapping):
        return data
    shared = {key: data[key] for key in SECTIONS if key in data}
    for section, kind in (("rollout", SamplingConfig), ("learner", UpdateConfig)):
        said = shared.get(section)
        if isinstance(said, Mapping):
            shared[section] = {key: said[key] for key in said if key in kind.model_fields}
    policies = {
        name: merge(shared, {} if own is None else _without_ranks(own))
        if own is None or isinstance(own, Mapping)
        else own
        for name, own in given.items()
    }
    return {**data, "policies": policies}


def _without_ranks(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a policy as written, without the one learner that files of before give to each."""
    learner = own.get("learner")
    if not isinstance(learner, Mapping) or learner.get("ranks") != 1:
        return own
    return {**own, "learner": {key: learner[key] for key in learner if key != "ranks"}}


def _learners(data: Any) -> tuple[str, ...]:
    league = data.get("league") if isinstance(data, Mapping) else None
    found = league.get("learners") if isinstance(league, Mapping) else None
    return (
        tuple(name for name in found if isinstance(name, str)) if isinstance(found, Mapping) else ()
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
    for key, given in roles.items():
        if given:
            raise ValueError(
                f"{key}: each learner of the league plays all roles; leave the roles out, or "
                "league.learners"
            )
    for name, own in policies.items():
        if own.frozen == (name in known):
            said = "is frozen and learns nothing" if own.frozen else "is trained and not among them"
            raise ValueError(
                f"league.learners: the policy {quoted(name)} {said}; the learners are "
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
    for policy, own in policies.items():
        if not own.frozen:
            check_leaves(own.learner, ranks, f"policies.{policy}.learner: ")
    for key, given in roles.items():
        for role, name in given.items():
            if name not in policies:
                known = ", ".join(policies) or "none; write them below `policies`"
                raise ValueError(
                    f"{key} gives the role {quoted(role)} to {quoted(name)}, which is no policy "
                    f"of this run; there are {known}"
                )
    if policies and all(own.frozen for own in policies.values()):
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
