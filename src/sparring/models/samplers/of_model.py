"""What samplers have in common that draw with a language model of this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor

from sparring.core.errors import ModelError
from sparring.core.rng import Stream
from sparring.models.language_model import LanguageModel

EXACT = "float32"
LIKELY = 4.0  # minus the log-probability from which on a token's tolerance grows
PROBE = 24  # tokens of the conversation that others are tried on, at most


def dtype_of(model: LanguageModel) -> str:
    """Return the type of a model's weights, such as "float32"."""
    return str(model.base.dtype).removeprefix("torch.")


def vocabulary_of(model: LanguageModel) -> int:
    """Return the number of tokens that a model knows."""
    return int(model.base.get_input_embeddings().weight.shape[0])


def probe_of(model: LanguageModel, room: int) -> list[int]:
    """Return the conversation that others who draw for a model are tried on; the same one always.

    Args:
        model: whose tokens it has.
        room: tokens that the context is to have left after it.
    """
    draws, vocabulary = Stream.from_seed(0).child("probe"), vocabulary_of(model)
    return [draws.integer(t, vocabulary) for t in range(min(PROBE, model.context - room))]


def tolerance_of(dtype: str) -> float:
    """Return how far log-probabilities may be from those that this process computes.

    Args:
        dtype: of the weights.
    """
    return 1e-4 if dtype == EXACT else 0.25


def strays(said: Sequence[float], expected: Sequence[float], dtype: str) -> str | None:
    """Return how log-probabilities differ from those that this process computes; None if by little.

    The logit of an improbable token is far from that of the most probable, and rounding moves it by
    as many parts of that distance: its tolerance grows in proportion, from probability e^-4 on.

    Args:
        said: by another engine.
        expected: of this process.
        dtype: of the weights.
    """
    if len(said) != len(expected):
        return f"there are {len(said)} of them, and not {len(expected)}"
    limits = [tolerance_of(dtype) * max(1.0, abs(own) / LIKELY) for own in expected]
    far = [abs(a - b) for a, b in zip(said, expected, strict=True)]
    beyond = [place for place, limit in enumerate(limits) if not far[place] <= limit]  # NaN too
    if not beyond:
        return None
    place = max(beyond, key=far.__getitem__)
    return (
        f"they differ from the learner's by {far[place]:.2g} where it has {expected[place]:.1f}, "
        f"and {limits[place]:.2g} is allowed"
    )


class OfModel(ABC):
    """The model of a sampler: its context, its version and its weights; see ``base.Sampler``.

    Args:
        model: gives its weights.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    @property
    def context(self) -> int:
        """Longest conversation in tokens, the reply included."""
        return self.model.context

    @property
    def version(self) -> int:
        """Number of updates that the model's weights have seen."""
        return self.model.version

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Take new weights, unless they are the model's own, and drop what older ones computed."""
        places = {name: tensor.data_ptr() for name, tensor in self.model.tensors().items()}
        if places != {name: tensor.data_ptr() for name, tensor in weights.items()}:
            self.model.load_tensors(dict(weights))
        self.model.version = version
        self.refresh()
        return version

    @abstractmethod
    def refresh(self) -> None:
        """Drop what was computed with older weights."""

    def check_length(self, longest: int) -> None:
        """Refuse a conversation that does not fit into the model, its reply included.

        Args:
            longest: tokens of the longest one.

        Raises:
            ModelError: it does not fit.
        """
        if longest > self.model.context:
            raise ModelError(
                f"A conversation of {longest} tokens exceeds the context of {self.model.context}; "
                "raise model.context."
            )
