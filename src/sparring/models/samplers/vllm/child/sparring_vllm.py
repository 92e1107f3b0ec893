"""vLLM as a replica's engine; see ``sparring_child``. Written for vLLM 0.32.

One process: the engine's core runs in this one, so that a kill ends all of it. torch.distributed
finds its one member through a file, and listens on the loopback interface alone.

Weights come by vLLM's own weight transfer, with an engine that reads a file. On a CPU vLLM packs
the weights of linear layers once and drops what it packed; its own way to load others leaves them
as they were, without an error. So the weights are kept here, and packed again after each update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import vllm.model_executor.layers.utils as layers
from safetensors.torch import load_file
from vllm import EngineArgs, LLMEngine, SamplingParams
from vllm.config.weight_transfer import WeightTransferConfig
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.utils import process_weights_after_loading
from vllm.outputs import RequestOutput
from vllm.platforms import current_platform
from vllm.version import __version__

BACKEND = "sparring_file"
AT_ONCE = 8192  # tokens of prompts that are computed in one step, or one prompt that is longer
MOST_LOGPROBS = 1024  # of one position, where truncation keeps some tokens
pack = layers.dispatch_cpu_unquantized_gemm


def pack_and_keep(layer: Any, remove_weight: bool) -> None:
    """Pack a layer's weights for a CPU, and keep them, so that others can be loaded into them."""
    pack(layer, remove_weight=False)


layers.dispatch_cpu_unquantized_gemm = pack_and_keep


@dataclass
class Begin(WeightTransferInitInfo):
    """What the transfer is made with: nothing."""


@dataclass
class Update(WeightTransferUpdateInfo):
    """A file of safetensors, whose names are those of the network in transformers."""

    path: str


class FileTransfer(WeightTransferEngine[Begin, Update]):
    """Reads weights from a file; see ``WeightTransferEngine``."""

    init_info_cls = Begin
    update_info_cls = Update

    def init_transfer_engine(self, init_info: Begin) -> None:
        """Do nothing: each update names its file."""

    def start_weight_update(self) -> None:
        """Let vLLM take weights in the form of a checkpoint, where it can."""
        if not current_platform.is_cpu():  # not run on a GPU
            from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

            initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load a file of weights."""
        if not current_platform.is_cpu():
            super().update_weights(update_info)
            return
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: Update) -> None:
        """Load a file of weights.

        Raises:
            ValueError: a weight has no place in the model.
        """
        tensors = load_file(update_info.path)
        taken = self.model.load_weights(iter(tensors.items()))
        if taken is not None and tensors and not taken:
            raise ValueError(f"vLLM took none of the weights, such as {next(iter(tensors))}")

    def finish_weight_update(self) -> None:
        """Pack the weights for the processor."""
        if current_platform.is_cpu():
            with torch.no_grad():
                process_weights_after_loading(self.model, self.model_config, self.device)
            return
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Do nothing: nothing is held."""


WeightTransferEngineFactory.register_engine(BACKEND, FileTransfer)


class Engine:
    """vLLM, asked for replies and scores one step after another.

    Args:
        settings: as ``samplers.vllm.replica`` sends them.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        device = current_platform.device_type
        if device != settings["device"]:
            raise ValueError(
                f"this vLLM is for {device}, and sampler.device={settings['device']}; "
                f"write sampler.device: {device}"
            )
        self._engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=settings["model"],
                skip_tokenizer_init=True,
                generation_config="vllm",
                load_format="dummy",  # weights come before anything is asked
                dtype=settings["dtype"],
                max_model_len=settings["context"],
                max_num_seqs=settings["max_seqs"],
                # whole prompts in one step: on a CPU one that is cut and has a seed ends vLLM
                # ("CPU Generator does not use offset"), and elsewhere the cut would move its draws
                enable_chunked_prefill=False,
                max_num_batched_tokens=max(settings["context"], AT_ONCE),
                kv_cache_memory_bytes=settings["cache_bytes"],
                # of what is drawn from: after temperature, and -inf where truncation drops a token
                logprobs_mode="processed_logprobs",
                max_logprobs=MOST_LOGPROBS,
                enable_prefix_caching=settings["prefix_cache"],
                enforce_eager=device == "cpu",
                weight_transfer_config=WeightTransferConfig(backend=BACKEND),
                seed=0,
                disable_log_stats=True,
                async_scheduling=False,
            )
        )
        self.about = {"engine": "vllm", "version": __version__, "device": device}
        self._salt, self._context = "", settings["context"]
        self._open: dict[str, int] = {}  # requests of vLLM that are not done -> whose
        self.tokens: dict[int, int] = {}  # of each reply that is begun, how many it has
        self._wanted: dict[int, _Score] = {}  # that are scored token by token

    @property
    def busy(self) -> bool:
        """Whether it has requests."""
        return bool(self._open)

    def load(self, path: str, salt: str) -> None:
        """Draw with the weights of a file from now on.

        Replies that are under way go on: vLLM computes all that was said so far anew.

        Args:
            path: of the file.
            salt: of keys and values that they compute; those of other weights are never found.
        """
        call = self._engine.collective_rpc
        call("start_weight_update")
        call("update_weights", kwargs={"update_info": {"path": path}})
        call("finish_weight_update")
        self._engine.reset_prefix_cache(reset_running_requests=bool(self._open))
        self._salt = salt

    def ask(self, number: int, ids: list[int], seed: int, way: dict[str, Any]) -> None:
        """Begin a reply."""
        params = SamplingParams(
            max_tokens=way["max_new_tokens"],
            **_distribution(way),
            seed=seed,
            logprobs=way.get("listed", 0),
            ignore_eos=True,
            stop_token_ids=way["stop_ids"],
            detokenize=False,
        )
        self._add(str(number), number, ids, params)

    def score(self, number: int, ids: list[int], begin: int, way: dict[str, Any]) -> None:
        """Begin to score ids[begin:].

        The log-probabilities of a prompt that vLLM gives know no temperature and no truncation, and
        want room for a reply. Where there is one, or no room, each token is scored as the first of
        a reply to those before it.
        """
        self._wanted[number] = _Score(ids, begin, {})
        if _distribution(way) == WHOLE and len(ids) < self._context:
            params = SamplingParams(
                max_tokens=1,
                temperature=0.0,  # what is drawn after them is not looked at
                prompt_logprobs=0,
                ignore_eos=True,
                detokenize=False,
            )
            self._add(str(number), number, ids, params)
            return
        for place in range(begin, len(ids)):
            params = SamplingParams(
                max_tokens=1,
                **_distribution(way),
                seed=0,
                logprob_token_ids=[ids[place]],
                ignore_eos=True,
                detokenize=False,
            )
            self._add(f"{number}-{place}", number, ids[:place], params)

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget requests."""
        gone = [name for name, number in self._open.items() if number in set(numbers)]
        if gone:
            self._engine.abort_request(gone)
        for name in gone:
            number = self._open.pop(name)
            self._wanted.pop(number, None)
            self.tokens.pop(number, None)

    def step(self) -> list[list[Any]]:
        """Go on; return [number, ids, logprobs, truncated, kept] of what is done."""
        done: list[list[Any]] = []
        for output in self._engine.step():
            number = self._open.get(output.request_id)
            if number is None:
                continue
            if not output.finished:
                self.tokens[number] = len(output.outputs[0].token_ids)
                continue
            del self._open[output.request_id]
            self.tokens.pop(number, None)
            found = self._scored(number, output) if number in self._wanted else _reply(output)
            if found is not None:
                done.append([number, *found])
        return done

    def _add(self, name: str, number: int, ids: list[int], params: SamplingParams) -> None:
        prompt = {"prompt_token_ids": ids, "cache_salt": self._salt}
        self._engine.add_request(name, prompt, params)
        self._open[name] = number

    def _scored(self, number: int, output: RequestOutput) -> list[Any] | None:
        one = self._wanted[number]
        if output.prompt_logprobs is not None:
            given = output.prompt_logprobs
            one.found |= {t: given[t][one.ids[t]].logprob for t in range(one.begin, len(one.ids))}
        else:
            place = int(output.request_id.partition("-")[2])
            one.found[place] = output.outputs[0].logprobs[0][one.ids[place]].logprob
        if len(one.found) < len(one.ids) - one.begin:
            return None
        del self._wanted[number]
        return [[], [one.found[t] for t in range(one.begin, len(one.ids))], False]


@dataclass
class _Score:
    """Ids that are scored, where scoring begins, and what has come."""

    ids: list[int]
    begin: int
    found: dict[int, float]


WHOLE = {"temperature": 1.0, "top_p": 1.0, "top_k": 0}


def _distribution(way: dict[str, Any]) -> dict[str, Any]:
    return {name: way.get(name, value) for name, value in WHOLE.items()}


def _reply(output: RequestOutput) -> list[Any]:
    """Return ids, log-probabilities, whether the limit came before a stop id, and kept sets. A kept
    set has the listed tokens that are not dropped: more are listed than truncation keeps."""
    (one,) = output.outputs
    ids = list(one.token_ids)
    given = one.logprobs or []
    logprobs = [each[token].logprob for token, each in zip(ids, given, strict=True)]
    if not all(map(math.isfinite, logprobs)):
        logprobs = [math.nan] * len(ids)
    listed = given if given and len(given[0]) > 1 else []
    kept = [[one for one, own in each.items() if own.logprob > -math.inf] for each in listed]
    return [ids, logprobs, one.finish_reason != "stop", kept]
