"""Samples replies with vLLM in other processes, the replicas; input and output are token ids.

A replica loads the current weights and is checked with one conversation before it draws replies
(``replica.py``). All samplers of networks of one shape share the replicas (``pool.py``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, ModelError
from sparring.core.records import FloatArray, SampleRequest, SampleResult, SamplingParams
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import Ids, SampleBatch
from sparring.models.samplers.in_process import EXACT, ModelSampler, dtype_of
from sparring.models.samplers.vllm.pool import ReplicaPool, pool_of
from sparring.models.samplers.vllm.replica import ReplicaSettings, python
from sparring.models.samplers.vllm.served_weights import ServedWeights
from sparring.models.tiny import TinyNetwork

# widths of heads that vLLM supports on a CPU
HEAD_WIDTHS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
MIN_TEMPERATURE = 0.01
MAX_TOP_K = 1000

Replicas = Annotated[int, Field(ge=1, le=64)]
Threads = Annotated[int, Field(ge=1, le=1024)]
Seqs = Annotated[int, Field(ge=1, le=65536)]
Bytes = Annotated[int, Field(ge=1 << 20)]
Seconds = Annotated[float, Field(gt=0, le=1e6)]
Times = Annotated[int, Field(ge=0, le=10**6)]
Gpus = Annotated[tuple[Annotated[int, Field(ge=0, le=1023)], ...], Field(max_length=64)]


class VLLMSampler(ModelSampler):
    """Samples replies from a language model by vLLM; see ``base.Sampler``.

    Args:
        model: the model.
        pool: the replicas.

    Attributes:
        between_tokens: function that is called repeatedly until all replies are there. If it
            changes weights, replies continue with the new weights. None: a reply's first weights
            draw all its tokens.
    """

    decoding = "vllm"  # name of the program that computes replies, for provenance.json

    def __init__(self, model: LanguageModel, pool: ReplicaPool) -> None:
        super().__init__(model)
        self.backend = pool
        self._served = pool.served(model)
        self.between_tokens: Callable[[], None] | None = None

    @property
    def invariant(self) -> bool:
        """Whether replies do not depend on other requests at all: in float32 on a CPU."""
        settings = self.backend.settings
        return settings.dtype == EXACT and settings.device == "cpu"

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (index of a request, its reply), as they are finished.

        Raises:
            ModelError: a context and its reply do not fit, or vLLM does not support an option.
            RunError: replicas cannot be started, are lost too often, or have wrong weights.
            DivergedError: the model gives no probabilities.
        """
        if not requests:
            return iter(())
        return self.backend.submit([SampleBatch(self, requests, params, stop_ids)])

    def weights_for(self, batch: SampleBatch) -> ServedWeights:
        """Return the weights that a batch is sampled with.

        Raises:
            ModelError: a context and its reply do not fit, or vLLM does not support an option.
        """
        self._check(batch.params)
        longest = max((len(request.ids) for request in batch.requests), default=0)
        self.check_length(longest + batch.params.max_new_tokens)
        return self._served

    def score(
        self, prompts: Sequence[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[FloatArray]:
        """Return the log-probability of whole replies; see ``base.ReplyScorer``.

        Raises:
            ModelError: a context and a reply do not fit, or vLLM does not support an option.
            RunError: as for ``submit``.
            DivergedError: the model gives no probabilities.
        """
        self._check(params)
        pairs = zip(prompts, replies, strict=True)
        self.check_length(max((len(ids) + max(map(len, group)) for ids, group in pairs), default=0))
        return self.backend.score(self._served, prompts, replies, params)

    def refresh(self) -> None:
        """Load the weights into replicas again, and drop results of older weights."""
        self._served.changes += 1

    def _check(self, params: SamplingParams) -> None:
        if params.top_p < 1.0 and not params.top_k:
            raise ModelError(
                f"sampler 'vllm' and rollout.top_p={params.top_p:g} without rollout.top_k: the "
                "learner must know which tokens truncation kept, but vLLM lists only a fixed "
                f"number of tokens. Set rollout.top_k too, e.g. to 100, at most {MAX_TOP_K}."
            )
        if params.top_k > MAX_TOP_K:
            raise ModelError(
                f"sampler 'vllm' and rollout.top_k={params.top_k}: vLLM is asked for at most "
                f"{MAX_TOP_K} tokens that truncation kept. Write fewer, or 0 for all."
            )
        if params.temperature < MIN_TEMPERATURE:
            raise ModelError(
                f"sampler 'vllm' and rollout.temperature={params.temperature:g}: vLLM changes "
                f"temperatures below {MIN_TEMPERATURE}. Write rollout.temperature: "
                f"{MIN_TEMPERATURE} or more, or sampler.name=in_process."
            )


def vllm(
    model: LanguageModel,
    *,
    replicas: Replicas = 1,
    threads: Threads = 1,
    device: Literal["cpu", "cuda"] = "cpu",
    gpus: Gpus = (),
    max_seqs: Seqs = 256,
    cache_bytes: Bytes = 1 << 30,
    prefix_cache: bool = True,
    timeout: Seconds = 300.0,
    start_timeout: Seconds = 900.0,
    restarts: Times = 10,
) -> VLLMSampler:
    """Draw replies with vLLM, in processes beside the training process.

    ``make vllm`` sets up its environment. The processes, called replicas, read weights from files
    of a private folder, with adapters merged. Each replica is checked with one conversation before
    it draws replies. vLLM uses the seeds of the run: replies differ from those of ``in_process``
    but are equally deterministic. In float32 on a CPU, a reply is exactly the same with any other
    requests. ``rollout.top_k`` may be up to 1,000, and ``rollout.top_p`` needs it: vLLM lists the
    tokens that truncation kept, so that the learner has the same distribution.

    Args:
        model: the language model that replies are drawn from.
        replicas: number of engines, each with the whole model. Replicas with the same weights share
            the requests.
        threads: processor threads of each replica.
        device: device of the replicas, "cpu" or "cuda"; vLLM must be installed for it.
        gpus: indices of the GPUs that are assigned to replicas in order, such as [1, 2, 3] if the
            learner has GPU 0; empty (default): each replica sees all GPUs and uses the first.
            Several replicas may have the same GPU.
        max_seqs: largest number of replies that a replica draws at once; more requests wait in it.
        cache_bytes: size of the KV cache of a replica, in bytes. The default is 1 GiB.
        prefix_cache: whether to cache prefixes of earlier conversations.
        timeout: seconds without a sign of life after which a busy replica is ended and restarted.
        start_timeout: seconds after which a replica that is not ready is ended and restarted.
        restarts: number of replicas that may be lost in an hour before the run ends.

    Raises:
        ConfigError: vLLM's environment is missing, or ``gpus`` are given for a CPU.
        ModelError: vLLM does not support the width of the model's heads on a CPU.
    """
    python()
    if gpus and device != "cuda":
        raise ConfigError(
            f"sampler 'vllm': gpus={list(gpus)} and device={device}; write device: cuda, or leave "
            "gpus out."
        )
    base = model.base.to_transformers() if isinstance(model.base, TinyNetwork) else model.base
    config, class_name = base.config, type(base).__name__
    width = getattr(config, "head_dim", None) or model.width // config.num_attention_heads
    if device == "cpu" and width not in HEAD_WIDTHS:
        raise ModelError(
            f"sampler 'vllm': on a CPU vLLM supports heads of width "
            f"{', '.join(map(str, HEAD_WIDTHS))}, but this model's have {width}. For the tiny "
            "model, set "
            "model.heads so that model.hidden_size / model.heads is one of these, such as 32; or "
            "write sampler.name=in_process."
        )
    settings = ReplicaSettings(
        config=json.dumps({**config.to_diff_dict(), "architectures": [class_name]}, sort_keys=True),
        dtype=dtype_of(model),
        context=model.context,
        replicas=replicas,
        threads=threads,
        device=device,
        gpus=tuple(gpus),
        max_seqs=max_seqs,
        cache_bytes=cache_bytes,
        prefix_cache=prefix_cache,
        timeout=timeout,
        start_timeout=start_timeout,
        restarts=restarts,
    )
    return VLLMSampler(model, pool_of(settings))
