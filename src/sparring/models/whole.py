"""The forward pass of any other causal language model.

Hugging Face's own, over whole sequences every time.

It knows nothing of the network's inside, so it cannot keep keys and values or share prefixes: its
cache holds the ids, and appending a token runs the whole sequence again. Correct for every decoder,
and slow; families that ``architectures.py`` knows take the lean forward instead.

Legend: N distinct prefixes, R sequences of T tokens, B cached rows, P positions, C width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparring.models.kv_cache import KeyValueCache
from sparring.models.prefixes import PrefixTree


@dataclass(kw_only=True, slots=True)
class TokenCache(KeyValueCache):
    """The ids of sequences, ``tensor`` [B, P], in place of keys and values."""

    @property
    def positions(self) -> int:
        """Room P of a row."""
        return self.tensor.shape[1]

    def take(self, rows: Tensor) -> TokenCache:
        """Return a copy that holds these rows."""
        return TokenCache(tensor=self.tensor.index_select(0, rows))

    def copy_from(self, other: KeyValueCache, theirs: Tensor, ours: Tensor, length: int) -> None:
        """Copy the first ``length`` ids of rows ``theirs`` of another cache into rows ``ours``."""
        self.tensor[ours, :length] = other.tensor[theirs, :length]

    def part(self, rows: Tensor, start: Tensor, length: int) -> TokenCache:
        """Return a copy of ``length`` ids of these rows, each from its own ``start``."""
        return TokenCache(tensor=self.tensor[rows[:, None], self._from(start, length)])

    def put(
        self, other: KeyValueCache, theirs: Tensor, ours: Tensor, start: Tensor, length: int
    ) -> None:
        """Copy the first ``length`` ids of rows ``theirs`` of another cache.

        They go into rows ``ours``, each to its ``start``.
        """
        self.tensor[ours[:, None], self._from(start, length)] = other.tensor[theirs, :length]


class WholeForward:
    """The forward pass of a network through its own ``forward``."""

    shares_prefixes = False
    recompute = False

    def __init__(self, network: Any) -> None:
        self.body = network.base_model

    def new_cache(self, batch: int, positions: int, *, device: torch.device) -> TokenCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        return TokenCache(tensor=torch.zeros((batch, positions), dtype=torch.int64, device=device))

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return the last hidden state [N, C] of every prefix.

        A cache of R rows takes the sequences.
        """
        ids = tree.ids[tree.node]
        if cache is not None:
            cache.tensor[:, : ids.shape[1]] = ids
        return self._run(ids).flatten(0, 1).index_select(0, tree.first)

    @torch.no_grad()
    def extend(self, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
        """Append right-padded tokens [B, T] at positions ``start`` [B].

        Return their hidden states [B, T, C].
        """
        rows = torch.arange(len(ids), device=ids.device)[:, None]
        positions = start[:, None] + torch.arange(ids.shape[1], device=ids.device)
        cache.tensor[rows, positions] = ids
        return self._run(cache.tensor[:, : int(positions.max()) + 1])[rows, positions]

    def _run(self, ids: Tensor) -> Tensor:
        """Return the hidden states [R, T, C] of right-padded sequences.

        No earlier position attends to the padding.
        """
        hidden: Tensor = self.body(
            input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
        ).last_hidden_state
        return hidden
