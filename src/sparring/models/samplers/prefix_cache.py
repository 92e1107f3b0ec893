"""Keys and values of what was said so far, by the exact ids they belong to, and their computation.

A conversation's turn adds the positions that are new; those before belong to the turn before, and
to every game that went the same way until then. So memory grows with the tokens that were computed,
not with the lengths of conversations. Contexts are computed before a reply is drawn, from the cache
where it has their beginnings.

Legend: B rows (distinct contexts), C width.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from sparring.models.joined import Forward
from sparring.models.kv_cache import KeyValueCache
from sparring.models.prefixes import prefix_tree

Ids = tuple[int, ...]


class Piece(NamedTuple):
    """Where a run of positions of a conversation is kept."""

    batch: int
    row: int
    start: int  # its first position in the conversation
    length: int


Chain = tuple[Piece, ...]  # pieces from position 0 on, one after the other


class Stock:
    """The prefix caches that share one budget of bytes. One that nobody has any more is gone."""

    def __init__(self) -> None:
        self.caches: WeakSet[PrefixCache] = WeakSet()
        self._last = 0

    @property
    def bytes(self) -> int:
        """Size of everything that is kept."""
        return sum(cache.bytes for cache in self.caches)

    def number(self) -> int:
        """Return the number of a new batch: the later, the larger."""
        self._last += 1
        return self._last

    def batches(self) -> dict[int, KeyValueCache]:
        """Return all batches by their numbers."""
        return {number: kept for one in self.caches for number, (kept, _) in one.batches.items()}

    def drop_beyond(self, budget: int) -> None:
        """Drop the oldest batches beyond a budget of bytes, but never the last."""
        size, count = self.bytes, sum(len(cache.batches) for cache in self.caches)
        while count > 1 and size > budget:
            filled = (cache for cache in self.caches if cache.batches)
            size -= min(filled, key=lambda cache: next(iter(cache.batches))).drop()
            count -= 1


class PrefixCache:
    """Pieces of conversations with one model, the oldest dropped beyond a budget of bytes.

    Args:
        budget: in bytes, of all caches of the stock together.
        stock: that it shares with those of other models; None: it has one of its own.

    Attributes:
        tokens_computed: positions that were run through the network for it.
    """

    def __init__(self, budget: int, stock: Stock | None = None) -> None:
        self.budget, self.stock = budget, stock or Stock()
        self.stock.caches.add(self)
        self.tokens_computed = 0
        self.batches: OrderedDict[int, tuple[KeyValueCache, list[Ids]]] = OrderedDict()
        self._chains: dict[Ids, Chain] = {}

    @property
    def bytes(self) -> int:
        """Size of everything that it keeps."""
        return sum(batch.bytes for batch, _ in self.batches.values())

    def find(self, ids: Ids) -> Chain | None:
        """Return the pieces that these ids are kept in, or None.

        The first is the oldest: if it is there, so are all.
        """
        chain = self._chains.get(ids)
        return chain if chain is not None and chain[0].batch in self.batches else None

    def add(self, cache: KeyValueCache, rows: Mapping[Ids, int], known: Sequence[Ids]) -> None:
        """Keep rows of a cache.

        Args:
            cache: holds the rows.
            rows: ids -> the row that holds them.
            known: of every row, the ids at its beginning that were found here before; () if none
                were.
        """
        before = {ids: self.find(known[row]) if known[row] else None for ids, row in rows.items()}
        starts = [len(known[row]) if before[ids] is not None else 0 for ids, row in rows.items()]
        lengths = [len(ids) - start for ids, start in zip(rows, starts, strict=True)]
        device = cache.device
        kept = cache.part(
            torch.tensor(list(rows.values()), device=device),
            torch.tensor(starts, device=device),
            max(lengths),
        )
        number = self.stock.number()
        self.batches[number] = kept, list(rows)
        for place, (ids, start, length) in enumerate(zip(rows, starts, lengths, strict=True)):
            self._chains[ids] = (*(before[ids] or ()), Piece(number, place, start, length))
        self.stock.drop_beyond(self.budget)

    def drop(self) -> int:
        """Drop the oldest batch; return its bytes."""
        number, (batch, gone) = self.batches.popitem(last=False)
        for ids in gone:
            if (chain := self._chains.get(ids)) is not None and chain[-1].batch == number:
                del self._chains[ids]
        return batch.bytes

    def copy(self, chains: Sequence[Chain], cache: KeyValueCache) -> None:
        """Write conversations of this cache's stock into rows 0, 1, 2, ... of a cache.

        It takes one gather per batch their pieces are in, the oldest first.
        """
        sources: dict[int, list[tuple[int, int, int, int]]] = {}
        for row, chain in enumerate(chains):
            for piece in chain:
                sources.setdefault(piece.batch, []).append(
                    (piece.row, row, piece.start, piece.length)
                )
        # what is beyond a shorter piece is garbage that the next one of its row replaces
        batches = self.stock.batches()
        for number in sorted(sources):
            theirs, ours, start, length = torch.tensor(sources[number], device=cache.device).unbind(
                1
            )
            cache.put(batches[number], theirs, ours, start, int(length.max()))

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._chains.clear()
        self.batches.clear()


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
