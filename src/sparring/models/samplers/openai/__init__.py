"""Token-in token-out sampling at an OpenAI-compatible server that somebody else has started.

The server has the frozen weights. It is given a policy's adapters anew after each update
(``adapters.py``), and tried on one conversation (``server.py``) before it is asked for replies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from sparring.core.errors import ModelError, RunError
from sparring.core.records import FloatArray, SampleRequest, SampleResult, SamplingParams
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import Ids, Lot
from sparring.models.samplers.in_process import in_process
from sparring.models.samplers.of_model import (
    OfModel,
    dtype_of,
    probe_of,
    tolerance_of,
    vocabulary_of,
)
from sparring.models.samplers.openai.adapters import Adapters
from sparring.models.samplers.openai.ask import Ask
from sparring.models.samplers.openai.server import Server, Settings, server_of

SAID = 8  # tokens of the reply that a server is tried by
KEPT = 64 << 20  # bytes of keys and values of what is scored in this process

Times = Annotated[int, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Seconds = Annotated[float, Field(gt=0, le=1e6)]
Distance = Annotated[float, Field(gt=0, le=100)]


class OpenAISampler(OfModel):
    """Samples replies of a language model by a server; see ``base.Sampler``.

    Args:
        model: gives its adapters.
        server: where it is asked.
        tolerance: how far log-probabilities may be from those of the model in this process.
    """

    decoding = "openai"  # what computes replies, for provenance.json
    invariant = False

    def __init__(self, model: LanguageModel, server: Server, tolerance: float) -> None:
        super().__init__(model)
        self.backend, self.tolerance = server, tolerance
        self._local = in_process(model, cache_bytes=KEPT)

    @property
    def _adapters(self) -> Adapters | None:
        """The model's adapters at the server; None: it has none."""
        return self.backend.adapters_of(self.model) if adapted(self.model) else None

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (place of a request, its reply), as they are finished.

        Raises:
            ModelError: a context and its reply do not fit, or what is asked is not given here.
            RunError: the server cannot be asked, or has other weights.
            DivergedError: the model gives no probabilities.
        """
        if not requests:
            return iter(())
        return self.backend.submit([Lot(self, requests, params, stop_ids)])

    def ready(self, lot: Lot) -> str:
        """Return the name by which the server knows the weights of now, once it was tried on them.

        Raises:
            ModelError, RunError, DivergedError: as for ``submit``.
        """
        _refuse_truncation(lot.params)
        longest = max((len(request.ids) for request in lot.requests), default=0)
        self.check_length(longest + lot.params.max_new_tokens)
        adapters, temperature = self._adapters, lot.params.temperature
        served = self.backend.settings.served
        name = served if adapters is None else adapters.name(self.model)
        tried = self.backend.tried(self.model) if adapters is None else adapters.tried
        if temperature not in tried:
            self._try(name, SamplingParams(max_new_tokens=SAID, temperature=temperature))
            tried.add(temperature)
        return name

    def _try(self, name: str, params: SamplingParams) -> None:
        """Compare log-probabilities of one reply with those of the model in this process.

        Raises:
            RunError: they differ.
        """
        prompt = tuple(probe_of(self.model, room=SAID))
        said = self.backend.reply(Ask(name, prompt, 0, params, (), vocabulary_of(self.model)))
        prompts = [(*prompt, *said.ids[:t]) for t in range(len(said.ids))]
        expected = self.score(prompts, [[(token,)] for token in said.ids], params)
        far = [abs(a - b[0]) for a, b in zip(said.logprobs, expected, strict=True)]
        if not all(one <= self.tolerance for one in far):
            raise RunError(
                f"The server {self.backend.where} gives log-probabilities of {name!r} that differ "
                f"from this model's by up to {max(far):.2g} ({self.tolerance:g}). It must have the "
                "same weights, no quantisation, no penalties, and give log-probabilities of the "
                "distribution that it draws from (vLLM: --logprobs-mode processed_logprobs). If it "
                "computes in less precision, write sampler.tolerance."
            )

    def score(
        self, prompts: Sequence[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[FloatArray]:
        """Return the log-probability of whole replies, computed in this process."""
        return self._local.score(prompts, replies, params)

    def refresh(self) -> None:
        """Let the server be given the weights anew."""
        if (adapters := self._adapters) is not None:
            adapters.changes += 1
        self._local.refresh()


def adapted(model: LanguageModel) -> bool:
    """Return whether a model has adapters."""
    return hasattr(model.network, "get_base_model")


def _refuse_truncation(params: SamplingParams) -> None:
    """Refuse distributions that are truncated.

    Raises:
        ModelError: this one is.
    """
    for option, given, off in (("top_p", params.top_p, 1.0), ("top_k", params.top_k, 0)):
        if given != off:
            raise ModelError(
                f"sampler 'openai' and rollout.{option}={given}: the learner has to know which "
                f"tokens truncation kept, and a server is not asked for them. Write "
                f"rollout.{option}: {off}, or sampler.name=vllm or in_process."
            )


def openai(
    model: LanguageModel,
    *,
    base_url: str = "http://127.0.0.1:8000/v1",
    served: str = "",
    key_variable: str = "OPENAI_API_KEY",
    concurrency: Count = 64,
    timeout: Seconds = 600.0,
    retries: Times = 5,
    tolerance: Distance | None = None,
) -> OpenAISampler:
    """Draw replies at an OpenAI-compatible server that you have started, such as vLLM's.

    What: prompts are sent as token ids to ``/completions``, and token ids with log-probabilities
    are wanted back (``return_token_ids``). A server that gives none is refused. After each update a
    policy's low-rank adapters are written to a folder, and the server is told to load them by a new
    name (``/load_lora_adapter``); the old ones are unloaded when nothing waits for them. Then one
    reply of the server is compared with the model in this process, before it is used.
    When to use: the model is served on another machine, or by a server that others use too. On this
    machine sampler vllm needs no server, and trains all weights.
    Pitfalls: weights that are trained must be adapters (``model.lora``). The server needs its
    adapters' folder at the same path: a private temporary one, or that which the environment
    variable SPARRING_ADAPTERS names. Replies are as well determined as the server's are: vLLM's on
    a CPU in float32 are, by their seeds. vLLM on a CPU computes wrong log-probabilities for a
    policy without adapters beside one with adapters: give that a server of its own. A process that
    is killed leaves its last adapters loaded. Each worker (``scale.workers``) loads its own.
    Reference: vLLM, "OpenAI-compatible server" and "Dynamically serving LoRA adapters".
    Verified by: tests/models/samplers/test_openai.py, and tests/models/samplers/test_openai_real.py
    with vLLM's server.

    Args:
        model: the language model that replies are drawn from.
        base_url: http(s) address of the API, up to and without "/completions". One on another
            machine must be typed on the command line, or named in SPARRING_ENDPOINT_HOSTS.
        served: what the server calls the model; read for a policy without adapters alone.
        key_variable: name of the environment variable that holds the server's key; a loopback
            address may do without.
        concurrency: the most requests under way at a time.
        timeout: seconds that one try of a request may take as a whole.
        retries: tries after the first one, with exponential back-off (time-outs, lost connections,
            status 408, 409, 429, 5xx).
        tolerance: how far log-probabilities may be from those of the model in this process; null
            (default): 1e-4 in float32, and 0.25 where weights are less precise.

    Raises:
        ConfigError: the package openai is missing, the address is none or one that you have not
            named, or there is no usable key.
        ModelError: weights are trained that are not adapters, or ``served`` is missing.
    """
    if not adapted(model) and any(one.requires_grad for one in model.network.parameters()):
        raise ModelError(
            "sampler 'openai' gives a server new weights as adapters alone, and this model trains "
            "all weights. Write model.lora (such as model.lora.rank=16), or sampler.name=vllm."
        )
    if not adapted(model) and not served:
        raise ModelError(
            "sampler 'openai' needs the server's name of a model without adapters; write "
            "sampler.served."
        )
    settings = Settings(base_url, served, key_variable, concurrency, timeout, retries)
    limit = tolerance_of(dtype_of(model)) if tolerance is None else tolerance
    return OpenAISampler(model, server_of(settings), limit)
