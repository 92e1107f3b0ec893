"""Loads pretrained and saved models, and computes vectors of texts by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from sparring.core.errors import ModelError
from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.memory import find_device
from sparring.models.pretrained import first_line, load_pretrained

# errors that a network may raise in a forward pass that does not support it
UNSUPPORTED = (
    AttributeError,
    TypeError,
    ValueError,
    LookupError,
    RuntimeError,
    NotImplementedError,
)


def load_language_model(
    name: str | Path,
    *,
    dtype: str = "float32",
    training_bytes: Callable[[int], int] | None = None,
    device: torch.device | None = None,
) -> LanguageModel:
    """Load a folder, a packaged model or a Hugging Face id; see ``load_pretrained``.

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
    except UNSUPPORTED as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"{type(network).__name__} of {str(name)!r} cannot be run here: {first_line(error)}."
        ) from error
    return model


ADAPTERS = "adapter_model.safetensors"


def load_saved_model(
    folder: Path,
    *,
    base: str | None = None,
    lora: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    device: str = "auto",
    longest: int | None = None,
) -> LanguageModel:
    """Load a frozen model that ``LanguageModel.save`` wrote.

    Args:
        folder: folder of the model.
        base: name of the pretrained model of the folder's adapters; None: the folder has all
            weights.
        lora: rank, alpha and targets of the adapters.
        dtype: type of the weights.
        device: device of the weights.
        longest: largest length of a conversation in tokens; None: the model's limit.

    Raises:
        ModelError: the model is missing or damaged, or the adapters are another model's.
        UnknownNameError: the pretrained model is not on this machine, and not a Hugging Face id.
    """
    if base is None or lora is None:
        model = load_language_model(folder, dtype=dtype, device=find_device(device))
        network = model.network.to(find_device(device))
    else:
        model = base_model(base, dtype, device)
        network = _load_adapters(folder, share_weights(model.network), lora)
    saved_model = LanguageModel(network, model.tokenizer, longest=longest)
    for parameter in saved_model.parameters():
        parameter.requires_grad_(False)
    return saved_model


@lru_cache(maxsize=1)  # players and members of a mixture share one pretrained model
def base_model(name: str, dtype: str, device: str) -> LanguageModel:
    """Load a pretrained model with frozen weights.

    Args:
        name: a folder, a packaged model or a Hugging Face id.
        dtype: type of the weights.
        device: device of the weights.

    Raises:
        ModelError: as for ``load_language_model``.
        UnknownNameError: the model is not on this machine, and not a Hugging Face id.
    """
    model = load_language_model(name, dtype=dtype, device=find_device(device))
    model.network = model.network.to(find_device(device))
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


def _load_adapters(folder: Path, network: Any, lora: Mapping[str, Any]) -> Any:
    path = folder / ADAPTERS
    remedy = "export the run again: sparring export RUN FOLDER --adapter"
    if not path.is_file():
        raise ModelError(f"{folder} has no {ADAPTERS}; {remedy}.")
    try:
        tensors = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise ModelError(f"{path} cannot be read ({error}); {remedy}.") from None
    # the adapters' random weights are replaced below
    adapted_network = add_adapters(network, **lora, stream=Stream.from_seed(0))
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    own_tensors = get_peft_model_state_dict(adapted_network)
    differing_names = sorted(own_tensors.keys() ^ tensors.keys()) or [
        name for name, tensor in own_tensors.items() if tensor.shape != tensors[name].shape
    ]
    if differing_names:
        raise ModelError(
            f"{path} has adapters of another model: {differing_names[:3]} differ; {remedy}."
        )
    set_peft_model_state_dict(adapted_network, tensors)
    return adapted_network


MAX_TEXTS = 65_536  # number of texts whose vectors are cached


@lru_cache(maxsize=1)
def _load_frozen_network(name: str) -> tuple[Any, Any]:
    network, tokenizer = load_pretrained(name)
    return network.eval().requires_grad_(False), tokenizer


@lru_cache(maxsize=MAX_TEXTS)
def text_states(name: str, layer: int, text: str) -> FloatArray:
    """Return the mean hidden state of a text's tokens, [C].

    Each text has its own forward pass, so that its vector does not depend on other texts. A text
    without tokens gives 0; a text longer than the model's context is truncated.

    Args:
        name: name of the model, see ``load_pretrained``.
        layer: from 0 (the embeddings of tokens) to the number of layers; -1 for the last one.
        text: the text.

    Raises:
        ModelError: the model cannot be loaded, or has no such layer.
    """
    network, tokenizer = _load_frozen_network(name)
    layers = int(network.config.num_hidden_layers)
    if not -layers - 1 <= layer <= layers:
        raise ModelError(
            f"{name!r} has {layers} layers, but layer={layer} is not between 0 (the embeddings of "
            f"tokens) and {layers}; write layer: -1 for the last one."
        )
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    ids = ids[:, : getattr(network.config, "max_position_embeddings", None)]
    if not ids.shape[1]:
        return np.zeros(int(network.config.hidden_size))
    with torch.no_grad():
        states = network(ids.long(), output_hidden_states=True, use_cache=False).hidden_states
    mean: FloatArray = states[layer][0].double().mean(dim=0).numpy()
    return mean
