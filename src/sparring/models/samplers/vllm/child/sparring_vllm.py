"""The engine of a replica with vLLM; see ``sparring_child``. Written for vLLM 0.32.

The engine's core runs in this process, so that one kill ends everything. torch.distributed finds
its only member through a file, and listens on the loopback interface only.

Weights are loaded by vLLM's weight transfer, with a transfer engine that reads a file. On a CPU,
vLLM packs the weights of linear layers once and drops the originals; a later reload then changes
nothing and raises no error. Here vLLM keeps the originals and packs them again after each update.
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
MAX_STEP_TOKENS = 8192  # tokens of prompts in one step, except for one longer prompt
MAX_LOGPROBS = 1024  # listed log-probabilities of one position, with truncation
original_pack = layers.dispatch_cpu_unquantized_gemm


def pack_and_keep(layer: Any, remove_weight: bool) -> None:
    """Pack a layer's weights for a CPU, and keep the originals, so that they can be replaced."""
    original_pack(layer, remove_weight=False)


layers.dispatch_cpu_unquantized_gemm = pack_and_keep


@dataclass
class TransferInit(WeightTransferInitInfo):
    """Empty settings of the transfer."""


@dataclass
class WeightFileUpdate(WeightTransferUpdateInfo):
    """A file of safetensors with the names of the network in transformers."""

    path: str


class FileTransfer(WeightTransferEngine[TransferInit, WeightFileUpdate]):
    """Reads weights from a file; see ``WeightTransferEngine``."""

    init_info_cls = TransferInit
    update_info_cls = WeightFileUpdate

    def init_transfer_engine(self, init_info: TransferInit) -> None:
        """Do nothing: each update names its file."""

    def start_weight_update(self) -> None:
        """Prepare vLLM for weights in the form of a checkpoint, except on a CPU."""
        if not current_platform.is_cpu():  # no test runs this, because it needs a GPU
            from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

            initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load a file of weights."""
        if not current_platform.is_cpu():
            super().update_weights(update_info)
            return
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: WeightFileUpdate) -> None:
        """Load a file of weights.

        Raises:
            ValueError: the model has none of the weights.
        """
        tensors = load_file(update_info.path)
        loaded_names = self.model.load_weights(iter(tensors.items()))
        if loaded_names is not None and tensors and not loaded_names:
            raise ValueError(f"vLLM loaded none of the weights, such as {next(iter(tensors))}")

    def finish_weight_update(self) -> None:
        """Pack the weights for the processor."""
        if current_platform.is_cpu():
            with torch.no_grad():
                process_weights_after_loading(self.model, self.model_config, self.device)
            return
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Do nothing, as no resource is open."""


WeightTransferEngineFactory.register_engine(BACKEND, FileTransfer)


class Engine:
    """vLLM, which draws and scores replies step by step.

    Args:
        settings: as ``samplers.vllm.replica`` sends them.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        device = current_platform.device_type
        if device != settings["device"]:
            raise ValueError(
                f"this vLLM is for {device}, but sampler.device={settings['device']}; "
                f"write sampler.device: {device}"
            )
        self._engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=settings["model"],
                skip_tokenizer_init=True,
                generation_config="vllm",
                load_format="dummy",  # weights are loaded before the first request
                dtype=settings["dtype"],
                max_model_len=settings["context"],
                max_num_seqs=settings["max_seqs"],
                # whole prompts in one step: on a CPU a split prompt with a seed ends vLLM
                # ("CPU Generator does not use offset"), and elsewhere a split would change draws
                enable_chunked_prefill=False,
                max_num_batched_tokens=max(settings["context"], MAX_STEP_TOKENS),
                kv_cache_memory_bytes=settings["cache_bytes"],
                # log-probabilities of the sampling distribution: after temperature and truncation
                logprobs_mode="processed_logprobs",
                max_logprobs=MAX_LOGPROBS,
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
        self._open: dict[str, int] = {}  # name of an open request in vLLM -> number of our request
        self.tokens: dict[int, int] = {}  # number of tokens of each open reply
        self._scores: dict[int, _Score] = {}  # open requests for scores, by number

    @property
    def busy(self) -> bool:
        """Whether there are open requests."""
        return bool(self._open)

    def load(self, path: str, salt: str) -> None:
        """Load the weights of a file; open replies continue after their contexts are recomputed.

        Args:
            path: the file.
            salt: name of the weights, so that cached keys and values of other weights never match.
        """
        call = self._engine.collective_rpc
        call("start_weight_update")
        call("update_weights", kwargs={"update_info": {"path": path}})
        call("finish_weight_update")
        self._engine.reset_prefix_cache(reset_running_requests=bool(self._open))
        self._salt = salt

    def ask(self, number: int, ids: list[int], seed: int, options: dict[str, Any]) -> None:
        """Begin a reply."""
        params = SamplingParams(
            max_tokens=options["max_new_tokens"],
            **_distribution(options),
            seed=seed,
            logprobs=options.get("listed", 0),
            ignore_eos=True,
            stop_token_ids=options["stop_ids"],
            detokenize=False,
        )
        self._add(str(number), number, ids, params)

    def score(self, number: int, ids: list[int], begin: int, options: dict[str, Any]) -> None:
        """Begin to score ids[begin:].

        vLLM's log-probabilities of a prompt ignore temperature and truncation, and need free
        context for one more token. If these matter, each token is scored as the first token of a
        reply to the earlier tokens.
        """
        self._scores[number] = _Score(ids, begin, {})
        if _distribution(options) == UNTRUNCATED and len(ids) < self._context:
            params = SamplingParams(
                max_tokens=1,
                temperature=0.0,  # the one token that is drawn is ignored
                prompt_logprobs=0,
                ignore_eos=True,
                detokenize=False,
            )
            self._add(str(number), number, ids, params)
            return
        for index in range(begin, len(ids)):
            params = SamplingParams(
                max_tokens=1,
                **_distribution(options),
                seed=0,
                logprob_token_ids=[ids[index]],
                ignore_eos=True,
                detokenize=False,
            )
            self._add(f"{number}-{index}", number, ids[:index], params)

    def drop(self, numbers: Sequence[int]) -> None:
        """Drop requests."""
        names = [name for name, number in self._open.items() if number in set(numbers)]
        if names:
            self._engine.abort_request(names)
        for name in names:
            number = self._open.pop(name)
            self._scores.pop(number, None)
            self.tokens.pop(number, None)

    def step(self) -> list[list[Any]]:
        """Make a step; return [number, ids, logprobs, truncated, supports] of finished requests."""
        answers: list[list[Any]] = []
        for output in self._engine.step():
            number = self._open.get(output.request_id)
            if number is None:
                continue
            if not output.finished:
                self.tokens[number] = len(output.outputs[0].token_ids)
                continue
            del self._open[output.request_id]
            self.tokens.pop(number, None)
            answer = (
                self._add_score(number, output) if number in self._scores else _parse_reply(output)
            )
            if answer is not None:
                answers.append([number, *answer])
        return answers

    def _add(self, name: str, number: int, ids: list[int], params: SamplingParams) -> None:
        prompt = {"prompt_token_ids": ids, "cache_salt": self._salt}
        self._engine.add_request(name, prompt, params)
        self._open[name] = number

    def _add_score(self, number: int, output: RequestOutput) -> list[Any] | None:
        score = self._scores[number]
        if output.prompt_logprobs is not None:
            logprobs = output.prompt_logprobs
            score.logprobs |= {
                t: logprobs[t][score.ids[t]].logprob for t in range(score.begin, len(score.ids))
            }
        else:
            index = int(output.request_id.partition("-")[2])
            score.logprobs[index] = output.outputs[0].logprobs[0][score.ids[index]].logprob
        if len(score.logprobs) < len(score.ids) - score.begin:
            return None
        del self._scores[number]
        return [[], [score.logprobs[t] for t in range(score.begin, len(score.ids))], False]


@dataclass
class _Score:
    """Ids to score, the first index to score, and the log-probabilities so far by index."""

    ids: list[int]
    begin: int
    logprobs: dict[int, float]


UNTRUNCATED = {"temperature": 1.0, "top_p": 1.0, "top_k": 0}


def _distribution(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options.get(name, value) for name, value in UNTRUNCATED.items()}


def _parse_reply(output: RequestOutput) -> list[Any]:
    """Return ids, log-probabilities, whether the reply was truncated, and supports.

    vLLM lists more tokens than truncation keeps; a support has the tokens of finite
    log-probability.
    """
    (reply,) = output.outputs
    ids = list(reply.token_ids)
    tables = reply.logprobs or []
    logprobs = [table[token].logprob for token, table in zip(ids, tables, strict=True)]
    if not all(map(math.isfinite, logprobs)):
        logprobs = [math.nan] * len(ids)
    truncated_tables = tables if tables and len(tables[0]) > 1 else []
    supports = [
        [id_ for id_, entry in table.items() if entry.logprob > -math.inf]
        for table in truncated_tables
    ]
    return [ids, logprobs, reply.finish_reason != "stop", supports]
