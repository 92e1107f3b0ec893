"""Pretrained models by name.

A folder, a Hugging Face id, or one of the models that come as Python packages.

A packaged model is converted once, and kept in Hugging Face layout in the cache folder
(``$SPARRING_CACHE``, else ``~/.cache/sparring``). Code that comes with a model is never run, nor is
that of its package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from sparring.errors import ModelError, SparringError, UnknownNameError
from sparring.models.checked import checked_config
from sparring.models.known import KNOWN, known_config
from sparring.models.memory import Shape, check_memory, count_parameters
from sparring.models.packaged import PACKAGED, converted
from sparring.system.files import cache_folder

ALIGNMENT = 64  # bytes
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_pretrained(
    name: str,
    *,
    dtype: str = "float32",
    training_bytes: Callable[[int], int] | None = None,
    device: torch.device | None = None,
) -> tuple[Any, Any]:
    """Return the network and the tokenizer of a model.

    ``declared_ends`` of the tokenizer are the tokens that the model's files say may end a text.

    Args:
        name: a folder in Hugging Face layout, a packaged model, or a Hugging Face id.
        dtype: of the weights: float32, bfloat16 or float16.
        training_bytes: from the number of parameters to the bytes that training takes besides the
            weights.
        device: where it will be trained, whose memory is looked at; the network is left in the
            machine's own.

    Raises:
        ModelError: the model is missing or damaged, its package is not installed, or it does not
            fit into memory.
        UnknownNameError: nothing of this name is on this machine, and it is no Hugging Face id.
    """
    source = _source(name)
    transformers_logging.disable_progress_bar()
    try:
        config = checked_config(source)
        check_memory(name, config, DTYPES[dtype], training_bytes, device)
        options: dict[str, Any] = {
            "trust_remote_code": False,
            "local_files_only": Path(source).is_dir(),
        }
        how = {
            "dtype": DTYPES[dtype],
            "use_safetensors": True,
            "attn_implementation": config._attn_implementation,
        }
        network, loaded = AutoModelForCausalLM.from_pretrained(
            source, config=config, output_loading_info=True, **how, **options
        )
        _check_complete(name, loaded)
        aligned(network)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        tokenizer.declared_ends = _ends_of(network)
    except SparringError:
        raise
    except Exception as error:
        raise ModelError(
            f"The model {name!r} cannot be loaded from {source}: {first_line(error)}"
        ) from error
    finally:
        transformers_logging.enable_progress_bar()
    return network.eval(), tokenizer


def _ends_of(network: Any) -> tuple[int, ...]:
    """Return the ids that a model's generation settings declare as ends."""
    ends = getattr(getattr(network, "generation_config", None), "eos_token_id", None)
    return tuple(ends) if isinstance(ends, list | tuple) else () if ends is None else (ends,)


@torch.no_grad()
def aligned(network: torch.nn.Module) -> None:
    """Move weights that lie where their file had them to addresses that torch would choose.

    A file's header has any multiple of 8 bytes, and the last bits of a product of one row may
    depend on where its weights begin. With this they depend on the weights alone.
    """
    for parameter in network.parameters():
        if parameter.device.type == "cpu" and parameter.data_ptr() % ALIGNMENT:
            parameter.data = parameter.data.clone()


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return (
        f"{type(error).__name__}: {lines[0]}"
        if lines and isinstance(error, (KeyError, AttributeError))
        else (lines or [repr(error)])[0]
    )


def _check_complete(name: str, loaded: Mapping[str, Any]) -> None:
    """Refuse a model some of whose weights are not in its files and were drawn at random."""
    missing = sorted(loaded.get("missing_keys", ()))
    if missing:
        raise ModelError(
            f"The files of {name!r} lack {len(missing)} of the model's weights, such "
            f"as {missing[0]}; take a whole model."
        )


def tokenizer_of(name: str) -> Any:
    """Return the tokenizer of a model that is on this machine.

    Nothing is converted or fetched for this.

    Raises:
        ModelError: the model is not here.
    """
    if name in PACKAGED and not (cache_folder() / name / "config.json").is_file():
        raise ModelError(f"{name} has not been converted yet; it is at its first use.")
    try:
        return AutoTokenizer.from_pretrained(
            _source(name), trust_remote_code=False, local_files_only=True
        )
    except SparringError:
        raise
    except Exception as error:
        raise ModelError(
            f"The tokenizer of {name!r} is not on this machine: {first_line(error)}"
        ) from error


def size_of(name: str) -> tuple[int, Shape]:
    """Return the number of parameters and the shape of a model that is on this machine.

    They come from its configuration alone.

    Raises:
        ModelError: the model is not here; nothing is converted for this.
    """
    if name in PACKAGED and not (cache_folder() / name / "config.json").is_file():
        raise ModelError(f"{name} has not been converted yet; it is at its first use.")
    try:
        config = checked_config(_source(name), local_files_only=True)
        return count_parameters(config), Shape.of(config)
    except SparringError:
        raise
    except Exception as error:
        raise ModelError(f"{name}: {first_line(error)}") from error


def _source(name: str) -> str:
    """Return where transformers finds the model: a folder or a Hugging Face id."""
    _check_name(name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder)
    if name in PACKAGED:
        return str(converted(name))
    return name


def _check_name(name: str) -> None:
    """Refuse what is no model folder, packaged model or Hugging Face id.

    Raises:
        ModelError: the folder holds no model.
        UnknownNameError: it is none of these.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{folder} is not a model folder: it has no config.json. Name a folder written by "
                "`sparring export`."
            )
        return
    if name in PACKAGED or (name.count("/") == 1 and not name.startswith((".", "/", "~"))):
        return
    hint = "Give a folder, a Hugging Face id (owner/name), or one of these."
    same = [known for known in KNOWN if known.rpartition("/")[2].casefold() == name.casefold()]
    if same:
        hint = f"Did you mean the Hugging Face id {same[0]}? {hint}"
    raise UnknownNameError("model", name, tuple(PACKAGED), hint)


def known_size(name: str) -> tuple[int | None, Shape | None, str]:
    """Return a model's parameters and shape, and where they are known from: its configuration, the
    sizes of a well-known model, or its name ("4B").

    Raises:
        ModelError: the name is that of a folder without a model.
        UnknownNameError: no model can have this name.
    """
    _check_name(name)
    try:
        return *size_of(name), "its configuration"
    except SparringError as error:
        if (config := known_config(name)) is not None:
            found_by = "its published configuration, as the model is not on this machine"
            return count_parameters(config), Shape.of(config), found_by
        found = re.search(r"(\d+(?:\.\d+)?)([BbMm])(?![a-zA-Z])", name.rpartition("/")[2])
        if found is None:
            return None, None, str(error)
        return (
            round(float(found[1]) * (10**9 if found[2] in "Bb" else 10**6)),
            None,
            "its name, as the model is not on this machine",
        )
