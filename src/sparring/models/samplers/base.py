"""What a sampler is: token in, token out.

A sampler draws replies to exact ids and never sees text. It may run in this process or be a server
elsewhere, so that players and engines ask nothing of it but what stands here.
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


class Score(Protocol):
    """Returns the log-probability of whole replies."""

    def __call__(
        self, prompts: Sequence[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[FloatArray]:
        """Return for each prompt the natural logarithms of its replies' probabilities.

        Args:
            prompts: exact contexts.
            replies: for each context the replies to score, stop token included, none of them empty.
            params: the distribution replies would be drawn from.
        """
        ...


@runtime_checkable
class Sampler(Protocol):
    """Draws replies from a language model; ``sparring.testing.check_sampler`` tries one.

    A sampler may have more abilities: ``HasBackend``, ``HasDecoding`` and ``HasTokenHook``.
    """

    @property
    def context(self) -> int:
        """Longest conversation in tokens, the reply included."""
        ...

    @property
    def version(self) -> int:
        """Number of updates that the weights which replies are drawn with have seen."""
        ...

    @property
    def invariant(self) -> bool:
        """Whether a reply has the same bits whatever else is sampled, before it or beside it.

        Then replies do not depend on order, number in flight, or split into calls. If not, that
        holds of the ids but for rare draws, and of log-probabilities within 1e-5.
        """
        ...

    @property
    def score(self) -> Score | None:
        """What scores given replies; None where this sampler cannot."""
        ...

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (place of a request, its reply), each place once, as they are finished.

        An empty list where none is finished for a moment, so that others are served meanwhile. Draw
        t of a reply is draw t of its request's own stream, so a reply does not depend on the
        others. All have begun when this returns.

        Args:
            requests: exact contexts with their streams.
            params: the distribution to draw from; its log-probabilities are the ones returned.
            stop_ids: a reply ends with the first of these, which is part of it.

        Raises:
            ModelError: a context and its reply do not fit into ``context``.
            DivergedError: the model gives no probabilities.
        """
        ...

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Draw later replies with new weights; return their version.

        Keys and values that were computed with the old ones are dropped.

        Args:
            weights: all trained weights by name, as ``LanguageModel.tensors`` gives them.
            version: number of updates that they have seen.

        Raises:
            ModelError: a name or shape is another model's.
        """
        ...

    def refresh(self) -> None:
        """Drop all keys and values that are kept."""
        ...


class Lot(NamedTuple):
    """What is asked of one of several samplers that are asked in one call."""

    sampler: Sampler
    requests: Sequence[SampleRequest]
    params: SamplingParams
    stop_ids: Ids


class Backend(Protocol):
    """Draws for several samplers at once: those that have an equal one as ``backend``.

    It must have a hash. A reply is the one that its sampler gives alone: not a bit differs where
    the sampler is ``invariant``.
    """

    def submit(self, lots: Sequence[Lot]) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (place of a request, its reply), as ``Sampler.submit`` does.

        Places count through the requests of all lots, those of the first lot first.

        Args:
            lots: what is asked. A sampler may stand in several.

        Raises:
            ModelError: a context and its reply do not fit into its sampler's ``context``.
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
        """The backend that it shares with others; None: it is called alone."""
        ...


@runtime_checkable
class HasDecoding(Protocol):
    """A sampler whose replies are computed outside of this process."""

    @property
    def decoding(self) -> str:
        """What computes the replies, in words."""
        ...


@runtime_checkable
class HasTokenHook(Protocol):
    """A sampler whose replies can go on with newer weights; their results have ``runs``.

    Attributes:
        between: called between two tokens; weights may be published in it. None: nothing is called.
    """

    between: Callable[[], None] | None


def backend_of(sampler: Sampler) -> Backend | None:
    """Return the backend of a sampler; None: the sampler is called alone.

    A wrapper that passes attribute look-ups on to another sampler does not have the other's.
    """
    if getattr_static(sampler, "backend", None) is None or not isinstance(sampler, HasBackend):
        return None
    return sampler.backend


def finished_together(
    backend: Backend, lots: Sequence[Lot]
) -> Iterator[Sequence[tuple[int, SampleResult]]]:
    """Give lots to a backend; return what it yields, each place checked.

    Raises:
        ModelError: it left a request without its one reply; and as for ``Backend.submit``.
    """
    return _checked(backend, backend.submit(lots), sum(len(lot.requests) for lot in lots))


def finished(
    sampler: Sampler, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
) -> Iterator[Sequence[tuple[int, SampleResult]]]:
    """Give requests to a sampler; return what it yields, each place checked.

    Raises:
        ModelError: the sampler left a request without its one reply; and as for ``submit``.
    """
    return _checked(sampler, sampler.submit(requests, params, stop_ids), len(requests))


def _checked(
    sampler: Sampler | Backend, coming: Iterator[Sequence[tuple[int, SampleResult]]], count: int
) -> Iterator[Sequence[tuple[int, SampleResult]]]:
    left = set(range(count))
    for results in coming if count else ():
        for place, _ in results:
            if place not in left:
                raise ModelError(
                    f"The {_kind(sampler)} gave a reply for request {place}, which "
                    f"is none of 0 to {count - 1} that waits for one. Its submit must yield each "
                    "place once."
                )
            left.remove(place)
        yield results
    if left:
        raise ModelError(
            f"The {_kind(sampler)} gave no reply for request {min(left)} of "
            f"{count}. Its submit must yield each place once."
        )


def _kind(asked: Sampler | Backend) -> str:
    what = "sampler" if isinstance(asked, Sampler) else "backend"
    return f"{what} {type(asked).__name__}"


def sample(
    sampler: Sampler, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
) -> list[SampleResult]:
    """Return the replies to all requests in their order, when the last is finished.

    Raises:
        ModelError: as for ``finished``.
    """
    found: list[SampleResult | None] = [None] * len(requests)
    for results in finished(sampler, requests, params, stop_ids):
        for place, result in results:
            found[place] = result
    return [result for result in found if result is not None]
