"""Computes contexts before replies are drawn, and caches keys and values of conversations.

Keys and values are cached under the exact ids of a conversation. A turn adds only its new
positions; all conversations that begin with the same ids share the earlier ones. Memory therefore
grows with the number of computed tokens, not with the lengths of conversations.

Several models may be adapters over one base, such as the members of a league. The base's products
then run over the rows of all models at once, and each row adds the output of its model's adapters:
W x + (alpha / rank) B A x. If the rows of each model alone do not depend on their batch, they do
not depend on the common batch: products are padded to a number of rows that works for all models
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

from sparring.models.adapters import share_weights
from sparring.models.attention import KeyValueCache, PaddingSizes, PrefixTree, pad_rows, prefix_tree
from sparring.models.forward_pass import TreeForward
from sparring.models.language_model import LanguageModel, Product, fewest_rows, products_of


class Forward(Protocol):
    """The forward pass of one model or of several; the rows of the first model come first.

    ``counts`` holds the number of rows of each model.
    """

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    def new_cache(self, batch: int, positions: int) -> KeyValueCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        ...

    def hidden(self, tree: PrefixTree, counts: Sequence[int], cache: KeyValueCache) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes, ``counts`` of each model."""
        ...

    def extend(
        self, ids: Tensor, start: Tensor, counts: Sequence[int], cache: KeyValueCache
    ) -> Tensor:
        """Append right-padded tokens [B, T] at positions ``start`` [B] of cached rows."""
        ...

    def logits(self, hidden: Tensor, counts: Sequence[int]) -> Tensor:
        """Return float32 logits [N, V] of hidden states [N, C]."""
        ...


class SingleModelForward:
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
        """Return float32 logits [N, V], padded like all products of the model."""
        padding = self.model.padding
        return self.model.logits(pad_rows(hidden, padding.rows if padding else 1))[
            : len(hidden)
        ].float()


class Adapter(NamedTuple):
    """The low-rank adapter of a layer."""

    inner: nn.Module  # A
    outer: nn.Module  # B
    scale: float  # alpha / rank


Adapters = Mapping[str, Adapter]  # name of a layer in the base -> its adapter


class AdapterRoutes:
    """The adapters of each row of the current batch."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int, Adapters]] = []  # (first row, end, adapters)
        self.rows = 1  # products are padded to multiples of this number of rows

    def set(
        self, adapters: Sequence[Adapters], counts: Sequence[int], padding: PaddingSizes | None
    ) -> None:
        """Assign each model's adapters to the next ``counts`` rows of a batch."""
        ends = list(accumulate(counts))
        self.rows = padding.rows if padding else 1
        self.parts = [
            (end - count, end, model_adapters)
            for model_adapters, count, end in zip(adapters, counts, ends, strict=True)
            if count
        ]


class AdaptedLayer(nn.Module):
    """A layer of the base that adds the output of each row's adapter."""

    def __init__(self, base: nn.Module, name: str, routes: AdapterRoutes) -> None:
        super().__init__()
        self.base, self._name, self._routes = base, name, routes
        self.weight, self.bias = base.weight, base.bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for rows [N, C]; rows after those of all models are padding."""
        result: Tensor = self.base(x)
        for begin, end, adapters in self._routes.parts:
            adapter = adapters.get(self._name)
            if adapter is not None:
                inputs = pad_rows(x[begin:end], self._routes.rows).to(
                    next(adapter.inner.parameters()).dtype
                )
                adapter_output = adapter.outer(adapter.inner(inputs)) * adapter.scale
                result[begin:end] += adapter_output[: end - begin]
        return result


class BaseMember(NamedTuple):
    """A model that can share a batch with others over the same base."""

    model: LanguageModel
    adapters: Adapters
    products: frozenset[Product]


def member_of(model: LanguageModel) -> BaseMember | None:
    """Return a model as a member of a batch over its base; None if it cannot share a batch.

    A member has a known base that runs through ``TreeForward`` by torch, not by compiled code.
    If it has adapters, they are on linear layers only.
    """
    forward = model.forward
    if model.shared_base is None or not isinstance(forward, TreeForward) or forward.compiled:
        return None
    adapters = {}
    for name, layer in model.base.named_modules():
        if not hasattr(layer, "lora_A"):
            continue
        if set(layer.lora_A) != {"default"} or layer.lora_embedding_A or layer.merged:
            return None
        scale = layer.scaling["default"]
        adapters[name] = Adapter(layer.lora_A["default"], layer.lora_B["default"], scale)
    return BaseMember(model, adapters, products_of(model.network))


class BaseWeights:
    """The base weights that several models share.

    Args:
        shared_base: the model of the base without adapters.
    """

    def __init__(self, shared_base: LanguageModel) -> None:
        self.shared_base = shared_base
        self._networks: dict[frozenset[str], tuple[LanguageModel, AdapterRoutes]] = {}

    def join(self, members: Sequence[BaseMember]) -> JointForward | None:
        """Return the forward pass of several models; None if rows would depend on the batch."""
        names = frozenset(name for member in members for name in member.adapters)
        if names not in self._networks:
            self._networks[names] = self._add_routes(names)
        paddings = [member.model.padding for member in members]
        rows = 0
        if all(paddings):
            rows = fewest_rows(frozenset[Product]().union(*(member.products for member in members)))
        if any(paddings) and not rows:
            return None
        sizes = [padding for padding in paddings if padding]
        common_padding = PaddingSizes(rows, sizes[0].queries) if sizes else None
        adapters = [member.adapters for member in members]
        return JointForward(*self._networks[names], adapters, common_padding)

    def _add_routes(self, names: frozenset[str]) -> tuple[LanguageModel, AdapterRoutes]:
        network, routes = share_weights(self.shared_base.network), AdapterRoutes()
        for name in sorted(names):
            layer = AdaptedLayer(network.get_submodule(name), name, routes)
            network.set_submodule(name, layer)
        return LanguageModel(network, self.shared_base.tokenizer), routes


class JointForward:
    """The forward pass of several models over the same base; see ``Forward``.

    Args:
        model: the base, with layers that add adapters.
        routes: the adapters of each row in these layers.
        adapters: adapters of each model.
        padding: padding sizes of the products.
    """

    def __init__(
        self,
        model: LanguageModel,
        routes: AdapterRoutes,
        adapters: Sequence[Adapters],
        padding: PaddingSizes | None,
    ) -> None:
        self._model, self._routes, self._adapters, self.padding = model, routes, adapters, padding

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._model.device

    def new_cache(self, batch: int, positions: int) -> KeyValueCache:
        """Return an empty cache."""
        forward = self._model.forward
        assert isinstance(forward, TreeForward)
        dtype = self._model.base.dtype
        return forward.new_cache(
            batch, positions, dtype=dtype, device=self.device, padding=self.padding
        )

    def hidden(self, tree: PrefixTree, counts: Sequence[int], cache: KeyValueCache) -> Tensor:
        """Return hidden states [N, C] of distinct prefixes, ``counts`` of each model."""
        self._routes.set(self._adapters, counts, self.padding)
        return self._model.hidden(tree, cache)

    def extend(
        self, ids: Tensor, start: Tensor, counts: Sequence[int], cache: KeyValueCache
    ) -> Tensor:
        """Append right-padded tokens to cached rows, ``counts`` of each model."""
        length = ids.shape[1]
        self._routes.set(self._adapters, [length * count for count in counts], self.padding)
        return self._model.extend(ids, start, cache)

    def logits(self, hidden: Tensor, counts: Sequence[int]) -> Tensor:
        """Return float32 logits [N, V], padded like all products of the models."""
        self._routes.set(self._adapters, counts, self.padding)
        rows = self.padding.rows if self.padding else 1
        return self._model.logits(pad_rows(hidden, rows))[: len(hidden)].float()


Ids = tuple[int, ...]


class CachedSpan(NamedTuple):
    """Where an unbroken range of a conversation's positions is in the cache."""

    batch: int
    row: int
    start: int  # first position of the span in the conversation
    length: int


CachedSpans = tuple[CachedSpan, ...]  # adjacent spans from position 0 on


class CacheBudget:
    """The prefix caches that share one budget of bytes; references to them are weak."""

    def __init__(self) -> None:
        self.caches: WeakSet[PrefixCache] = WeakSet()
        self._last_number = 0

    @property
    def bytes(self) -> int:
        """Size of all caches."""
        return sum(cache.bytes for cache in self.caches)

    def new_number(self) -> int:
        """Return a number for a new batch, larger than all earlier numbers."""
        self._last_number += 1
        return self._last_number

    def batches(self) -> dict[int, KeyValueCache]:
        """Return all batches by their numbers."""
        return {
            index: batch for cache in self.caches for index, (batch, _) in cache.batches.items()
        }

    def drop_beyond(self, budget: int) -> None:
        """Drop the oldest batches until the size fits into a budget; the last one stays."""
        num_bytes, num_batches = self.bytes, sum(len(cache.batches) for cache in self.caches)
        while num_batches > 1 and num_bytes > budget:
            nonempty = (cache for cache in self.caches if cache.batches)
            num_bytes -= min(nonempty, key=lambda cache: next(iter(cache.batches))).drop()
            num_batches -= 1


class PrefixCache:
    """Cached spans of conversations with one model; the oldest are dropped beyond a budget.

    Args:
        budget: largest size in bytes of all caches of ``shared`` together.
        shared: the budget shared with other models' caches; None: a new budget.

    Attributes:
        tokens_computed: number of positions that the network computed for this model.
    """

    def __init__(self, budget: int, shared: CacheBudget | None = None) -> None:
        self.budget, self.shared = budget, shared or CacheBudget()
        self.shared.caches.add(self)
        self.tokens_computed = 0
        self.batches: OrderedDict[int, tuple[KeyValueCache, list[Ids]]] = OrderedDict()
        self._spans_by_ids: dict[Ids, CachedSpans] = {}

    @property
    def bytes(self) -> int:
        """Size of all batches."""
        return sum(batch.bytes for batch, _ in self.batches.values())

    def find(self, ids: Ids) -> CachedSpans | None:
        """Return the spans of these ids, or None."""
        spans = self._spans_by_ids.get(ids)
        # the first span is the oldest: if it is cached, all spans are
        return spans if spans is not None and spans[0].batch in self.batches else None

    def add(self, cache: KeyValueCache, rows: Mapping[Ids, int], prefixes: Sequence[Ids]) -> None:
        """Store rows of a cache.

        Args:
            cache: holds the rows.
            rows: the index of each row in the cache, by its ids.
            prefixes: the prefix of each row that may be cached already; (): none.
        """
        prefix_spans = {
            ids: self.find(prefixes[n]) if prefixes[n] else None for ids, n in rows.items()
        }
        starts = [len(prefixes[n]) if prefix_spans[ids] else 0 for ids, n in rows.items()]
        lengths = [len(ids) - start for ids, start in zip(rows, starts, strict=True)]
        device = cache.device
        batch = cache.part(
            torch.tensor(list(rows.values()), device=device),
            torch.tensor(starts, device=device),
            max(lengths),
        )
        number = self.shared.new_number()
        self.batches[number] = batch, list(rows)
        for row, (ids, start, length) in enumerate(zip(rows, starts, lengths, strict=True)):
            span = CachedSpan(number, row, start, length)
            self._spans_by_ids[ids] = (*(prefix_spans[ids] or ()), span)
        self.shared.drop_beyond(self.budget)

    def drop(self) -> int:
        """Drop the oldest batch; return its bytes."""
        number, (batch, ids_of_rows) = self.batches.popitem(last=False)
        for ids in ids_of_rows:
            if (spans := self._spans_by_ids.get(ids)) is not None and spans[-1].batch == number:
                del self._spans_by_ids[ids]
        return batch.bytes

    def copy(self, conversations: Sequence[CachedSpans], cache: KeyValueCache) -> None:
        """Write cached conversations into rows 0, 1, 2, ... of a cache, batch by batch."""
        sources: dict[int, list[tuple[int, int, int, int]]] = {}
        for row, spans in enumerate(conversations):
            for span in spans:
                sources.setdefault(span.batch, []).append((span.row, row, span.start, span.length))
        # entries beyond the end of a shorter span are overwritten by the next span of its row
        batches = self.shared.batches()
        for number in sorted(sources):
            source_rows, target_rows, start, length = torch.tensor(
                sources[number], device=cache.device
            ).unbind(1)
            cache.put(batches[number], source_rows, target_rows, start, int(length.max()))

    def clear(self) -> None:
        """Drop all cached keys and values, after a change of the weights."""
        self._spans_by_ids.clear()
        self.batches.clear()


class ContextRows(NamedTuple):
    """Distinct contexts of one model or several, those of the first model first."""

    ids: list[Ids]
    prefix_lengths: list[int]  # length of each context's prefix that may be cached; 0: none
    owners: list[int]  # number of each context's model

    def select(self, indices: Sequence[int]) -> ContextRows:
        """Return the rows with these indices."""
        ids, lengths, owners = self
        return ContextRows(
            [ids[n] for n in indices], [lengths[n] for n in indices], [owners[n] for n in indices]
        )


class Prefill:
    """Computes contexts with one model or several over one base.

    Args:
        forward: the forward pass of the models.
        caches: prefix cache of each model, with a common budget.
    """

    def __init__(self, forward: Forward, caches: Sequence[PrefixCache]) -> None:
        self.forward, self.caches = forward, caches

    def compute(self, rows: ContextRows, room: int) -> tuple[Tensor, KeyValueCache]:
        """Return the last hidden state [B, C] and the cache of every context.

        Args:
            rows: the contexts.
            room: number of tokens to leave free after each context.
        """
        prefixes = [
            self.caches[owner].find(ids[:length]) if length else None
            for ids, length, owner in zip(*rows, strict=True)
        ]
        new_rows = [row for row, spans in enumerate(prefixes) if spans is None]
        cached_rows = [row for row, spans in enumerate(prefixes) if spans is not None]
        room += max(map(len, rows.ids))
        if not cached_rows:
            return self._compute_new(rows, room)
        cached_prefixes = [spans for spans in prefixes if spans is not None]
        if not new_rows:
            return self._extend_cached(rows, cached_prefixes, room)
        parts = [
            (new_rows, *self._compute_new(rows.select(new_rows), room)),
            (cached_rows, *self._extend_cached(rows.select(cached_rows), cached_prefixes, room)),
        ]
        device = self.forward.device
        hidden = torch.empty(
            (len(prefixes), parts[0][1].shape[1]), dtype=parts[0][1].dtype, device=device
        )
        cache = self.forward.new_cache(len(prefixes), room)
        for part_rows, states, part_cache in parts:
            index = torch.tensor(part_rows, device=device)
            hidden[index] = states
            cache.copy_from(part_cache, torch.arange(len(part_rows), device=device), index, room)
        return hidden, cache

    def count_rows(self, owners: Sequence[int] | np.ndarray) -> list[int]:
        """Return the number of rows of each model."""
        counts: list[int] = np.bincount(owners, minlength=len(self.caches)).tolist()
        return counts

    def count_computed(self, counts: Sequence[int]) -> None:
        """Add the numbers of positions that the network computed for each model."""
        for cache, num_rows in zip(self.caches, counts, strict=True):
            cache.tokens_computed += num_rows

    def _compute_new(self, rows: ContextRows, room: int) -> tuple[Tensor, KeyValueCache]:
        device, count = self.forward.device, len(rows.ids)
        tree = prefix_tree(rows.ids, rows.owners)
        counts = self.count_rows(
            np.array(rows.owners)[(tree.flat_index // tree.node.shape[1]).numpy()]
        )
        tree, cache = tree.to(device), self.forward.new_cache(count, room)
        ends = tree.node[
            torch.arange(count, device=device),
            torch.tensor([len(ids) - 1 for ids in rows.ids], device=device),
        ]
        self.count_computed(counts)
        return self.forward.hidden(tree, counts, cache)[ends], cache

    def _extend_cached(
        self, rows: ContextRows, prefixes: list[CachedSpans], room: int
    ) -> tuple[Tensor, KeyValueCache]:
        device, count, prefix_lengths = self.forward.device, len(rows.ids), rows.prefix_lengths
        num_new = [len(ids) - begin for ids, begin in zip(rows.ids, prefix_lengths, strict=True)]
        width = max(num_new)
        # padding is written after the ends of shorter rows
        cache = self.forward.new_cache(count, max(max(prefix_lengths) + width, room))
        self.caches[0].copy(prefixes, cache)
        padded_ids = np.zeros((count, width), dtype=np.int64)
        for row, (ids, begin) in enumerate(zip(rows.ids, prefix_lengths, strict=True)):
            padded_ids[row, : len(ids) - begin] = ids[begin:]
        start = torch.tensor(prefix_lengths, device=device)
        hidden = self.forward.extend(
            torch.from_numpy(padded_ids).to(device), start, self.count_rows(rows.owners), cache
        )
        self.count_computed(
            np.bincount(rows.owners, num_new, len(self.caches)).astype(np.int64).tolist()
        )
        return hidden[
            torch.arange(count, device=device), torch.tensor(num_new, device=device) - 1
        ], cache
