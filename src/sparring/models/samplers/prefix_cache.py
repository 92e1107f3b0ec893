"""Contexts computed before a reply is drawn, for one model or several over the same frozen weights.

Keys and values of what was said so far are kept by the exact ids they belong to. A conversation's
turn adds the positions that are new; those before belong to the turn before, and to every game that
went the same way until then. So memory grows with the tokens that were computed, not with the
lengths of conversations.

Members of a league are adapters over one base. The base's products are of the rows of all of them
at once, and each row has the adapters of its own model added: W x + (alpha / rank) B A x, unmerged,
as peft computes them. Where a row's bits are its own in each model alone, they are the same bits
here: products are filled up to a number of rows that is good for those of all the models
(``models/language_model.py``).

Legend: N positions, B rows (distinct contexts), T tokens, C width, V vocabulary.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn

from sparring.models.adapters import with_the_weights_of
from sparring.models.attention import Blocks, KeyValueCache, PrefixTree, filled, prefix_tree
from sparring.models.language_model import LanguageModel, Product, fewest_rows, products
from sparring.models.lean import LeanForward


class Forward(Protocol):
    """The forward pass of one model or of several, whose rows stand side by side.

    ``counts`` are the numbers of rows of each model, in their order.
    """

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    def new_cache(self, batch: int, positions: int) -> KeyValueCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        ...

    def hidden(self, tree: PrefixTree, counts: Sequence[int], cache: KeyValueCache) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes, so many of each model."""
        ...

    def extend(
        self, ids: Tensor, start: Tensor, counts: Sequence[int], cache: KeyValueCache
    ) -> Tensor:
        """Append right-padded tokens [B, T] at positions ``start`` [B] of cached rows."""
        ...

    def logits(self, hidden: Tensor, counts: Sequence[int]) -> Tensor:
        """Return float32 logits [N, V] of hidden states [N, C]."""
        ...


class Alone:
    """The forward pass of one model; see ``Forward``."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device

    def new_cache(self, batch: int, positions: int) -> KeyValueCache:
        """Return an empty cache."""
        return self.model.new_cache(batch, positions)

    def hidden(self, tree: PrefixTree, counts: Sequence[int], cache: KeyValueCache) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes."""
        return self.model.hidden(tree, cache)

    def extend(
        self, ids: Tensor, start: Tensor, counts: Sequence[int], cache: KeyValueCache
    ) -> Tensor:
        """Append right-padded tokens to cached rows."""
        return self.model.extend(ids, start, cache)

    def logits(self, hidden: Tensor, counts: Sequence[int]) -> Tensor:
        """Return float32 logits, as invariant as the rest is."""
        own = self.model.own
        return self.model.logits(filled(hidden, own.rows if own else 1))[: len(hidden)].float()


class Adapter(NamedTuple):
    """The low-rank adapter of a layer."""

    inner: nn.Module  # A
    outer: nn.Module  # B
    scale: float


Adapters = Mapping[str, Adapter]  # by the names of the layers in the base


class Routes:
    """Which rows of a batch have which model's adapters, at the present call."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int, Adapters]] = []
        self.rows = 1  # what products are filled up to multiples of

    def set(self, adapters: Sequence[Adapters], counts: Sequence[int], own: Blocks | None) -> None:
        """Let so many rows have these adapters each, one after the other."""
        ends = list(accumulate(counts))
        self.rows = own.rows if own else 1
        self.parts = [
            (end - count, end, one)
            for one, count, end in zip(adapters, counts, ends, strict=True)
            if count
        ]


class Routed(nn.Module):
    """A layer of the base, to which each row's own adapter is added."""

    def __init__(self, base: nn.Module, name: str, routes: Routes) -> None:
        super().__init__()
        self.base, self._name, self._routes = base, name, routes
        self.weight, self.bias = base.weight, base.bias  # as the layer has them

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer gives for rows [N, C]; those beyond all models' are filling."""
        found: Tensor = self.base(x)
        for begin, end, adapters in self._routes.parts:
            own = adapters.get(self._name)
            if own is not None:
                given = filled(x[begin:end], self._routes.rows).to(
                    next(own.inner.parameters()).dtype
                )
                added = own.outer(own.inner(given)) * own.scale
                found[begin:end] += added[: end - begin]
        return found


class Member(NamedTuple):
    """A model that can be computed in one batch with others over the same weights."""

    model: LanguageModel
    adapters: Adapters
    products: frozenset[Product]


def member_of(model: LanguageModel) -> Member | None:
    """Return a model as a member of those over the same weights; None where it is computed alone.

    It is a member where these weights are known, their forward pass is lean and torch's, and it has
    adapters on linear layers alone, or none.
    """
    if model.over is None or not isinstance(model.forward, LeanForward) or model.forward.compiled:
        return None
    found = {}
    for name, layer in model.base.named_modules():
        if not hasattr(layer, "lora_A"):
            continue
        if set(layer.lora_A) != {"default"} or layer.lora_embedding_A or layer.merged:
            return None
        scale = layer.scaling["default"]
        found[name] = Adapter(layer.lora_A["default"], layer.lora_B["default"], scale)
    return Member(model, found, products(model.network))


class JoinedBase:
    """The weights that several models are over.

    Args:
        over: the model of these weights alone.
    """

    def __init__(self, over: LanguageModel) -> None:
        self.over = over
        self._networks: dict[frozenset[str], tuple[LanguageModel, Routes]] = {}

    def join(self, members: Sequence[Member]) -> Joined | None:
        """Return the forward pass of several models.

        None where a position has bits of its own in one of them alone, and would not have them in
        all at once.
        """
        names = frozenset(name for member in members for name in member.adapters)
        if names not in self._networks:
            self._networks[names] = self._routed(names)
        alone = [member.model.own for member in members]
        rows = 0
        if all(alone):
            rows = fewest_rows(frozenset[Product]().union(*(one.products for one in members)))
        if any(alone) and not rows:
            return None
        blocks = [own for own in alone if own]
        own = Blocks(rows, blocks[0].queries) if blocks else None
        return Joined(*self._networks[names], [member.adapters for member in members], own)

    def _routed(self, names: frozenset[str]) -> tuple[LanguageModel, Routes]:
        network, routes = with_the_weights_of(self.over.network), Routes()
        for name in sorted(names):
            layer = Routed(network.get_submodule(name), name, routes)
            network.set_submodule(name, layer)
        return LanguageModel(network, self.over.tokenizer), routes


class Joined:
    """The forward pass of several models over the same weights; see ``Forward``.

    Args:
        model: the base, its layers routed.
        routes: of these layers.
        adapters: of each model.
        own: what products come in.
    """

    def __init__(
        self, model: LanguageModel, routes: Routes, adapters: Sequence[Adapters], own: Blocks | None
    ) -> None:
        self._model, self._routes, self._adapters, self.own = model, routes, adapters, own

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._model.device

    def new_cache(self, batch: int, positions: int) -> KeyValueCache:
        """Return an empty cache."""
        forward = self._model.forward
        assert isinstance(forward, LeanForward)
        dtype = self._model.base.dtype
        return forward.new_cache(batch, positions, dtype=dtype, device=self.device, own=self.own)

    def hidden(self, tree: PrefixTree, counts: Sequence[int], cache: KeyValueCache) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes, so many of each model."""
        self._routes.set(self._adapters, counts, self.own)
        return self._model.hidden(tree, cache)

    def extend(
        self, ids: Tensor, start: Tensor, counts: Sequence[int], cache: KeyValueCache
    ) -> Tensor:
        """Append right-padded tokens to cached rows, so many of each model."""
        length = ids.shape[1]
        self._routes.set(self._adapters, [length * count for count in counts], self.own)
        return self._model.extend(ids, start, cache)

    def logits(self, hidden: Tensor, counts: Sequence[int]) -> Tensor:
        """Return float32 logits, as invariant as the rest is."""
        self._routes.set(self._adapters, counts, self.own)
        rows = self.own.rows if self.own else 1
        return self._model.logits(filled(hidden, rows))[: len(hidden)].float()


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
