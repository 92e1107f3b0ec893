"""Contexts computed before a reply is drawn: from the KV cache where it has their beginnings.

Legend: B rows (distinct contexts), C width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sparring.models.joined import Forward
from sparring.models.kv_cache import KeyValueCache
from sparring.models.prefixes import prefix_tree
from sparring.samplers.prefix_cache import Chain, Ids, PrefixCache


class Rows(NamedTuple):
    """Distinct contexts of one model or several, those of the first model first."""

    ids: list[Ids]
    known: list[int]  # of each, the length of the beginning to look for in the KV cache; 0: none
    whose: list[int]  # the number of its model

    def some(self, places: Sequence[int]) -> Rows:
        """Return the rows at these places."""
        ids, known, whose = self
        return Rows(
            [ids[n] for n in places], [known[n] for n in places], [whose[n] for n in places]
        )


class Prefill:
    """Computes contexts with one model or several over one base.

    Args:
        forward: of the models.
        caches: of each model the KV cache of what was said, which share a stock.
    """

    def __init__(self, forward: Forward, caches: Sequence[PrefixCache]) -> None:
        self.forward, self.caches = forward, caches

    def contexts(self, rows: Rows, room: int) -> tuple[Tensor, KeyValueCache]:
        """Return the last hidden state [B, C] and the cache of every context.

        Args:
            rows: the contexts.
            room: for so many tokens after each.
        """
        places = [
            self.caches[whose].find(ids[:length]) if length else None
            for ids, length, whose in zip(*rows, strict=True)
        ]
        fresh = [row for row, place in enumerate(places) if place is None]
        seen = [row for row, place in enumerate(places) if place is not None]
        room += max(map(len, rows.ids))
        if not seen:
            return self._fresh(rows, room)
        found = [place for place in places if place is not None]
        if not fresh:
            return self._seen(rows, found, room)
        parts = [
            (fresh, *self._fresh(rows.some(fresh), room)),
            (seen, *self._seen(rows.some(seen), found, room)),
        ]
        device = self.forward.device
        hidden = torch.empty(
            (len(places), parts[0][1].shape[1]), dtype=parts[0][1].dtype, device=device
        )
        cache = self.forward.new_cache(len(places), room)
        for chosen, states, part in parts:
            index = torch.tensor(chosen, device=device)
            hidden[index] = states
            cache.copy_from(part, torch.arange(len(chosen), device=device), index, room)
        return hidden, cache

    def counts(self, whose: Sequence[int] | np.ndarray) -> list[int]:
        """Return how many of some rows are of each model."""
        found: list[int] = np.bincount(whose, minlength=len(self.caches)).tolist()
        return found

    def computed(self, counts: Sequence[int]) -> None:
        """Count positions that were run through the network for each model."""
        for cache, count in zip(self.caches, counts, strict=True):
            cache.tokens_computed += count

    def _fresh(self, rows: Rows, room: int) -> tuple[Tensor, KeyValueCache]:
        """Return hidden states and cache of unknown contexts; what they share is computed once."""
        device, count = self.forward.device, len(rows.ids)
        tree = prefix_tree(rows.ids, rows.whose)
        counts = self.counts(np.array(rows.whose)[(tree.first // tree.node.shape[1]).numpy()])
        tree, cache = tree.to(device), self.forward.new_cache(count, room)
        ends = tree.node[
            torch.arange(count, device=device),
            torch.tensor([len(ids) - 1 for ids in rows.ids], device=device),
        ]
        self.computed(counts)
        return self.forward.hidden(tree, counts, cache)[ends], cache

    def _seen(self, rows: Rows, places: list[Chain], room: int) -> tuple[Tensor, KeyValueCache]:
        """Return hidden states and cache of contexts whose first ``known`` ids were computed."""
        device, count, known = self.forward.device, len(rows.ids), rows.known
        new = [len(ids) - begin for ids, begin in zip(rows.ids, known, strict=True)]
        width = max(new)
        # padding is written beyond shorter rows
        cache = self.forward.new_cache(count, max(max(known) + width, room))
        self.caches[0].copy(places, cache)
        padded = np.zeros((count, width), dtype=np.int64)
        for row, (ids, begin) in enumerate(zip(rows.ids, known, strict=True)):
            padded[row, : len(ids) - begin] = ids[begin:]
        start = torch.tensor(known, device=device)
        hidden = self.forward.extend(
            torch.from_numpy(padded).to(device), start, self.counts(rows.whose), cache
        )
        self.computed(np.bincount(rows.whose, new, len(self.caches)).astype(np.int64).tolist())
        return hidden[
            torch.arange(count, device=device), torch.tensor(new, device=device) - 1
        ], cache
