"""Keys and values of what was said so far, by the exact ids they belong to.

A conversation's turn adds the positions that are new; those before belong to the turn before, and
to every game that went the same way until then. So memory grows with the tokens that were computed,
not with the lengths of conversations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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


class PrefixCache:
    """Pieces of conversations, the oldest dropped beyond a budget of bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._chains: dict[Ids, Chain] = {}
        self._batches: OrderedDict[int, tuple[KeyValueCache, list[Ids]]] = OrderedDict()
        self._next = 0

    @property
    def bytes(self) -> int:
        """Size of everything that is kept."""
        return sum(batch.bytes for batch, _ in self._batches.values())

    def find(self, ids: Ids) -> Chain | None:
        """Return the pieces that these ids are kept in, or None.

        The first is the oldest: if it is there, so are all.
        """
        chain = self._chains.get(ids)
        return chain if chain is not None and chain[0].batch in self._batches else None

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
        self._next += 1
        self._batches[self._next] = (kept, list(rows))
        for place, (ids, start, length) in enumerate(zip(rows, starts, lengths, strict=True)):
            self._chains[ids] = (*(before[ids] or ()), Piece(self._next, place, start, length))
        size = self.bytes
        while len(self._batches) > 1 and size > self.budget:
            number, (batch, gone) = self._batches.popitem(last=False)
            size -= batch.bytes
            for ids in gone:
                if (chain := self._chains.get(ids)) is not None and chain[-1].batch == number:
                    del self._chains[ids]

    def copy(self, chains: Sequence[Chain], cache: KeyValueCache) -> None:
        """Write conversations into rows 0, 1, 2, ... of a cache.

        It takes one gather per batch their pieces are in, the oldest first.
        """
        sources: dict[int, list[tuple[int, int, int, int]]] = {}
        for row, chain in enumerate(chains):
            for piece in chain:
                sources.setdefault(piece.batch, []).append(
                    (piece.row, row, piece.start, piece.length)
                )
        # what is beyond a shorter piece is garbage that the next one of its row replaces
        for number in sorted(sources):
            theirs, ours, start, length = torch.tensor(sources[number], device=cache.device).unbind(
                1
            )
            cache.put(self._batches[number][0], theirs, ours, start, int(length.max()))

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._chains.clear()
        self._batches.clear()
