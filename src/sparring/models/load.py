"""Pretrained models as language models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from sparring.errors import ModelError
from sparring.models.language_model import LanguageModel
from sparring.models.pretrained import first_line, load_pretrained

# what a network raises that our forward pass does not fit
UNFIT = (AttributeError, TypeError, ValueError, LookupError, RuntimeError, NotImplementedError)


def load_language_model(
    name: str | Path,
    *,
    dtype: str = "float32",
    training_bytes: Callable[[int], int] | None = None,
    device: torch.device | None = None,
) -> LanguageModel:
    """Return the model and tokenizer of a folder, a packaged model or a Hugging Face id.

    See ``load_pretrained``.

    Raises:
        ModelError: the folder is missing or damaged, the model does not fit into memory, or it
            cannot be run.
    """
    network, tokenizer = load_pretrained(
        str(name), dtype=dtype, training_bytes=training_bytes, device=device
    )
    try:
        model = LanguageModel(network, tokenizer)
        vocabulary = model.base.get_output_embeddings().weight.shape[0]
        if len(tokenizer) > vocabulary:
            sizes = f"has {len(tokenizer)} tokens, its network {vocabulary}"
            raise ModelError(
                f"The tokenizer of {str(name)!r} {sizes}: they do not belong together."
            )
        model.check()
    except UNFIT as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"{type(network).__name__} of {str(name)!r} cannot be run here: {first_line(error)}."
        ) from error
    return model
