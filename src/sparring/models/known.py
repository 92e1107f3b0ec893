"""Sizes of models that recipes name, for plans made where they are not on the machine.

They are those of the configurations that were published with the weights.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig


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
    """Return the sizes of a model; by default with the rest of a Qwen3 model's."""
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
KNOWN: dict[str, tuple[str, dict[str, Any]]] = {  # the family, and its sizes
    **{
        f"Qwen/Qwen3-{size}{kind}": ("qwen3", own)
        for size, own in _QWEN3.items()
        for kind in ("", "-Base")
    },
    "smollm2-135m": ("llama", _sizes(576, 1536, 30, 9, groups=3, width=64, words=49152)),
    "gemma3-270m": ("gemma3_text", _sizes(640, 2048, 18, 4, groups=1, width=256, words=262144)),
}


def known_config(name: str) -> Any:
    """Return the configuration of a model by its name, sizes alone; None where it is not known."""
    if name not in KNOWN:
        return None
    family, sizes = KNOWN[name]
    return AutoConfig.for_model(family, **sizes)
