"""A text as a vector: the mean of a model's hidden states over its tokens."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch

from sparring.errors import ModelError
from sparring.models.pretrained import load_pretrained
from sparring.types import FloatArray

TEXTS = 65_536  # whose vectors are kept


@lru_cache(maxsize=1)
def _loaded(name: str) -> tuple[Any, Any]:
    """Return a network that does not learn, and its tokenizer."""
    network, tokenizer = load_pretrained(name)
    return network.eval().requires_grad_(False), tokenizer


@lru_cache(maxsize=TEXTS)
def text_states(name: str, layer: int, text: str) -> FloatArray:
    """Return the mean hidden state of a text's tokens, [C].

    The text stands alone in a forward pass, so that its vector does not depend on other texts. A
    text without tokens is 0; of one that outgrows the model's context the beginning is read.

    Args:
        name: of the model, see ``load_pretrained``.
        layer: 0 for the embeddings of tokens, up to the number of layers; -1 for the last.
        text: to embed.

    Raises:
        ModelError: the model cannot be loaded, or it has no such layer.
    """
    network, tokenizer = _loaded(name)
    layers = int(network.config.num_hidden_layers)
    if not -layers - 1 <= layer <= layers:
        raise ModelError(
            f"{name!r} has {layers} layers, and layer={layer} is none of 0 (the embeddings of "
            f"tokens) to {layers}; write layer: -1 for the last one."
        )
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    ids = ids[:, : getattr(network.config, "max_position_embeddings", None)]
    if not ids.shape[1]:
        return np.zeros(int(network.config.hidden_size))
    with torch.no_grad():
        states = network(ids.long(), output_hidden_states=True, use_cache=False).hidden_states
    found: FloatArray = states[layer][0].double().mean(dim=0).numpy()
    return found
