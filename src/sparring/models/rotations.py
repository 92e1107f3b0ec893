"""Rotary positions that depend on the longest conversation of a batch: recognised and refused."""

from __future__ import annotations

from typing import Any

from sparring.errors import ModelError

# transformers chooses their frequencies by the largest position of a batch
BY_LENGTH = ("dynamic", "longrope")


def check_rotations(network: Any) -> None:
    """Refuse a network whose rotations are chosen anew for every batch.

    A reply would then have another probability beside a long conversation than alone, and sampler
    and learner, whose batches differ, would disagree.

    Raises:
        ModelError: the rotations depend on the length of the batch.
    """
    for module in network.modules():
        named = getattr(module, "rope_type", None)
        for kind in named.values() if isinstance(named, dict) else (named,):
            if kind in BY_LENGTH:
                raise ModelError(
                    f"{type(network).__name__} cannot be run: its rotary positions are of the "
                    f"type {kind!r}, which depend on the longest conversation in a batch, so that "
                    "a reply's probability would depend on its "
                    f"neighbours. {_instead(kind, network.config)}"
                )


def _instead(kind: str, config: Any) -> str:
    """Return what to take instead."""
    if kind == "dynamic":
        limit = config.max_position_embeddings
        return (
            f"Up to {limit} tokens it is the same as without: write rope_type default into its "
            f"config.json and keep conversations within model.context={limit}."
        )
    return (
        "Take a model whose rope_type is default, linear, yarn or llama3, such as its "
        "short-context version."
    )
