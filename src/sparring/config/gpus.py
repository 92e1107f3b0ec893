"""Who takes which GPUs of this machine: learners, workers and replicas of vLLM.

A GPU that two of them are given is refused, unless ``scale.share_gpus`` says that it is meant: they
would fill its memory in turns, and the run would end when it is full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sparring.errors import ConfigError

if TYPE_CHECKING:
    from sparring.config.run import RunConfig

CUDA, VLLM = "cuda", "vllm"


class Taken(NamedTuple):
    """GPUs of this machine that somebody takes."""

    who: str
    gpus: tuple[int, ...]
    key: str  # of the configuration that says so, or could


def on_gpus(config: RunConfig) -> bool:
    """Return whether a model of a run is on a GPU because the configuration says so."""
    return any(own.model.device.startswith(CUDA) for own in config.by_policy.values())


def learner_gpus(config: RunConfig) -> tuple[int, ...]:
    """Return the GPU that each learner takes, if the models are on GPUs."""
    return config.learner.gpus or tuple(range(config.learner.ranks))


def training_device(config: RunConfig) -> str:
    """Return the device of a policy's model in the training process, as ``model.device`` has it.

    Args:
        config: of a run that has this policy alone.
    """
    device, gpus = config.model.device, config.learner.gpus
    return f"{CUDA}:{gpus[0]}" if device == CUDA and gpus else device


def check_gpus(config: RunConfig) -> None:
    """Refuse GPUs that nobody uses, models that are on none of them, and one that is given twice.

    Raises:
        ConfigError: it is so; the message says what to write.
    """
    _check_learners(config)
    _check_workers(config)
    if config.scale.share_gpus:
        return
    taken = list(_taken(config))
    for number, one in enumerate(taken):
        for other in taken[:number]:
            both = sorted({*one.gpus} & {*other.gpus})
            if both:
                raise ConfigError(
                    f"GPU {both[0]} is given twice, to {other.who} ({other.key}) and to {one.who} "
                    f"({one.key}); give each their own, such as {one.key}={_others(one, taken)}, "
                    "or write scale.share_gpus: true, if all of it fits."
                )


def _check_learners(config: RunConfig) -> None:
    """Refuse GPUs of learners whose models are on no GPU, or on one by its number."""
    gpus, ranks = config.learner.gpus, config.learner.ranks
    for name, own in config.by_policy.items():
        device = own.model.device
        key = f"policies.{name}.model.device" if config.policies else "model.device"
        if gpus and not device.startswith(CUDA):
            raise ConfigError(
                f"learner.gpus={list(gpus)} and {key}={device}; write {key}: cuda (tiny models run "
                "on the CPU), or leave learner.gpus out."
            )
        if device.startswith(f"{CUDA}:") and (gpus or ranks > 1):
            number = device.partition(":")[2]
            begin = int(number) if number.isdecimal() else 0
            raise ConfigError(
                f"{key}={device} is one GPU, and learner.ranks={ranks} take one each, as "
                f"learner.gpus says; write {key}: cuda and learner.gpus: "
                f"{list(gpus) or list(range(begin, begin + ranks))}."
            )


def _check_workers(config: RunConfig) -> None:
    """Refuse GPUs of workers who have nothing on one, and workers whose models have none."""
    scale, vllm = config.scale, sampler_gpus(config)
    uses = on_gpus(config) or vllm is not None
    if (scale.gpus or scale.gpus_per_worker) and not uses:
        key = "gpus_per_worker" if scale.gpus_per_worker else "gpus"
        raise ConfigError(
            f"scale.{key} gives workers GPUs, and nothing of theirs is on one "
            f"(model.device={config.model.device}); write model.device: cuda (tiny models run on "
            f"the CPU), or leave scale.{key} out."
        )
    if scale.fleet == "ray" and uses and scale.gpus_per_worker is None:
        what = "sampler.device" if vllm is not None else "model.device"
        own = "" if scale.address else " and scale.gpus: [1, 2] (numbers of GPUs)"
        raise ConfigError(
            f"{what}=cuda, and Ray gives its workers no GPU; write scale.gpus_per_worker: 1 (or a "
            f"share such as 0.5){own}, or leave {what} at cpu."
        )


def sampler_gpus(config: RunConfig) -> tuple[int, ...] | None:
    """Return the GPUs that replicas of vLLM take in the training process; None: they take none."""
    found: list[int] = []
    there = False
    for own in config.by_policy.values():
        if own.sampler.name != VLLM:
            continue
        options: Mapping[str, Any] = own.sampler.bind("samplers").options
        if options.get("device") == CUDA:
            there = True
            found += options.get("gpus") or [0]  # without numbers each takes the first there is
    return tuple(dict.fromkeys(found)) if there else None


def _taken(config: RunConfig) -> Iterator[Taken]:
    """Yield who takes GPUs of this machine."""
    scale = config.scale
    if on_gpus(config):
        yield Taken("learners", _models(config), "learner.gpus")
    vllm = sampler_gpus(config)
    if vllm is not None:
        yield Taken("replicas of vLLM", vllm, "sampler.gpus")
    if scale.gpus:
        yield Taken("workers", scale.gpus, "scale.gpus")
    elif scale.fleet == "processes" and (on_gpus(config) or vllm is not None):
        # each sees all GPUs, and its models are where those of the training process are
        own = _models(config) if on_gpus(config) else ()
        yield Taken("workers", (*own, *(vllm or ())), "scale.gpus")


def _models(config: RunConfig) -> tuple[int, ...]:
    """Return the GPUs of models of the training process and of the learners."""
    found: set[int] = set()
    for own in config.by_policy.values():
        device, _, number = own.model.device.partition(":")
        if device == CUDA:
            found |= {int(number)} if number.isdecimal() else {*learner_gpus(config)}
    return tuple(sorted(found))


def _others(one: Taken, taken: list[Taken]) -> str:
    """Return as many numbers of GPUs as somebody takes, which nobody else does."""
    held = {gpu for own in taken if own is not one for gpu in own.gpus}
    free = (gpu for gpu in range(len(held) + len(one.gpus)) if gpu not in held)
    return str([gpu for _, gpu in zip(one.gpus, free, strict=False)]).replace(" ", "")
