"""The protocol of samplers: they continue exact token ids by replies, and never see text.

A sampler may run in this process or be a server elsewhere. Players and engines use only this
protocol and the optional abilities below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import getattr_static
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from sparring.core.errors import ModelError
from sparring.core.records import FloatArray, SampleRequest, SampleResult, SamplingParams

if TYPE_CHECKING:
    from torch import Tensor

Ids = tuple[int, ...]


class ReplyScorer(Protocol):
    """Returns the log-probability of whole replies."""

    def __call__(
        self, prompts: Sequence[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[FloatArray]:
        """Return for each prompt the natural logarithms of its replies' probabilities.

        Args:
            prompts: exact ids of the contexts.
            replies: non-empty replies to score for each context, stop token included.
            params: the distribution that replies would be drawn from.
        """
        ...


@runtime_checkable
class Sampler(Protocol):
    """Draws replies from a language model; ``sparring.testing.check_sampler`` tries one.

    A sampler may have more abilities: ``HasBackend``, ``HasDecoding`` and ``HasTokenHook``.
    """

    @property
    def context(self) -> int:
        """Largest length of a conversation in tokens, reply included."""
        ...

    @property
    def version(self) -> int:
        """Number of updates of the weights that draw replies."""
        ...

    @property
    def invariant(self) -> bool:
        """Whether a reply is exactly the same whichever other requests the sampler has.

        Replies then do not depend on the order of requests, their number in flight, or their split
        into calls. If false, ids may differ in rare draws, and log-probabilities by up to 1e-5.
        """
        ...

    @property
    def score(self) -> ReplyScorer | None:
        """Function that returns log-probabilities of replies; None if this sampler has none."""
        ...

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (index of a request, its reply), each index once, as they are finished.

        An empty list means that no reply is finished yet; the caller can do other work. Token t of
        a reply uses number t of its request's random stream, so replies do not depend on each
        other. All requests have begun when the iterator is returned.

        Args:
            requests: exact ids of contexts, with their random streams.
            params: the distribution to draw from, whose log-probabilities are returned.
            stop_ids: a reply ends with the first of these, which is part of it.

        Raises:
            ModelError: a context and its reply do not fit into ``context``.
            DivergedError: the model gives no probabilities.
        """
        ...

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Draw later replies with new weights; return their version.

        Keys and values of the old weights are dropped.

        Args:
            weights: all trained weights by name, as ``LanguageModel.tensors`` returns them.
            version: number of updates of these weights.

        Raises:
            ModelError: a name or shape differs from this model's.
        """
        ...

    def refresh(self) -> None:
        """Drop all cached keys and values."""
        ...


class SampleBatch(NamedTuple):
    """The requests to one of several samplers that are called together."""

    sampler: Sampler
    requests: Sequence[SampleRequest]
    params: SamplingParams
    stop_ids: Ids


class Backend(Protocol):
    """Draws replies in one call for several samplers, whose ``backend`` is this one.

    A backend must be hashable. Each sampler's replies equal the replies that it draws when called
    alone: exactly if it is ``invariant``, otherwise up to rounding.
    """

    def submit(
        self, batches: Sequence[SampleBatch]
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (index of a request, its reply), as ``Sampler.submit`` does.

        Indices count the requests of all batches, those of the first batch first.

        Args:
            batches: requests and their samplers. A sampler may be in several batches.

        Raises:
            ModelError: a context and its reply do not fit into the sampler's ``context``.
            DivergedError: a model gives no probabilities.
        """
        ...


@runtime_checkable
class HasBackend(Protocol):
    """A sampler that can be called together with others, such as adapters over one base.

    ``sparring.testing.check_backend`` tries its backend.
    """

    @property
    def backend(self) -> Backend | None:
        """The backend that this sampler shares with others; None: it is called alone."""
        ...


@runtime_checkable
class HasDecoding(Protocol):
    """A sampler whose replies are computed outside of this process."""

    @property
    def decoding(self) -> str:
        """Name of the program that computes the replies, such as "vllm"."""
        ...


@runtime_checkable
class HasTokenHook(Protocol):
    """A sampler whose replies can continue with newer weights; their results have ``spans``.

    Attributes:
        between_tokens: called between two tokens; it may publish weights. None: there is no hook.
    """

    between_tokens: Callable[[], None] | None


def backend_of(sampler: Sampler) -> Backend | None:
    """Return the backend of a sampler; None: the sampler is called alone.

    If a wrapper only forwards attribute look-ups to another sampler, it has no backend.
    """
    if getattr_static(sampler, "backend", None) is None or not isinstance(sampler, HasBackend):
        return None
    return sampler.backend


def stream_backend_replies(
    backend: Backend, batches: Sequence[SampleBatch]
) -> Iterator[Sequence[tuple[int, SampleResult]]]:
    """Give batches to a backend, and check that it yields one reply per request.

    Raises:
        ModelError: a request has no reply or two replies; and as for ``Backend.submit``.
    """
    return _check_indices(
        backend, backend.submit(batches), sum(len(batch.requests) for batch in batches)
    )


def stream_replies(
    sampler: Sampler, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
) -> Iterator[Sequence[tuple[int, SampleResult]]]:
    """Give requests to a sampler, and check that it yields one reply per request.

    Raises:
        ModelError: a request has no reply or two replies; and as for ``submit``.
    """
    return _check_indices(sampler, sampler.submit(requests, params, stop_ids), len(requests))


def _check_indices(
    sampler: Sampler | Backend, replies: Iterator[Sequence[tuple[int, SampleResult]]], count: int
) -> Iterator[Sequence[tuple[int, SampleResult]]]:
    open_requests = set(range(count))
    for results in replies if count else ():
        for index, _ in results:
            if index not in open_requests:
                raise ModelError(
                    f"The {_describe(sampler)} returned a reply to request {index}, which is not "
                    f"an open request from 0 to {count - 1}. Its submit must yield each index once."
                )
            open_requests.remove(index)
        yield results
    if open_requests:
        raise ModelError(
            f"The {_describe(sampler)} returned no reply to request {min(open_requests)} of "
            f"{count}. Its submit must yield each index once."
        )


def _describe(sampler: Sampler | Backend) -> str:
    kind = "sampler" if isinstance(sampler, Sampler) else "backend"
    return f"{kind} {type(sampler).__name__}"


def sample(
    sampler: Sampler, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
) -> list[SampleResult]:
    """Wait for the replies to all requests, and return them in order.

    Raises:
        ModelError: as for ``stream_replies``.
    """
    replies: list[SampleResult | None] = [None] * len(requests)
    for results in stream_replies(sampler, requests, params, stop_ids):
        for index, result in results:
            replies[index] = result
    return [result for result in replies if result is not None]
