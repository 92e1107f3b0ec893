"""Numbers that a network's configuration names differently in every family."""

from __future__ import annotations

from typing import Any

from sparring.errors import ModelError

WIDTHS = ("hidden_size", "n_embd", "d_model")  # names in configurations, the usual first
LIMITS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
)


def numbers_of(network: Any, names: tuple[str, ...]) -> list[int]:
    """Return those of a network's settings under these names that are numbers above 0."""
    config = (
        network.config.get_text_config()
        if hasattr(network.config, "get_text_config")
        else network.config
    )
    found = [getattr(config, name, None) for name in names]
    return [value for value in found if isinstance(value, int) and value > 0]


def number_of(network: Any, names: tuple[str, ...], what: str) -> int:
    """Return the first of ``numbers_of``, or raise ModelError: there is none."""
    found = numbers_of(network, names)
    if not found:
        raise ModelError(f"The configuration of {type(network).__name__} does not name {what}.")
    return found[0]
