"""Contexts computed before a reply is drawn: from the KV cache where it has their beginnings.

Legend: B rows (distinct contexts), C width.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sparring.models.kv_cache import KeyValueCache
from sparring.models.language_model import LanguageModel
from sparring.models.prefixes import prefix_tree
from sparring.samplers.prefix_cache import Chain, Ids, PrefixCache


class Prefill:
    """Computes contexts with a model, and keeps the keys and values of what was said.

    ``tokens_computed`` counts the positions run through the network.
    """

    def __init__(self, model: LanguageModel, cache_bytes: int) -> None:
        self.model = model
        self.cache = PrefixCache(cache_bytes)
        self.tokens_computed = 0

    def contexts(
        self, rows: list[Ids], known: list[int], room: int
    ) -> tuple[Tensor, KeyValueCache]:
        """Return the last hidden state [B, C] and the cache of every context.

        Args:
            rows: the contexts.
            known: of each, the length of the beginning to look for in the KV cache; 0: none.
            room: for so many tokens after each.
        """
        places = [
            self.cache.find(ids[:length]) if length else None
            for ids, length in zip(rows, known, strict=True)
        ]
        fresh = [row for row, place in enumerate(places) if place is None]
        seen = [row for row, place in enumerate(places) if place is not None]
        room += max(map(len, rows))
        if not seen:
            return self._fresh(rows, room)
        found = [place for place in places if place is not None]
        if not fresh:
            return self._seen(rows, known, found, room)
        parts = [
            (fresh, *self._fresh([rows[row] for row in fresh], room)),
            (
                seen,
                *self._seen([rows[row] for row in seen], [known[row] for row in seen], found, room),
            ),
        ]
        device = self.model.device
        hidden = torch.empty(
            (len(rows), parts[0][1].shape[1]), dtype=parts[0][1].dtype, device=device
        )
        cache = self.model.new_cache(len(rows), room)
        for chosen, states, part in parts:
            index = torch.tensor(chosen, device=device)
            hidden[index] = states
            cache.copy_from(part, torch.arange(len(chosen), device=device), index, room)
        return hidden, cache

    def _fresh(self, rows: list[Ids], room: int) -> tuple[Tensor, KeyValueCache]:
        """Return hidden states and cache of unknown contexts; what they share is computed once."""
        device = self.model.device
        tree, cache = prefix_tree(rows).to(device), self.model.new_cache(len(rows), room)
        ends = tree.node[
            torch.arange(len(rows), device=device),
            torch.tensor([len(ids) - 1 for ids in rows], device=device),
        ]
        self.tokens_computed += len(tree.ids)
        return self.model.hidden(tree, cache)[ends], cache

    def _seen(
        self, rows: list[Ids], known: list[int], places: list[Chain], room: int
    ) -> tuple[Tensor, KeyValueCache]:
        """Return hidden states and cache of contexts whose first ``known`` ids were computed."""
        device = self.model.device
        new = [len(ids) - begin for ids, begin in zip(rows, known, strict=True)]
        width = max(new)
        # padding is written beyond shorter rows
        cache = self.model.new_cache(len(rows), max(max(known) + width, room))
        self.cache.copy(places, cache)
        padded = np.zeros((len(rows), width), dtype=np.int64)
        for row, (ids, begin) in enumerate(zip(rows, known, strict=True)):
            padded[row, : len(ids) - begin] = ids[begin:]
        hidden = self.model.extend(
            torch.from_numpy(padded).to(device), torch.tensor(known, device=device), cache
        )
        self.tokens_computed += sum(new)
        return hidden[
            torch.arange(len(rows), device=device), torch.tensor(new, device=device) - 1
        ], cache
