"""A decoder's forward pass over the distinct prefixes of a batch, with little Python in it.

At the tiny model's size the time of a step is the framework's overhead; at a pretrained model's
size it is the arithmetic on positions that many games share. Each distinct prefix passes the linear
layers once, and attention alone runs over whole sequences. The result is what the Hugging Face
model computes (tests compare the two).

Legend: N distinct prefixes, R sequences of T tokens, B cached rows, P cached positions, H heads, G
key-value heads, D width of a head, C width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sparring.models.architectures import Architecture
from sparring.models.prefixes import PrefixTree

# up to this many attention scores, plain products beat the fused kernel on a CPU
EXPLICIT_SCORES = 1 << 21


@dataclass(kw_only=True, slots=True)
class KeyValueCache:
    """Keys and values of the positions computed so far, left-aligned.

    Entry p of a row is its position p.

    ``tensor`` has shape [layers, 2, B, G, P, D]. Entries beyond a row's length are garbage that the
    mask hides and later writes replace.
    """

    tensor: Tensor

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
        return KeyValueCache(tensor=self.tensor.index_select(2, rows))

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
        self, batch: int, positions: int, *, dtype: torch.dtype, device: torch.device
    ) -> KeyValueCache:
        """Return an empty cache for ``batch`` rows of ``positions`` positions."""
        shape = (self.parts.layers, 2, batch, self.parts.groups, positions, self.parts.head_width)
        return KeyValueCache(tensor=torch.zeros(shape, dtype=dtype, device=device))

    def hidden(self, tree: PrefixTree, cache: KeyValueCache | None = None) -> Tensor:
        """Return the last hidden state [N, C] of every prefix, after the final normalisation.

        Args:
            tree: the prefixes of R sequences.
            cache: if given, R rows that take the keys and values of the sequences.
        """
        parts = self.parts
        rows, length = tree.node.shape
        flat, causal = (
            tree.node.flatten(),
            _Causal(torch.arange(length, device=tree.node.device)[None], length),
        )

        def block(x: Tensor, layer: int) -> Tensor:
            qkv = parts.project(layer, x, places)
            q, k, v = _split(
                parts, qkv.flatten(1).index_select(0, flat).view(rows, length, -1, parts.head_width)
            )
            if cache is not None:
                cache.tensor[layer, 0, :, :, :length] = k.transpose(1, 2)
                cache.tensor[layer, 1, :, :, :length] = v.transpose(1, 2)
            mixed = _attend(
                q, k.transpose(1, 2), v.transpose(1, 2), causal, parts.scale, parts.window(layer)
            )
            return parts.finish(layer, x, mixed.index_select(0, tree.first))

        x, places = parts.embed(tree.ids, tree.position)
        again = self.recompute and torch.is_grad_enabled()
        for layer in range(parts.layers):
            x = checkpoint(block, x, layer, use_reentrant=False) if again else block(x, layer)
        return parts.final(x)

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
        causal = _Causal(positions, cache.positions)
        x, places = parts.embed(ids.flatten(), positions.flatten())
        for layer in range(parts.layers):
            q, k, v = _split(
                parts, parts.project(layer, x, places).view(batch, length, -1, parts.head_width)
            )
            keys, values = cache.tensor[layer, 0], cache.tensor[layer, 1]
            keys[rows, :, positions] = k
            values[rows, :, positions] = v
            x = parts.finish(
                layer, x, _attend(q, keys, values, causal, parts.scale, parts.window(layer))
            )
        return parts.final(x).view(batch, length, -1)


def _split(parts: Architecture, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries [B, T, H, D], keys and values [B, T, G, D] of [B, T, H + 2G, D]."""
    q, k, v = torch.split(qkv, [parts.heads, parts.groups, parts.groups], 2)
    return q, k, v


class _Causal:
    """Which of P positions the queries at ``positions`` [b, T] see (b is 1 or B).

    It is made once per window and form.
    """

    def __init__(self, positions: Tensor, count: int) -> None:
        self.positions, self.count = positions, count
        self._seen: dict[int | None, Tensor] = {}
        self._bias: dict[tuple[int | None, int], Tensor] = {}

    def seen(self, window: int | None) -> Tensor:
        """Return a mask [b, T, P], true where a query sees a position."""
        if window not in self._seen:
            distance = self.positions[:, :, None] - torch.arange(
                self.count, device=self.positions.device
            )
            self._seen[window] = (
                distance >= 0 if window is None else (distance >= 0) & (distance < window)
            )
        return self._seen[window]

    def bias(self, window: int | None, rows: int, repeats: int, like: Tensor) -> Tensor:
        """Return the mask as terms of the scores, 0 or -inf, for rows [b * G, repeats * T, P].

        B = 1 broadcasts.
        """
        if (window, repeats) not in self._bias:
            seen = self.seen(window)
            bias = torch.zeros(seen.shape, dtype=like.dtype, device=like.device).masked_fill_(
                ~seen, -torch.inf
            )
            bias = bias.repeat(1, repeats, 1)
            self._bias[window, repeats] = (
                bias if len(bias) == 1 else bias.repeat_interleave(rows // len(bias), 0)
            )
        return self._bias[window, repeats]


def _attend(
    q: Tensor, k: Tensor, v: Tensor, causal: _Causal, scale: float, window: int | None
) -> Tensor:
    """Return attention's mixed values [B * T, H * D].

    They are those of queries [B, T, H, D] over keys and values [B, G, P, D].
    """
    batch, length, heads, width = q.shape
    groups, positions = k.shape[1], k.shape[2]
    if q.device.type == "cpu" and batch * heads * length * positions <= EXPLICIT_SCORES:
        shared, rows = heads // groups, batch * groups
        queries = (
            q.view(batch, length, groups, shared, width)
            .permute(0, 2, 3, 1, 4)
            .reshape(rows, shared * length, width)
        )
        bias = causal.bias(window, rows, shared, q)
        scores = torch.baddbmm(
            bias, queries, k.reshape(rows, positions, width).transpose(1, 2), alpha=scale
        )
        mixed = torch.bmm(scores.softmax(-1), v.reshape(rows, positions, width))
        return (
            mixed.view(batch, groups, shared, length, width)
            .permute(0, 3, 1, 2, 4)
            .reshape(batch * length, heads * width)
        )
    seen = causal.seen(window)[:, None]
    mixed = F.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=seen, scale=scale, enable_gqa=heads != groups
    )
    return mixed.transpose(1, 2).reshape(batch * length, heads * width)
