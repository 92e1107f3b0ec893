"""The plan of a run, made before it starts: its methods, sizes, and memory."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from sparring.config import RunConfig
from sparring.config.checks import CUDA, VLLM
from sparring.config.plugins.registry import BoundPlugin, required_services
from sparring.core.errors import ConfigError
from sparring.core.records import MAIN
from sparring.environments.catalogue import configured_game
from sparring.learn.weight_files import planned_copies, planned_snapshots
from sparring.models.memory import (
    GIB,
    PROGRAM_BYTES,
    ModelShape,
    activation_bytes,
    available_bytes,
    find_device,
    learning_bytes,
    training_bytes,
)
from sparring.models.render.plain import SPECIAL, vocabulary

TINY = "tiny"  # name of the model that is built here
TINY_CONTEXT = 128  # default context of the tiny model, in tokens
PROMPT_TOKENS = 64  # assumed length of a prompt in tokens, for the estimate of memory
GPU_WEIGHTS = 2 * GIB  # bytes of weights from which on a model needs a GPU
GPU_SIZES = (24, 48, 80, 141)  # memory of common GPUs, in GB
TRAINING, LEARNER, WORKER = "training process", "learner", "worker"
REPLICA = "replica of vLLM"
CACHE, ACTIVATIONS = "keys_and_values_kept", "activations_and_logits"
VLLM_ON_CPU = round(0.9 * GIB)  # bytes of a replica besides weights and cache (measured)
VLLM_ON_GPU = 2 * GIB  # the same on a GPU: context, graphs, logits (not measured)
LORA_SHARE = 0.01  # parameters of adapters (rank 16, all linear layers) / parameters of the model


def describe(config: RunConfig) -> dict[str, Any]:
    """Return the plan of a run: environments, methods, sizes, and memory."""
    steps, rollout = config.steps, config.rollout
    return {
        "recipe": config.name,
        "summary": config.summary,
        "games": [game.display_name for game in config.environments if game.weight],
        "held_out": [game.display_name for game in config.environments if not game.weight],
        "steps": steps,
        "games_in_all": steps * rollout.games_per_step,
        "updates": steps * config.learner.epochs * config.learner.minibatches,
        "groups": (
            f"{rollout.games_per_step // rollout.group_size} starts of {rollout.group_size} games "
            "per step"
        ),
        "plan": rollout.plan.name,
        "sampled_tokens_per_step_at_most": sampled_tokens(config),
        **_methods(config),
        "rewards": [reward.name for reward in config.rewards],
        "matchmaker": config.matchmaker.name,
        "checkpoints": steps // config.checkpoint.every + (steps % config.checkpoint.every > 0),
        "evaluations": sum(config.evaluation.is_due(step, steps) for step in range(1, steps + 1)),
        "players": _players(config),
        "learners": _learners(config),
        "model": _models(config),
        **_memory(config),
        "time": "unknown before a run; to learn it, write: sparring train RECIPE steps=3",
    }


def _methods(config: RunConfig) -> dict[str, Any]:
    if config.policies:
        return {"policies": {name: _methods(section) for name, section in config.by_policy.items()}}
    return {
        "renderer": {"name": config.renderer.name, **_settings(config.renderer.bind("render"))},
        "context": config.context.name,
        "credit": config.credit.name,
        **_process(config),
        "losses": [loss.name for loss in config.losses],
    }


def _process(config: RunConfig) -> dict[str, int]:
    if "process" not in required_services(config.credit.bind("credit")):
        return {}
    return {"updates_of_process_model": config.steps * config.process.updates}


def _settings(bound: BoundPlugin) -> dict[str, Any]:
    parameters = inspect.signature(bound.plugin.function).parameters.values()
    return {
        **{
            p.name: p.default
            for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
        },
        **bound.options,
    }


def sampled_tokens(config: RunConfig) -> int:
    """Return an upper bound on the sampled tokens per step."""
    games = [configured_game(section) for section in config.environments]
    total_weight = sum(section.weight for section in config.environments)
    shares = [section.weight / total_weight for section in config.environments]
    turns = sum(share * game.max_turns for share, game in zip(shares, games, strict=True))
    replies = config.rollout.games_per_step * config.rollout.candidates.count
    return round(replies * turns * config.rollout.max_new_tokens)


def _players(config: RunConfig) -> dict[str, Any]:
    scale, rollout = config.scale, config.rollout
    if not scale.workers:
        return {"fleet": "the training process", "lag": scale.lag}
    groups = -(-scale.unit_games // rollout.group_size)  # groups per unit; no group is split
    episodes = min(groups * rollout.group_size, rollout.games_per_step)
    return {
        "fleet": scale.fleet,
        "workers": scale.count,
        "units_per_step": -(-rollout.games_per_step // episodes),
        "plays_per_unit": episodes,
        "lag": scale.lag,
    }


def _learners(config: RunConfig) -> dict[str, Any]:
    learner = config.learner
    sharding = {} if learner.sharding == "none" else {"sharding": learner.sharding}
    return {"ranks": learner.ranks, "leaves": learner.leaves, **sharding}


# -- models ----------------------------------------------------------------------------------------


def _models(config: RunConfig) -> dict[str, Any]:
    models = {name: _model(section) for name, section in config.by_policy.items()}
    for name, model in models.items():
        if config.is_frozen(name):
            model["frozen"] = True
    if not config.policies:
        return models[MAIN]
    sizes = [model["parameters"] for model in models.values() if "parameters" in model]
    total = {"parameters": sum(sizes)} if len(sizes) == len(models) else {}
    return {"policies": models, **total}


def _model(config: RunConfig) -> dict[str, Any]:
    model = config.model
    parameters, _, source = size_in(config)
    size = {} if parameters is None else {"parameters": parameters}
    if model.name == TINY:
        return {"name": TINY, "hidden_size": model.hidden_size, "layers": model.layers, **size}
    return {
        "name": model.name,
        "dtype": model.dtype,
        "adapters": model.lora is not None,
        **size,
        "parameters_from": source,
    }


def size_in(config: RunConfig) -> tuple[int | None, ModelShape | None, str]:
    """Return a model's parameters and shape, None where unknown, and their source."""
    if config.model.name == TINY:
        return *tiny_size(config), "the configuration"
    from sparring.models.pretrained import known_size

    return known_size(config.model.name)


def tiny_size(config: RunConfig) -> tuple[int, ModelShape]:
    """Return the number of parameters and the shape of the tiny model, without building it."""
    model = config.model
    width, words = model.hidden_size, len(vocabulary(config) | set(SPECIAL))
    shape = ModelShape(
        layers=model.layers, hidden=width, inner=4 * width, attention=3 * width, vocabulary=words
    )
    return tiny_parameters(config, words), shape


def tiny_parameters(config: RunConfig, vocabulary: int) -> int:
    """Return the number of parameters of the tiny model with this vocabulary size."""
    model, width = config.model, config.model.hidden_size
    block = 12 * width * width + 13 * width
    return (vocabulary + (model.context or TINY_CONTEXT) + 2) * width + model.layers * block


def _tiny_cache_bytes(config: RunConfig, shape: ModelShape) -> int:
    games = [configured_game(section) for section in config.environments]
    seats = max(game.num_seats for game in games)
    return (
        config.rollout.games_per_step
        * seats
        * (config.model.context or TINY_CONTEXT)
        * shape.layers
        * 2
        * shape.hidden
        * 4
    )


def activations(config: RunConfig, shape: ModelShape | None, size: int) -> int | None:
    """Return the approximate bytes of a forward and backward pass; None for an unknown shape.

    Every reply is assumed to have the maximum length, after ``PROMPT_TOKENS`` tokens of prompt.
    """
    if shape is None:
        return None
    tokens, reply = config.learner.micro_tokens, config.rollout.max_new_tokens
    reply_tokens = round(tokens * reply / (reply + PROMPT_TOKENS))
    return activation_bytes(
        shape,
        tokens=tokens,
        sampled=reply_tokens,
        size=size,
        checkpointing=config.model.gradient_checkpointing,
    )


def memory_to_train(config: RunConfig, parameters: int) -> int:
    """Return the bytes to train a model of this size, without weights and activations."""
    model, copies = config.model, planned_copies(config)
    if model.lora is not None:
        return training_bytes(trained=round(parameters * LORA_SHARE), copies=copies)
    size, learner = model.weight_bytes, config.learner  # shards are in other processes
    bytes_each = 0 if learner.shards else learning_bytes(size, master=learner.master_weights)
    return training_bytes(trained=parameters, copies=copies, size=size, learning=bytes_each)


# -- memory ----------------------------------------------------------------------------------------


class ProcessMemory(NamedTuple):
    """The memory of equal processes of a run.

    Args:
        processes: number of these processes.
        parts: bytes by purpose.
    """

    processes: int
    parts: dict[str, int]

    @property
    def bytes_each(self) -> int:
        """Bytes of one process."""
        return sum(self.parts.values())


def process_memory(config: RunConfig) -> dict[str, ProcessMemory]:
    """Return the memory of a run's processes, by kind; empty if a model's size is not known."""
    sizes = {name: size_in(section) for name, section in config.by_policy.items()}
    if any(parameters is None for parameters, _, _ in sizes.values()):
        return {}
    training = _training_parts(config)
    memory = {TRAINING: ProcessMemory(1, training)}
    learner = config.learner
    if learner.shards:
        memory[LEARNER] = ProcessMemory(learner.ranks, _shard_parts(config))
    elif learner.ranks > 1:
        without_cache = {name: size for name, size in training.items() if name != CACHE}
        memory[LEARNER] = ProcessMemory(learner.ranks - 1, without_cache)
    replicas = {
        REPLICA if not config.policies else f"{REPLICA} ({name})": _replica_memory(section)
        for name, section in config.by_policy.items()
        if section.sampler.name == VLLM
    }
    if config.scale.workers:
        bytes_by_purpose = {name: training[name] for name in ("weights", CACHE, "program")}
        gpus, share = config.scale.gpus, config.scale.gpus_per_worker
        for replica in replicas.values():  # each worker has a replica for each of its GPUs
            num_replicas = max(int(share or 1), 1) if gpus or share else replica.processes
            replica_bytes = num_replicas * replica.bytes_each
            bytes_by_purpose[REPLICA] = bytes_by_purpose.get(REPLICA, 0) + replica_bytes
        memory[WORKER] = ProcessMemory(config.scale.count, bytes_by_purpose)
    return {**memory, **replicas}


def _training_parts(config: RunConfig) -> dict[str, int]:
    """Return the bytes of the training process, by purpose.

    A pretrained model that policies share counts once. Policies are updated one after the other, so
    only the largest activations count.
    """
    total, counted_bases = dict[str, int](), set[tuple[str, str, str]]()
    for name, section in config.by_policy.items():
        model, frozen = section.model, config.is_frozen(name)
        base = (model.name, model.dtype, model.device)
        shares_base = model.name != TINY and (model.lora is not None or frozen)
        for purpose, size in _policy_parts(section, frozen).items():
            if purpose in ("program", ACTIVATIONS):
                total[purpose] = max(total.get(purpose, 0), size)
            elif purpose != "weights" or not shares_base or base not in counted_bases:
                total[purpose] = total.get(purpose, 0) + size
        counted_bases |= {base} if shares_base else set()
    return total


def _policy_parts(config: RunConfig, frozen: bool) -> dict[str, int]:
    """Return the bytes of a policy in the training process, without unknown activations."""
    parameters, shape, _ = size_in(config)
    assert parameters is not None, "checked by the caller"
    weight_bytes = config.model.weight_bytes
    cache_bytes = 0
    if config.sampler.name != VLLM:
        cache_bytes = _settings(config.sampler.bind("samplers")).get("cache_bytes", 0)
    if config.model.name == TINY and shape is not None:
        # a few short conversations need a smaller cache
        cache_bytes = min(cache_bytes, _tiny_cache_bytes(config, shape))
    # learners with split weights are other processes
    is_learner = not frozen and not config.learner.shards
    activation_memory = activations(config, shape, weight_bytes) if is_learner else 0
    sizes = {
        "weights": parameters * weight_bytes,
        "training": 0 if frozen else memory_to_train(config, parameters),
        CACHE: cache_bytes,
        "program": PROGRAM_BYTES,
    }
    return sizes if activation_memory is None else {**sizes, ACTIVATIONS: activation_memory}


def _shard_parts(config: RunConfig) -> dict[str, int]:
    split_bytes = whole_bytes = 0
    for name, section in config.by_policy.items():
        if not config.is_frozen(name):
            part_bytes, temporary_bytes = _shard_bytes(section)
            split_bytes += part_bytes
            whole_bytes = max(whole_bytes, temporary_bytes)
    return {"split": split_bytes, "whole_for_a_time": whole_bytes, "program": PROGRAM_BYTES}


def _shard_bytes(config: RunConfig) -> tuple[int, int]:
    """Return a policy's bytes at a learner with split weights: (permanent, temporary).

    The learner's part of weights, gradients, moments and copies is permanent. Gathered weights,
    their gradients, and activations are temporary.
    """
    parameters, shape, _ = size_in(config)
    assert parameters is not None, "checked by the caller"
    weight_bytes, copies = config.model.weight_bytes, planned_snapshots(config)
    bytes_each_parameter = weight_bytes * (1 + copies["average"] + copies["reference"])
    bytes_each_parameter += learning_bytes(weight_bytes, master=config.learner.master_weights)
    part_bytes = -(-parameters * bytes_each_parameter // config.learner.ranks)
    num_gathered = parameters
    if shape is not None:  # two blocks are gathered at a time, and the weights outside of blocks
        embeddings = shape.vocabulary * shape.hidden
        num_gathered = min(parameters, embeddings + 2 * (parameters - embeddings) // shape.layers)
    each_pass = config.learner.gradient_sync == "pass"  # otherwise a leaf may take several passes
    num_gradients = num_gathered if each_pass else parameters
    activation_memory = activations(config, shape, weight_bytes) or 0
    pass_bytes = (num_gathered + num_gradients) * weight_bytes + activation_memory
    return part_bytes, max(pass_bytes, parameters * weight_bytes - part_bytes)


def _replica_memory(config: RunConfig) -> ProcessMemory:
    parameters, _, _ = size_in(config)
    assert parameters is not None, "checked by the caller"
    settings = _settings(config.sampler.bind("samplers"))
    is_on_gpu, weights = settings["device"] == CUDA, parameters * config.model.weight_bytes
    bytes_by_purpose = {
        "weights": weights if is_on_gpu else 2 * weights,  # on a CPU vLLM also has a packed copy
        CACHE: int(settings["cache_bytes"]),
        "program": VLLM_ON_GPU if is_on_gpu else VLLM_ON_CPU,
    }
    return ProcessMemory(int(settings["replicas"]), bytes_by_purpose)


def _memory(config: RunConfig) -> dict[str, Any]:
    memory = process_memory(config)
    if not memory:
        return {"needs": "unknown: a model is not on this machine"}
    total = sum(process.processes * process.bytes_each for process in memory.values())
    return {
        "memory_gib": round(total / GIB, 1),
        "memory_gib_by_process": {
            name if process.processes == 1 else f"{name}, each of {process.processes}": round(
                process.bytes_each / GIB, 2
            )
            for name, process in memory.items()
        },
        "needs": _needs(config, memory),
    }


def _needs(config: RunConfig, memory: Mapping[str, ProcessMemory]) -> str:
    training = memory[TRAINING]
    shard_bytes = memory[LEARNER].bytes_each if config.learner.shards else 0
    first_gpu_bytes = training.bytes_each + shard_bytes
    advice = _gpu_advice(first_gpu_bytes, training.parts["weights"])
    has_activations = ACTIVATIONS in training.parts
    omission = ", without activations as the model's shape is not known here"
    omission = "" if has_activations else omission
    estimate = f"(an estimate{omission})"
    try:
        device = find_device(config.model.device if config.model.name != TINY else "cpu")
    except ConfigError:  # the run is for another machine
        return f"about {first_gpu_bytes / GIB:.1f} GiB on the first GPU {estimate}. {advice}"
    machine_text, needed, available = "GPU", first_gpu_bytes, available_bytes(device)
    if device.type != CUDA:
        remote_names = {WORKER} if config.scale.address is not None else set[str]()
        local_memory = [process for name, process in memory.items() if name not in remote_names]
        machine_text = "machine"
        needed = sum(process.processes * process.bytes_each for process in local_memory)
    verdict = (
        f"fits into this {machine_text}'s"
        if needed < available
        else f"needs a larger {machine_text} or adapters (model.lora.rank=16); this one has"
    )
    return f"about {needed / GIB:.1f} GiB {estimate}: {verdict} {available / GIB:.1f} GiB. {advice}"


def _gpu_advice(needed: int, weights: int) -> str:
    if weights < GPU_WEIGHTS:
        return "No GPU is needed."
    gigabytes = next((gigabytes for gigabytes in GPU_SIZES if needed < 0.9 * gigabytes * GIB), None)
    large_gpus = (
        f"one of {gigabytes} GB"
        if gigabytes is not None
        else (
            f"several, {needed / GIB:.0f} GiB in all (learner.sharding: fsdp2 with "
            "learner.ranks); or train adapters (model.lora.rank=16)"
        )
    )
    return f"A GPU is needed to finish in reasonable time: {large_gpus}."
