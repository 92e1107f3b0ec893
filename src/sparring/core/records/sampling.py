"""What a sampler is asked for and gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """The distribution replies are drawn from; ``top_k=0``, ``top_p=1`` switch truncation off."""

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


class SampleRequest(NamedTuple):
    """One reply to be sampled.

    The exact ids the model must see, and the key of the stream to draw from.

    ``known`` is the length of the prefix the sampler has seen in this conversation (0 when unsure):
    a hint where to look for cached keys and values, never a promise.
    """

    ids: tuple[int, ...]
    stream: int  # 64-bit stream key; draw number t of the reply uses counter t
    known: int = 0


class SampledRun(NamedTuple):
    """Tokens of a reply that were drawn with weights of one version."""

    length: int
    version: int


class SampleResult(NamedTuple):
    """Sampled ids (the stop id included when one was sampled) and their log-probabilities.

    ``runs`` is empty where all were drawn with the weights that the sampler had when it was asked.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    truncated: bool  # the token limit came before a stop id
    kept: tuple[tuple[int, ...], ...] = ()  # as in Segment
    runs: tuple[SampledRun, ...] = ()  # of a reply that went on over a change of weights
