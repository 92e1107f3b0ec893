"""A model's configuration, read without trust.

No number in it may hang the machine, no name in it may fetch code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from sparring.errors import ModelError
from sparring.system.files import check_plain, parse_json

MEBIBYTE = 1 << 20
MOST_BYTES = 16 * MEBIBYTE  # of a configuration; weights and vocabularies are other files
MOST_PARTS = 1024  # layers, heads, experts: each is an object of its own
MOST_WIDE = 1 << 31  # widths and lengths; what they take is then compared with the memory
_PARTS = re.compile(
    r"^(num|n)_.*(layer|head|expert|block|codebook|stage|group)"
    r"|^(depth|layers|heads)$|_(layers|heads|experts|blocks)$"
)


def checked_config(source: str, *, local_files_only: bool = False) -> Any:
    """Return the configuration of a model, its attention in torch and its sizes within reason.

    Args:
        source: a folder, from which alone is read, or a Hugging Face id.
        local_files_only: whether a Hugging Face id is not to be fetched.

    Raises:
        ModelError: the folder holds what is no file, an adapter or quantised weights, or a size is
            beyond reason.
    """
    folder = Path(source) if Path(source).is_dir() else None
    if folder is not None:
        _check_folder(folder)
    local = {"local_files_only": local_files_only or folder is not None}
    raw, _ = PretrainedConfig.get_config_dict(source, **local)
    for name, value in _numbers(raw):
        _check_number(source, name, value)
    if raw.get("quantization_config") is not None:
        raise ModelError(
            f"{source} holds quantised weights, which other packages' code would read. Save it "
            "without quantization_config."
        )
    config = AutoConfig.from_pretrained(source, trust_remote_code=False, **local)
    text = config.get_text_config()
    for name in ("num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size"):
        if not getattr(text, name, 1) or getattr(text, name, 1) < 1:
            raise ModelError(
                f"config.json of {source} has {name}={getattr(text, name)}, and a model has at "
                "least 1."
            )
    config._attn_implementation = attention_of(config)
    return config


def attention_of(config: Any) -> str:
    """Return how attention is computed, torch's way.

    A configuration may name a kernel of somebody's, which is not fetched.
    """
    network = AutoModelForCausalLM._model_mapping.get(type(config), None)
    return "sdpa" if getattr(network, "_supports_sdpa", False) else "eager"


def _check_folder(folder: Path) -> None:
    """Check that a model folder holds plain files and a model of its own.

    Raises:
        ModelError: it does not.
        RunError: something in it is a pipe, a socket or a device.
    """
    check_plain(folder, links=True)  # the cache of Hugging Face holds links
    if (folder / "adapter_config.json").exists():
        raise ModelError(
            f"{folder} holds an adapter, and its base may be any model. Merge it into its base "
            "first (merge_and_unload of peft), or remove adapter_config.json."
        )
    pickled = sorted(folder.glob("*.bin"))
    if pickled and not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} holds its weights as {pickled[0].name}, a pickle, which may run code and is "
            "not read. Where you trust it, load it with transformers and write it anew: "
            "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)."
        )
    for path in folder.glob("*.json"):
        if (
            path.name != "tokenizer.json"
            and path.stat().st_size > MOST_BYTES
            and not path.name.endswith(".index.json")
        ):
            raise ModelError(
                f"{path} has {path.stat().st_size / MEBIBYTE:.0f} MiB, and no configuration has "
                "more than 16. Is it another file?"
            )
    parse_json((folder / "config.json").read_bytes())


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, int | float]]:
    """Yield the numbers of a configuration with the key that each stands at."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def _check_number(source: str, name: str, value: int | float) -> None:
    """Check a number of a configuration.

    Raises:
        ModelError: no model has it.
    """
    counts = bool(_PARTS.search(name))
    low, high = (0, MOST_PARTS) if counts and isinstance(value, int) else (-MOST_WIDE, MOST_WIDE)
    if isinstance(value, int) and not low <= value <= high:
        shown = (
            value
            if abs(value) < 10**30
            else f"a number of {len(hex(abs(value)))} hexadecimal digits"
        )
        raise ModelError(
            f"config.json of {source} has {name}={shown}, outside of [{low}, {high}]. It is "
            "damaged, or no model."
        )
