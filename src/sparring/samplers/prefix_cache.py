"""Keys and values of what was said so far, by the exact ids they belong to.

A conversation's turn adds the positions that are new; those before belong to the turn before, and
to every game that went the same way until then. So memory grows with the tokens that were computed,
not with the lengths of conversations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakSet

import torch

from sparring.models.kv_cache import KeyValueCache

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
