"""A decoder's forward pass over the distinct prefixes of a batch, with little Python in it.

At the tiny model's size the time of a step is the framework's overhead; at a pretrained model's
size it is the arithmetic on positions that many games share. Each distinct prefix passes the linear
layers once, and attention alone runs over whole sequences. The result is what the Hugging Face
model computes (tests compare the two).

Legend: N distinct prefixes, R sequences of T tokens, B cached rows, P cached positions, H heads, G
key-value heads, D width of a head, C width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sparring.models.architectures import Architecture
from sparring.models.attention import (
    Blocks,
    Causal,
    InvariantAttention,
    attend,
    filled,
    room_for,
)
from sparring.models.prefixes import PrefixTree


@dataclass(kw_only=True, slots=True)
class KeyValueCache:
    """Keys and values of the positions computed so far, left-aligned.

    Entry p of a row is its position p.

    ``tensor`` has shape [layers, 2, B, G, P, D]. Entries beyond a row's length are garbage that the
    mask hides and later writes replace.
    """

    tensor: Tensor
    own: Blocks | None = None  # None: what is computed with it has no bits of its own

    @property
    def device(self) -> torch.device:
        """Where it is kept."""
        return self.tensor.device

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def positions(self) -> int:
        """Room P of a row."""
        return self.tensor.shape[4]

    def take(self, rows: Tensor) -> KeyValueCache:
        """Return a copy that holds these rows."""
        return KeyValueCache(tensor=self.tensor.index_select(2, rows), own=self.own)

    def copy_from(self, other: KeyValueCache, theirs: Tensor, ours: Tensor, length: int) -> None:
        """Copy the first ``length`` positions of another cache into rows ``ours``.

        They are taken from its rows ``theirs``.
        """
        self.tensor[:, :, ours, :, :length] = other.tensor[:, :, theirs, :, :length]

    def part(self, rows: Tensor, start: Tensor, length: int) -> KeyValueCache:
        """Return a copy of ``length`` positions of these rows [K].

        Each is taken from its own ``start`` [K].
        """
        found = self.tensor[:, :, rows[:, None], :, self._from(start, length)]
        return KeyValueCache(tensor=found.permute(2, 3, 0, 4, 1, 5).contiguous())

    def put(
        self, other: KeyValueCache, theirs: Tensor, ours: Tensor, start: Tensor, length: int
    ) -> None:
        """Copy the first ``length`` positions of rows ``theirs`` [K] of another cache.

        They go into rows ``ours``, each to its ``start``.
        """
        found = other.tensor[:, :, theirs, :, :length]
        self.tensor[:, :, ours[:, None], :, self._from(start, length)] = found.permute(
            2, 4, 0, 1, 3, 5
        )

    def _from(self, start: Tensor, length: int) -> Tensor:
        """Return positions [K, length] from each start on.

        What would be beyond the room is its last position, which is free.
        """
        return (start[:, None] + torch.arange(length, device=start.device)).clamp_(
            max=self.positions - 1
        )


class LeanForward:
    """The forward pass of a known family of decoders.

    Attributes:
        parts: the position-wise parts of the network.
        recompute: keep only each block's input for the backward pass and compute the rest again
            (less memory, more time).
    """

    shares_prefixes = True

    def __init__(self, parts: Architecture) -> None:
        self.parts = parts
        self.recompute = False

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
        if cache is not None and cache.own is not None:
            return self._hidden_invariant(tree, cache, cache.own)
        parts = self.parts
        rows, length = tree.node.shape
        flat, causal = (
            tree.node.flatten(),
            Causal(torch.arange(length, device=tree.node.device)[None], length),
        )

        def block(x: Tensor, layer: int) -> Tensor:
            qkv = parts.project(layer, x, places)
            q, k, v = _split(
                parts, qkv.flatten(1).index_select(0, flat).view(rows, length, -1, parts.head_width)
            )
            if cache is not None:
                cache.tensor[layer, 0, :, :, :length] = k.transpose(1, 2)
                cache.tensor[layer, 1, :, :, :length] = v.transpose(1, 2)
            mixed = attend(
                q, k.transpose(1, 2), v.transpose(1, 2), causal, parts.scale, parts.window(layer)
            )
            return parts.finish(layer, x, mixed.flatten(0, 1).index_select(0, tree.first))

        x, places = parts.embed(tree.ids, tree.position)
        again = self.recompute and torch.is_grad_enabled()
        for layer in range(parts.layers):
            x = checkpoint(block, x, layer, use_reentrant=False) if again else block(x, layer)
        return parts.final(x)

    @torch.no_grad()
    def _hidden_invariant(self, tree: PrefixTree, cache: KeyValueCache, own: Blocks) -> Tensor:
        """Do what ``hidden`` does, each prefix with bits of its own, and without gradients."""
        parts, flat = self.parts, tree.node.flatten()
        rows, length = tree.node.shape
        positions = torch.arange(length, device=tree.node.device)[None]
        attention = self._invariant(positions, rows, own)
        first, ids, places = (filled(x, own.rows) for x in (tree.first, tree.ids, tree.position))
        x, places = parts.embed(ids, places)
        for layer in range(parts.layers):
            qkv = parts.project(layer, x, places).flatten(1).index_select(0, flat)
            q, k, v = _split(parts, qkv.view(rows, length, -1, parts.head_width))
            keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
            keys[:, :, :length] = k.transpose(1, 2)
            values[:, :, :length] = v.transpose(1, 2)
            mixed = attention(q, keys, values, parts.scale, parts.window(layer))
            x = parts.finish(layer, x, mixed.index_select(0, first))
        return parts.final(x)[: len(tree.ids)]

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
        parts = self.parts
        batch, length = ids.shape
        positions = start[:, None] + torch.arange(length, device=ids.device)
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
