"""Sizes of models that recipes name, for plans made where they are not on the machine.

They are those of the configurations that were published with the weights.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig

_QWEN3 = {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936}


def _qwen3(
    hidden: int, inner: int, layers: int, heads: int, *, tied: bool = True
) -> dict[str, Any]:
    """Return the sizes of a Qwen3 model."""
    return {
        **_QWEN3,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "tie_word_embeddings": tied,
    }


_SIZES = {
    "0.6B": _qwen3(1024, 3072, 28, 16),
    "1.7B": _qwen3(2048, 6144, 28, 16),
    "4B": _qwen3(2560, 9728, 36, 32),
    "8B": _qwen3(4096, 12288, 36, 32, tied=False),
}
KNOWN: dict[str, tuple[str, dict[str, Any]]] = {  # the family, and its sizes
    **{
        f"Qwen/Qwen3-{size}{kind}": ("qwen3", own)
        for size, own in _SIZES.items()
        for kind in ("", "-Base")
    },
    "smollm2-135m": (
        "llama",
        {
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "head_dim": 64,
            "vocab_size": 49152,
            "tie_word_embeddings": True,
        },
    ),
    "gemma3-270m": (
        "gemma3_text",
        {
            "hidden_size": 640,
            "intermediate_size": 2048,
            "num_hidden_layers": 18,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "vocab_size": 262144,
            "tie_word_embeddings": True,
        },
    ),
}


def known_config(name: str) -> Any:
    """Return the configuration of a model by its name, sizes alone; None where it is not known."""
    if name not in KNOWN:
        return None
    family, sizes = KNOWN[name]
    return AutoConfig.for_model(family, **sizes)
