"""A decoder's forward pass over the distinct prefixes of a batch, with little Python in it.

A tiny model's step is the framework's overhead; a pretrained model's is the arithmetic on positions
that many games share. Each distinct prefix passes the linear layers once, and attention alone runs
over whole sequences. The result is what the Hugging Face model computes (tests compare the two).

Legend: N distinct prefixes, R sequences of T tokens, B cached rows, P cached positions, H heads, G
key-value heads, D width of a head, C width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import CDLL
from functools import cached_property, lru_cache, partial
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sparring.core.errors import ModelError
from sparring.core.rng import Stream
from sparring.models.architectures import Architecture, architecture
from sparring.models.attention import (
    Blocks,
    Causal,
    InvariantAttention,
    attend,
    filled,
    room_for,
)
from sparring.models.compiled import CompiledPass, Copies, Shape, compiled_pass, shape_of
from sparring.models.gpt2 import Gpt2
from sparring.models.kv_cache import KeyValueCache
from sparring.models.prefixes import PrefixTree
from sparring.models.tiny import tiny_model

TOLERANCE = 1e-3  # of the last hidden states, between compiled code and torch


class TreeAttention:
    """Attention of every distinct prefix to the positions of a sequence that it begins.

    Where the tree has parts, own prefixes alone ask; else all positions of all sequences do.
    """

    def __init__(self, parts: Architecture, tree: PrefixTree) -> None:
        self._parts, self._tree, self._flat = parts, tree, tree.node.flatten()
        length, device = tree.node.shape[1], tree.node.device
        self._causal = Causal(torch.arange(length, device=device)[None], length)
        self._asked = [
            (
                len(part.rows),
                asked,
                tree.node[part.rows, : part.positions].flatten(),
                Causal(own, part.positions),
            )
            for part, own, asked in tree.asked()
        ]

    def __call__(self, qkv: Tensor, layer: int, cache: KeyValueCache | None) -> Tensor:
        """Return mixed values [N, H * D] of a layer's queries, keys and values [N, H + 2G, D].

        A cache of R rows takes the keys and values of the sequences.
        """
        parts, tree, flat = self._parts, self._tree, qkv.flatten(1)
        count = len(tree.node)
        if not self._asked:
            q, k, v = _split(parts, self._rows(flat, self._flat, count))
            if cache is not None:
                cache.fill(layer, k, v)
            return self._attend(q, k, v, self._causal, layer).index_select(0, tree.place)
        queries, known = flat.tensor_split([parts.heads * parts.head_width], 1)
        if cache is not None:
            cache.fill(layer, *self._rows(known, self._flat, count).chunk(2, 2))
        found = []
        for count, asked, seen, causal in self._asked:
            q = self._rows(queries, asked, count)
            k, v = self._rows(known, seen, count).chunk(2, 2)
            found.append(self._attend(q, k, v, causal, layer))
        return torch.cat(found).index_select(0, tree.place)

    def _rows(self, x: Tensor, nodes: Tensor, count: int) -> Tensor:
        """Return values [count, T, -1, D] of the nodes [count * T] of sequences."""
        return x.index_select(0, nodes).view(count, len(nodes) // count, -1, self._parts.head_width)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, causal: Causal, layer: int) -> Tensor:
        """Return mixed values [B * T, H * D] of queries [B, T, H, D]."""
        scale, window = self._parts.scale, self._parts.window(layer)
        mixed = attend(q, k.transpose(1, 2), v.transpose(1, 2), causal, scale, window)
        return mixed.flatten(0, 1)


class LeanForward:
    """The forward pass of a known family of decoders.

    Attributes:
        parts: the position-wise parts of the network.
        modules: called around blocks, where weights are split; see ``learn/split.py``.
        recompute: keep blocks' inputs alone for the backward pass (less memory, more time).
    """

    shares_prefixes = True

    def __init__(self, parts: Architecture) -> None:
        self.parts = parts
        self.recompute = False
        self.modules: Sequence[Callable[..., Tensor]] = ()

    def new_cache(
        self,
        batch: int,
        positions: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        own: Blocks | None = None,
    ) -> KeyValueCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions or more.

        With ``own``, what is computed with it has bits of its own.
        """
        if own:
            positions = room_for(positions)
        shape = (self.parts.layers, 2, batch, self.parts.groups, positions, self.parts.head_width)
        return KeyValueCache(tensor=torch.zeros(shape, dtype=dtype, device=device), own=own)

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return the last hidden state [N, C] of every prefix, after the final normalisation.

        Args:
            tree: the prefixes of R sequences.
            cache: if given, R rows that take the keys and values of the sequences; then a prefix
                has the bits that ``extend`` gives it, where the cache has ``own``.
        """
        if cache is not None and self._is_compiled(cache) and not torch.is_grad_enabled():
            return self._hidden_compiled(tree, cache)
        if cache is not None and cache.own is not None:
            return self._hidden_invariant(tree, cache, cache.own)
        parts, attention = self.parts, TreeAttention(self.parts, tree)

        def block(x: Tensor, layer: int) -> Tensor:
            qkv = parts.project(layer, x, places)
            return parts.finish(layer, x, attention(qkv, layer, cache))

        x, places = parts.embed(tree.ids, tree.position)
        again = self.recompute and torch.is_grad_enabled()
        for layer in range(parts.layers):
            run = partial(checkpoint, block, use_reentrant=False) if again else block
            x = self.modules[layer](run, x, layer) if self.modules else run(x, layer)
        return parts.final(x)

    @torch.no_grad()
    def _hidden_invariant(self, tree: PrefixTree, cache: KeyValueCache, own: Blocks) -> Tensor:
        """Do what ``hidden`` does, each prefix with bits of its own, and without gradients."""
        parts, flat = self.parts, tree.node.flatten()
        rows, length = tree.node.shape
        asking: list[tuple[Tensor | slice, int, Tensor, InvariantAttention]] = [
            (part.rows, len(part.rows), asked, self._invariant(at, len(part.rows), own))
            for part, at, asked in tree.asked()
        ]
        if not asking:
            positions = torch.arange(length, device=flat.device)[None]
            asking = [(slice(None), rows, flat, self._invariant(positions, rows, own))]
        ids, places, where = (filled(x, own.rows) for x in (tree.ids, tree.position, tree.place))
        x, places = parts.embed(ids, places)
        width, scale = parts.heads * parts.head_width, parts.scale
        for layer in range(parts.layers):
            queries, known = parts.project(layer, x, places).flatten(1).tensor_split([width], 1)
            both = known.index_select(0, flat).view(rows, length, -1, parts.head_width)
            cache.fill(layer, *both.chunk(2, 2))
            keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
            mixed = []
            for some, count, asked, attention in asking:
                q = queries.index_select(0, asked).view(count, -1, parts.heads, parts.head_width)
                found = attention(q, keys[some], values[some], scale, parts.window(layer))
                mixed.append(found[: len(asked)])
            x = parts.finish(layer, x, torch.cat(mixed).index_select(0, where))
        return parts.final(x)[: len(tree.ids)]

    @cached_property
    def compiled(self) -> CompiledPass | None:
        """The same in one call of compiled code, without gradients; None where torch does it.

        Raises:
            ModelError: the two differ.
        """
        found, shape = compiled_pass(self.parts), shape_of(self.parts)
        if found is not None and shape is not None:
            _check_compiled(shape, found.library)
        return found

    def _is_compiled(self, cache: KeyValueCache) -> bool:
        """Return whether compiled code computes what goes into a cache."""
        return self.compiled is not None and self.compiled.fits(cache)

    def _hidden_compiled(self, tree: PrefixTree, cache: KeyValueCache) -> Tensor:
        """Do what ``hidden`` does, with compiled code."""
        assert self.compiled is not None
        rows, length = tree.node.shape
        row = torch.arange(rows).repeat_interleave(length)
        copies = Copies(tree.node.flatten(), row, torch.arange(length).repeat(rows))
        return self.compiled(tree.ids, tree.position, tree.first // length, copies, cache)

    def _extend_compiled(self, ids: Tensor, positions: Tensor, cache: KeyValueCache) -> Tensor:
        """Do what ``extend`` does for tokens at these positions [B, T], with compiled code."""
        assert self.compiled is not None
        batch, length = ids.shape
        row, place = torch.arange(batch).repeat_interleave(length), positions.flatten()
        copies = Copies(torch.arange(batch * length), row, place)
        found = self.compiled(ids.flatten(), place, row, copies, cache)
        return found.view(batch, length, -1)

    def _invariant(self, positions: Tensor, batch: int, own: Blocks) -> InvariantAttention:
        """Return the attention of queries at these positions, for ``batch`` rows."""
        parts = self.parts
        shape = {"heads": parts.heads, "groups": parts.groups, "width": parts.head_width}
        return InvariantAttention(positions, batch, **shape, blocks=own)

    @torch.no_grad()
    def extend(self, ids: Tensor, start: Tensor, cache: KeyValueCache) -> Tensor:
        """Append tokens to cached sequences.

        Return their last hidden states [B, T, C], without gradients.

        Args:
            ids: int64 [B, T], new tokens, right-padded.
            start: int64 [B], the position of each row's first new token: its cached length.
            cache: at least ``max(start) + T`` positions long; the new keys and values are written
                into it.
        """
        positions = start[:, None] + torch.arange(ids.shape[1], device=ids.device)
        if self._is_compiled(cache):
            return self._extend_compiled(ids, positions, cache)
        return self._extend(ids, positions, cache)

    def _extend(self, ids: Tensor, positions: Tensor, cache: KeyValueCache) -> Tensor:
        """Do what ``extend`` does for tokens at these positions [B, T], with torch."""
        parts = self.parts
        batch, length = ids.shape
        rows = torch.arange(batch, device=ids.device)[:, None]
        own, count = cache.own, batch * length
        fill = own.rows if own else 1
        attention: Callable[..., Tensor] = (
            self._invariant(positions, batch, own)
            if own
            else partial(attend, causal=Causal(positions, cache.positions))
        )
        x, places = parts.embed(filled(ids.flatten(), fill), filled(positions.flatten(), fill))
        for layer in range(parts.layers):
            qkv = parts.project(layer, x, places)[:count]
            q, k, v = _split(parts, qkv.view(batch, length, -1, parts.head_width))
            keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
            keys[rows, :, positions] = k
            values[rows, :, positions] = v
            mixed = attention(q, keys, values, scale=parts.scale, window=parts.window(layer))
            x = parts.finish(layer, x, mixed if own else mixed.flatten(0, 1))
        return parts.final(x)[:count].view(batch, length, -1)


def _split(parts: Architecture, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries [B, T, H, D], keys and values [B, T, G, D] of [B, T, H + 2G, D]."""
    q, k, v = torch.split(qkv, [parts.heads, parts.groups, parts.groups], 2)
    return q, k, v


@lru_cache(maxsize=64)
def _check_compiled(shape: Shape, library: CDLL) -> None:
    """Raise ModelError if code computes something else than torch, with random weights."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        network = tiny_model(
            vocabulary_size=32,
            stream=Stream.from_seed(0),
            hidden_size=shape.width,
            heads=shape.heads,
            context=16,
            activation="relu" if shape.relu else "gelu_new",
            epsilon=shape.epsilon,
        )
        draw = torch.Generator().manual_seed(0)
        for weight in network.parameters():
            weight.normal_(0, 0.2, generator=draw)
        ids = torch.randint(0, 32, (2, 12), generator=draw)
        parts = cast(Gpt2, architecture(network.eval()))
        forward = LeanForward(parts)
        forward.compiled = CompiledPass(parts, library)
        at = torch.arange(12).expand(2, 12)
        compiled, by_torch = (
            extend(ids, at, forward.new_cache(2, 16, dtype=torch.float32, device=ids.device))
            for extend in (forward._extend_compiled, forward._extend)
        )
    difference = float((compiled - by_torch).abs().max())
    if not difference < TOLERANCE:
        raise ModelError(
            f"The compiled forward pass of this model differs by {difference:.2g} from torch's. "
            "Name another compiler in $CC, or leave it out by CC=none."
        )
