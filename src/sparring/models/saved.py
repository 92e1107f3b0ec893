"""A model from the folder that ``LanguageModel.save`` wrote: whole, or adapters alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

from sparring.errors import ModelError
from sparring.models.adapters import add_adapters, with_the_weights_of
from sparring.models.language_model import LanguageModel
from sparring.models.load import load_language_model
from sparring.models.memory import find_device
from sparring.rng import Stream

ADAPTERS = "adapter_model.safetensors"


def saved_model(
    folder: Path,
    *,
    base: str | None = None,
    lora: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    device: str = "auto",
    longest: int | None = None,
) -> LanguageModel:
    """Return the model of a folder.

    Args:
        folder: that ``LanguageModel.save`` wrote.
        base: name of the pretrained model that the folder's adapters belong to; None: it is whole.
        lora: the adapters' rank, alpha and targets.
        dtype: of the weights.
        device: where they are put.
        longest: conversation in tokens; None: the model's limit.

    Raises:
        ModelError: the model is missing or damaged, or the adapters are another model's.
        UnknownNameError: the pretrained model is not on this machine, and is no Hugging Face id.
    """
    if base is None or lora is None:
        model = load_language_model(folder, dtype=dtype, device=find_device(device))
        network = model.network.to(find_device(device))
    else:
        model = base_model(base, dtype, device)
        network = _adapted(folder, with_the_weights_of(model.network), lora)
    found = LanguageModel(network, model.tokenizer, longest=longest)
    for parameter in found.parameters():
        parameter.requires_grad_(False)
    return found


@lru_cache(maxsize=1)  # players of one pretrained model, and members of a mixture, share it
def base_model(name: str, dtype: str, device: str) -> LanguageModel:
    """Return a pretrained model, whose weights do not change.

    Args:
        name: a folder, a packaged model or a Hugging Face id.
        dtype: of the weights.
        device: where they are put.

    Raises:
        ModelError: as for ``load_language_model``.
        UnknownNameError: it is not on this machine, and is no Hugging Face id.
    """
    model = load_language_model(name, dtype=dtype, device=find_device(device))
    model.network = model.network.to(find_device(device))
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


def _adapted(folder: Path, network: Any, lora: Mapping[str, Any]) -> Any:
    """Return a network with the adapters of a folder.

    Raises:
        ModelError: they are missing, damaged, or another model's.
    """
    path = folder / ADAPTERS
    again = "export the run again: sparring export RUN FOLDER --adapter"
    if not path.is_file():
        raise ModelError(f"{folder} has no {ADAPTERS}; {again}.")
    try:
        tensors = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise ModelError(f"{path} cannot be read ({error}); {again}.") from None
    adapted = add_adapters(network, **lora, stream=Stream.from_seed(0))  # drawn, then replaced
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    own = get_peft_model_state_dict(adapted)
    if own.keys() != tensors.keys() or any(own[n].shape != tensors[n].shape for n in own):
        odd = sorted(own.keys() ^ tensors.keys()) or [
            n for n in own if own[n].shape != tensors[n].shape
        ]
        raise ModelError(f"{path} has adapters of another model: {odd[:3]} differ; {again}.")
    set_peft_model_state_dict(adapted, tensors)
    return adapted
