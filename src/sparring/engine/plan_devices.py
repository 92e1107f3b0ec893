"""What each device of a run holds, role by role, and in words whether it fits.

Devices are the training machine's memory and GPUs, and those of a cluster's workers. All is an
estimate: what torch and vLLM keep free for themselves is left to the last tenth of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sparring.config import RunConfig
from sparring.config.gpus import CUDA, VLLM, learner_gpus, on_gpus, sampler_gpus
from sparring.engine.plan import TOLD, activations, size_in
from sparring.engine.plan_workers import shard
from sparring.environments.catalogue import configured_game
from sparring.learn.snapshots import planned, planned_copies
from sparring.models.memory import GIB, PROGRAM, Shape, available_bytes, learning_bytes

USABLE = 0.9  # share of a GPU's memory that a run can fill
ALONE = round(0.9 * GIB)  # of a replica of vLLM besides weights and cache, on a CPU (measured)
ON_GPU = 2 * GIB  # the same on a GPU: context, graphs, logits (not measured)
CACHE = 1 << 30  # bytes of keys and values, where the sampler's options do not say
LORA = 0.01  # of a model's parameters, for adapters
HERE, ELSEWHERE, CLUSTER = "this machine", "a worker's machine", "a GPU of the Ray cluster"
FEWER = (
    "train adapters (model.lora.rank=16), write model.dtype: bfloat16, or split the weights "
    "(learner.sharding: fsdp2 with learner.ranks)"
)
SMALLER = (
    "lower learner.micro_tokens, write model.gradient_checkpointing: true, or take more GPUs "
    "(learner.ranks)"
)
LESS = "lower sampler.cache_bytes, take fewer side by side, or a smaller model"
Parts = dict[str, int]


class Role(NamedTuple):
    """Somebody who has memory of a device."""

    who: str
    device: str
    parts: Parts
    advice: str  # what to change where it does not fit
    longest: int = 0  # bytes more, for the longest conversation


def devices(config: RunConfig, gpu_gb: float) -> dict[str, Any]:
    """Return by device what each role holds there, in GiB, and whether it fits.

    Nothing where all is on the CPU and vLLM has no part, or where a model's size is not known.

    Args:
        config: of the run.
        gpu_gb: memory of a GPU.
    """
    if not (_vllm(config) or on_gpus(config)):
        return {}
    own = [(name, one, size_in(one)) for name, one in config.by_policy.items()]
    if any(size is None for _, _, (size, _, _) in own):
        return {}
    roles: list[Role] = []
    for name, one, (parameters, shape, _) in own:
        assert parameters is not None, "looked at above"
        model = _Model(one, parameters, shape, frozen=config.is_frozen(name))
        of = f" ({name})" if config.policies else ""
        roles += [role._replace(who=role.who + of) for role in model.roles()]
    places = dict.fromkeys(role.device for role in roles)
    return {place: _device([r for r in roles if r.device == place], gpu_gb) for place in places}


def _vllm(config: RunConfig) -> bool:
    """Return whether vLLM draws replies."""
    return any(own.sampler.name == VLLM for own in config.by_policy.values())


def _device(roles: list[Role], gpu_gb: float) -> dict[str, Any]:
    """Return what roles hold of one device, and in words whether it has that."""
    needed, device = sum(sum(role.parts.values()) for role in roles), roles[0].device
    held = {
        role.who: {name: round(value / GIB, 2) for name, value in role.parts.items() if value}
        for role in roles
    }
    found = {**held, "memory_gib": round(needed / GIB, 1)}
    if device == ELSEWHERE:
        return found
    have = available_bytes() if device == HERE else round(USABLE * gpu_gb * GIB)
    room = f"{have / GIB:.1f} GiB" + ("" if device == HERE else f", nine tenths of {gpu_gb:g} GB")
    if needed > have:
        worst = max(roles, key=lambda role: sum(role.parts.values()))
        return {**found, "fits": f"NO, there are {room}. For {worst.who}: {worst.advice}."}
    more = max(role.longest for role in roles)
    found["fits"] = f"yes, there are {room}"
    if needed + more > have:
        found["longest_conversation"] = (
            f"NO: one as long as rules and settings allow is a forward pass by itself and takes "
            f"{more / GIB:.1f} GiB more. Lower rollout.max_new_tokens or model.context, or take "
            f"GPUs of {(needed + more) / GIB / USABLE:.0f} GB."
        )
    return found


def longest_tokens(config: RunConfig) -> int:
    """Return about the most tokens of a conversation, as a seat's last turn has it.

    Args:
        config: of a run that has one policy.
    """
    reply = config.rollout.max_new_tokens
    games = [configured_game(section) for section in config.environments]
    turns = max(-(-game.max_turns // game.num_seats) for game in games)
    kept = config.context.name == "full" and config.renderer.options.get("history") != "strip"
    found = turns * (TOLD + (reply if kept else 0)) + (0 if kept else reply)
    return min(found, config.model.context or found)


class _Model:
    """A policy's model, and who holds it.

    Args:
        config: of a run that has this policy alone.
        parameters: of the model.
        shape: of it; None: not known.
        frozen: whether it is not trained.
    """

    def __init__(
        self, config: RunConfig, parameters: int, shape: Shape | None, *, frozen: bool
    ) -> None:
        self.config, self.shape, self.frozen = config, shape, frozen
        self.parameters, self.size = parameters, config.model.weight_bytes
        self.weights = parameters * self.size
        self.trained = parameters if config.model.lora is None else round(parameters * LORA)
        self.options = config.sampler.bind("samplers").options
        self.vllm = config.sampler.name == VLLM
        self.drawn_on_gpu = self.vllm and self.options.get("device") == CUDA
        self.cache = int(self.options.get("cache_bytes", CACHE))

    def roles(self) -> Iterator[Role]:
        """Yield who holds what of it."""
        places = self._places()
        yield Role("training process", places[0], self._training(), FEWER, self._longest())
        yield from self._learners(places)
        yield from self._replicas()
        yield from self._workers(places[0])

    def _places(self) -> list[str]:
        """Return the device of each learner."""
        device, _, number = self.config.model.device.partition(":")
        if device != CUDA:
            return [HERE] * self.config.learner.ranks
        return [f"GPU {gpu}" for gpu in ([number] if number else learner_gpus(self.config))]

    def _training(self) -> Parts:
        """Return what the training process holds."""
        found = {"weights": self.weights}
        if not self.frozen:
            found["copies"] = planned_copies(self.config) * self.trained * self.size
            if not self.config.learner.shards:
                found |= self._learnt(self.trained)
                found["activations"] = activations(self.config, self.shape, self.size) or 0
        return found | ({} if self.vllm else {"keys_and_values": self.cache}) | self._program()

    def _program(self) -> Parts:
        """Return what a process takes of a machine's memory."""
        return {} if self.config.model.device.startswith(CUDA) else {"program": PROGRAM}

    def _learnt(self, count: int) -> Parts:
        """Return gradients and moments of so many parameters."""
        master = self.config.learner.master_weights
        each = learning_bytes(self.size, master=master)
        gradient = 4 if master else self.size
        return {"gradients": count * gradient, "moments": count * (each - gradient)}

    def _learners(self, places: list[str]) -> Iterator[Role]:
        """Yield the learners that are processes of their own."""
        learner = self.config.learner
        if self.frozen or learner.ranks == 1:
            return
        held, first, advice = self._training(), 1, FEWER
        held.pop("keys_and_values", None)
        split = shard(self.config)
        if learner.shards and split is not None:
            kept, advice, first = planned(self.config), SMALLER, 0
            copies = (kept["average"] + kept["reference"]) * self.weights
            held = {
                "weights": self.weights // learner.ranks,
                "copies": copies // learner.ranks,
                **self._learnt(self.parameters // learner.ranks),
                "activations_and_whole_blocks": split.whole,
                **self._program(),
            }
        for number, place in list(enumerate(places))[first:]:
            yield Role(f"learner {number}", place, held, advice, self._longest(further=True))

    def _longest(self, *, further: bool = False) -> int:
        """Return the bytes that the longest conversation takes more than a usual pass."""
        learner = self.config.learner
        longest = longest_tokens(self.config)
        learns = not self.frozen and (further or not learner.shards)
        if not learns or longest <= learner.micro_tokens:
            return 0
        alone = learner.model_copy(update={"micro_tokens": longest})
        wide = self.config.model_copy(update={"learner": alone})
        both = [activations(one, self.shape, self.size) or 0 for one in (wide, self.config)]
        return both[0] - both[1]

    def _replica(self) -> Parts:
        """Return what a replica of vLLM holds."""
        weights = self.weights if self.drawn_on_gpu else 2 * self.weights  # and packed
        program = ON_GPU if self.drawn_on_gpu else ALONE
        return {"weights": weights, "keys_and_values": self.cache, "program": program}

    def _replicas(self) -> Iterator[Role]:
        """Yield the replicas of the training process."""
        if not self.vllm:
            return
        gpus = sampler_gpus(self.config) or ()
        for number in range(int(self.options.get("replicas", 1))):
            place = f"GPU {gpus[number % len(gpus)]}" if gpus else HERE
            yield Role(f"replica {number} of vLLM", place, self._replica(), LESS)

    def _workers(self, beside: str) -> Iterator[Role]:
        """Yield the workers; one stands for all that are alike.

        Args:
            beside: device of the training process, where workers are that have no GPU.
        """
        scale = self.config.scale
        model: Parts = {"weights": self.weights}
        if not self.vllm:
            model["keys_and_values"] = self.cache
        given, drawn = scale.gpus or scale.gpus_per_worker, self.drawn_on_gpu
        host = ELSEWHERE if scale.fleet == "ray" else HERE
        alone = not drawn and not self.config.model.device.startswith(CUDA)
        for place, count in _shares(self.config, beside if given or not alone else host).items():
            parts = self._replica() if drawn and given else model
            if not given and self.vllm:
                parts = {**model, **{f"vllm_{k}": v for k, v in self._replica().items()}}
            if place in (HERE, ELSEWHERE):
                parts = {**parts, "program": parts.get("program", 0) + PROGRAM}
            who = "a worker" if count == 1 else f"{count} workers"
            yield Role(who, place, {name: count * one for name, one in parts.items()}, LESS)
        if drawn and given:
            count = scale.count if host == HERE else 1
            who = "models of a worker" if count == 1 else f"models of {count} workers"
            parts = {"weights": count * self.weights, "program": count * PROGRAM}
            yield Role(who, host, parts, LESS)


def _shares(config: RunConfig, place: str) -> dict[str, int]:
    """Return how many workers each device has.

    Args:
        config: of the run.
        place: of workers that have no GPU of their own.
    """
    scale, found = config.scale, dict[str, int]()
    if not scale.workers or scale.fleet == "simulated":
        return found
    if scale.gpus_per_worker:
        return {CLUSTER: max(int(1 / scale.gpus_per_worker), 1)}
    if not scale.gpus:
        return {place: 1 if place == ELSEWHERE else scale.count}
    for worker in range(scale.count):
        name = f"GPU {scale.gpus[worker % len(scale.gpus)]}"
        found[name] = found.get(name, 0) + 1
    return found
