"""What samplers have in common that draw with a language model of this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from sparring.errors import ModelError
from sparring.models.language_model import LanguageModel
from sparring.types import SamplingParams

EXACT = "float32"


def dtype_of(model: LanguageModel) -> str:
    """Return the type of a model's weights, such as "float32"."""
    return str(model.base.dtype).removeprefix("torch.")


def vocabulary_of(model: LanguageModel) -> int:
    """Return the number of tokens that a model knows."""
    return int(model.base.get_input_embeddings().weight.shape[0])


def tolerance_of(dtype: str) -> float:
    """Return how far log-probabilities may be from those that this process computes.

    Args:
        dtype: of the weights.
    """
    return 1e-4 if dtype == EXACT else 0.25


def refuse_truncation(name: str, params: SamplingParams) -> None:
    """Refuse truncated distributions, for a sampler that does not say what truncation kept.

    Args:
        name: of the sampler.
        params: the distribution that replies are to be drawn from.

    Raises:
        ModelError: it is truncated.
    """
    for option, given, off in (("top_p", params.top_p, 1.0), ("top_k", params.top_k, 0)):
        if given != off:
            raise ModelError(
                f"sampler '{name}' and rollout.{option}={given}: the learner has to know which "
                f"tokens truncation kept, and a server is not asked for them. Write "
                f"rollout.{option}: {off}, or sampler.name=vllm or in_process."
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
