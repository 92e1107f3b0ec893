"""Several models over the same frozen weights, computed in one batch.

Members of a league are adapters over one base. The base's products are of the rows of all of them
at once, and each row has the adapters of its own model added: W x + (alpha / rank) B A x, unmerged,
as peft computes them. Where a row's bits are its own in each model alone, they are the same bits
here: products are filled up to a number of rows that is good for those of all the models
(``models/invariance.py``).

Legend: N positions, B rows, T tokens, C width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from sparring.models.adapters import with_the_weights_of
from sparring.models.attention import Blocks, filled
from sparring.models.invariance import Product, fewest_rows, products
from sparring.models.kv_cache import KeyValueCache
from sparring.models.language_model import LanguageModel
from sparring.models.lean import LeanForward
from sparring.models.prefixes import PrefixTree


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
        """Return the model whose layers of these names have adapters by row."""
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
        self,
        model: LanguageModel,
        routes: Routes,
        adapters: Sequence[Adapters],
        own: Blocks | None,
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
