"""Attention, the cache of keys and values, and the tree of the prefixes of a batch.

``attend`` uses the fastest algorithm for the shapes of a batch, so its rounding depends on the
batch. With ``InvariantAttention`` a query has exactly the same result in any batch, in one thread
and float32 on a CPU. A library chooses the order of a sum by the shapes of a product.
Therefore all products of attention have the same number of queries: longer blocks are split, and
shorter ones padded. The number P of a query's keys depends only on its
position; a mask hides some keys.

``PrefixTree`` has one node per distinct prefix, because episodes begin with the same rules, and
replies of a group with the same prompt. The hidden state of a position depends only on its prefix.
Networks therefore compute each node once. Only attention runs over whole sequences.

Legend: B rows, T queries of a row, P positions, H heads, G key-value heads, D width of a head, K
chosen rows; R sequences, T tokens of the longest one, N distinct prefixes (nodes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from sparring.core.records import IntArray

# below this number of pairs of positions in a batch, one product is faster than parts
MAX_WHOLE_PAIRS = 1 << 15


class PrefixPart(NamedTuple):
    """Sequences with about the same number of new prefixes.

    A prefix is new in a sequence if no earlier sequence in sorted order has it.

    Attributes:
        rows: indices of the sequences, [K].
        begin: the position of each sequence's first new prefix, [K].
        queries: number of queries per sequence: the largest number of new prefixes of one.
        positions: length of the longest sequence in tokens.
    """

    rows: Tensor
    begin: Tensor
    queries: int
    positions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixTree:
    """The distinct prefixes of a batch of sequences.

    Shorter sequences are padded at the end with nodes of other sequences; no position attends to
    the padding. Every prefix is new in exactly one sequence. If sequences share many prefixes,
    attention computes only the queries of new prefixes, one part of ``parts`` at a time.
    """

    ids: Tensor  # [N] the last token of each prefix
    position: Tensor  # [N] the length of each prefix, minus one
    node: Tensor  # [R, T] the prefix that ends at each position of each sequence
    flat_index: Tensor  # [N] a flat index of each prefix into [R, T]
    query_index: Tensor  # [N] index into the queries of all parts; `flat_index` if none
    parts: tuple[PrefixPart, ...] = ()  # empty: one product of all positions is faster

    def to(self, device: torch.device) -> PrefixTree:
        """Return this tree on a device."""
        return PrefixTree(
            ids=self.ids.to(device),
            position=self.position.to(device),
            node=self.node.to(device),
            flat_index=self.flat_index.to(device),
            query_index=self.query_index.to(device),
            parts=tuple(
                part._replace(rows=part.rows.to(device), begin=part.begin.to(device))
                for part in self.parts
            ),
        )

    def queries_of_parts(self) -> Iterator[tuple[PrefixPart, Tensor, Tensor]]:
        """Yield each part, its queries' positions [K, queries], and their nodes, flattened.

        Queries beyond the end of a sequence are computed, but not used.
        """
        for part in self.parts:
            positions = part.begin[:, None] + torch.arange(part.queries, device=part.begin.device)
            positions.clamp_(max=part.positions - 1)
            yield part, positions, self.node[part.rows[:, None], positions].flatten()


def prefix_tree(
    sequences: Sequence[tuple[int, ...]], owners: Sequence[int] | None = None
) -> PrefixTree:
    """Return the tree of the prefixes of R non-empty sequences, with nodes in sorted order.

    Args:
        sequences: the ids of each sequence.
        owners: index of each sequence's weights. Sequences with different weights share no
            prefixes, and are sorted by this index first. None: all have the same weights.
    """
    owner_of = np.zeros(len(sequences), dtype=np.int64) if owners is None else np.array(owners)
    order = sorted(range(len(sequences)), key=lambda row: (owner_of[row], sequences[row]))
    width = max(map(len, sequences))
    ids = np.array(
        [(*sequences[row], *(-1,) * (width - len(sequences[row]))) for row in order], dtype=np.int64
    )
    is_shared = np.zeros(ids.shape, dtype=bool)  # by an earlier sequence
    is_same_owner = (owner_of[order][1:] == owner_of[order][:-1])[:, None]
    is_equal = (ids[1:] == ids[:-1]) & (ids[1:] >= 0) & is_same_owner
    is_shared[1:] = np.logical_and.accumulate(is_equal, axis=1)
    is_new = ~is_shared & (ids >= 0)
    new_index = np.where(is_new, np.cumsum(is_new).reshape(ids.shape) - 1, -1)
    node = np.empty_like(new_index)
    node[order] = np.maximum(np.maximum.accumulate(new_index, axis=0), 0)
    row, position = np.nonzero(is_new)
    flat_index = torch.from_numpy(np.array(order)[row] * width + position)
    parts: tuple[PrefixPart, ...] = ()
    query_index = flat_index
    if is_new.size * width >= MAX_WHOLE_PAIRS:
        parts, query_index = _group_into_parts(np.array(order), is_new)
    return PrefixTree(
        ids=torch.from_numpy(ids[is_new]),
        position=torch.from_numpy(position),
        node=torch.from_numpy(node),
        flat_index=flat_index,
        query_index=query_index if parts else flat_index,
        parts=parts,
    )


def _group_into_parts(
    order: IntArray, is_new: NDArray[np.bool_]
) -> tuple[tuple[PrefixPart, ...], Tensor]:
    """Return (parts of sorted sequences, index of each prefix into the parts' queries [N]).

    There are no parts if their queries would be more than half of all positions.

    Args:
        order: index of each sorted sequence, [R].
        is_new: whether a position is a new prefix, [R, T]; these are contiguous in a sequence.
    """
    num_new, begin = is_new.sum(1), is_new.argmax(1)
    log_sizes = np.ceil(np.log2(np.maximum(num_new, 1))).astype(np.int64)
    parts, query_index, num_queries = [], np.zeros(is_new.shape, dtype=np.int64), 0
    for log_size in np.unique(log_sizes[num_new > 0]).tolist():
        rows = np.flatnonzero((num_new > 0) & (log_sizes == log_size))
        queries, starts = int(num_new[rows].max()), begin[rows]
        index = num_queries + np.arange(len(rows) * queries).reshape(len(rows), queries)
        for row, start, indices in zip(rows, starts, index, strict=True):
            query_index[row, start : start + num_new[row]] = indices[: num_new[row]]
        positions = int((starts + num_new[rows]).max())
        tensors = torch.from_numpy(order[rows]), torch.from_numpy(starts)
        parts.append(PrefixPart(*tensors, queries=queries, positions=positions))
        num_queries += index.size
    useful_parts = tuple(parts) if 2 * num_queries <= is_new.size else ()
    return useful_parts, torch.from_numpy(query_index[is_new])


def shared_lengths(sequences: Sequence[tuple[int, ...]]) -> IntArray:
    """Return the length of the prefix that each sorted sequence shares with the one before, [R]."""
    lengths = [0]
    for previous, current in pairwise(sequences):
        limit = min(len(previous), len(current))
        if previous[:limit] == current[:limit]:
            lengths.append(limit)
            continue
        low, high = 0, limit  # equal up to low, different before high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if previous[:middle] == current[:middle] else (low, middle)
        lengths.append(low)
    return np.array(lengths, dtype=np.int64)


# up to this number of attention scores, two products are faster than the fused kernel on a CPU
MAX_EXPLICIT_SCORES = 1 << 21
MIN_KEYS = 16  # smallest number of keys of a query
MIN_MULTIPLICATIONS = 400  # in a product of a batch; torch computes smaller products without MKL


class PaddingSizes(NamedTuple):
    """Padding sizes of matrix products with which a row's result does not depend on its batch.

    ``language_model.py`` measures them.
    """

    rows: int  # products with weights are padded to a multiple of this number of rows
    queries: int  # smallest number of queries in a product of attention


def num_keys_for(positions: int) -> int:
    """Return the number of keys of a last query: a power of two, at least MIN_KEYS."""
    return max(MIN_KEYS, 1 << (positions - 1).bit_length())


def pad_rows(x: Tensor, rows: int = 1) -> Tensor:
    """Pad [N, ...] with rows of zeros up to a multiple of ``rows``."""
    num_zeros = -len(x) % rows
    return torch.cat([x, x.new_zeros((num_zeros, *x.shape[1:]))]) if num_zeros else x


class CausalMask:
    """The causal mask of queries at ``positions`` [b, T] over P positions (b is 1 or B).

    Masks are cached.
    """

    def __init__(self, positions: Tensor, count: int) -> None:
        self.positions, self.count = positions, count
        self._masks: dict[int | None, Tensor] = {}
        self._bias: dict[tuple[int | None, int], Tensor] = {}

    def visible(self, window: int | None) -> Tensor:
        """Return a mask [b, T, P], true where a query attends to a position."""
        if window not in self._masks:
            distance = self.positions[:, :, None] - torch.arange(
                self.count, device=self.positions.device
            )
            self._masks[window] = (
                distance >= 0 if window is None else (distance >= 0) & (distance < window)
            )
        return self._masks[window]

    def bias(self, window: int | None, rows: int, repeats: int, like: Tensor) -> Tensor:
        """Return the mask as 0 or -inf terms of the scores, [b * G, repeats * T, P]."""
        if (window, repeats) not in self._bias:
            visible = self.visible(window)
            bias = torch.zeros(visible.shape, dtype=like.dtype, device=like.device).masked_fill_(
                ~visible, -torch.inf
            )
            bias = bias.repeat(1, repeats, 1)
            self._bias[window, repeats] = (
                bias if len(bias) == 1 else bias.repeat_interleave(rows // len(bias), 0)
            )
        return self._bias[window, repeats]


def attend(
    q: Tensor, k: Tensor, v: Tensor, causal: CausalMask, scale: float, window: int | None
) -> Tensor:
    """Return the outputs [B, T, H * D] of queries [B, T, H, D], keys and values [B, G, P, D]."""
    batch, length, heads, width = q.shape
    groups, positions = k.shape[1], k.shape[2]
    if q.device.type == "cpu" and batch * heads * length * positions <= MAX_EXPLICIT_SCORES:
        return attend_explicitly(q, k, v, causal, scale, window)
    visible = causal.visible(window)[:, None]
    output = F.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=visible, scale=scale, enable_gqa=heads != groups
    )
    return output.transpose(1, 2).reshape(batch, length, heads * width)


def attend_explicitly(
    q: Tensor, k: Tensor, v: Tensor, causal: CausalMask, scale: float, window: int | None
) -> Tensor:
    """Return the result of ``attend``, computed by two products and a softmax."""
    batch, length, heads, width = q.shape
    groups = k.shape[1]
    repeats, rows = heads // groups, batch * groups
    queries = (
        q.view(batch, length, groups, repeats, width)
        .permute(0, 2, 3, 1, 4)
        .reshape(rows, repeats * length, width)
    )
    bias = causal.bias(window, rows, repeats, q)
    return (
        _attend_block(queries, k, v, bias, scale)
        .view(batch, groups, repeats, length, width)
        .permute(0, 3, 1, 2, 4)
        .reshape(batch, length, heads * width)
    )


def _attend_block(queries: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float) -> Tensor:
    """Return the outputs [B * G, M, D] of queries [B * G, M, D] by two products and a softmax."""
    positions, width = k.shape[2:]
    keys = k.reshape(len(queries), positions, width).transpose(1, 2)
    scores = torch.baddbmm(bias, queries, keys, alpha=scale)
    return torch.bmm(scores.softmax(-1), v.reshape(len(queries), positions, width))


class QueryBlock(NamedTuple):
    """Queries with the same number of keys, whose scores fit in the CPU's cache."""

    rows: Tensor | slice
    queries: slice
    num_keys: int
    causal: CausalMask
    mask: Tensor | None  # [K, T] whether a query is computed; None: all are


def _slice_if_contiguous(rows: Tensor) -> Tensor | slice:
    """Return ascending rows; as a slice if they are contiguous, because this copies no keys."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


class InvariantAttention:
    """Attention whose result for a query is exactly the same in every batch.

    Args:
        positions: positions of the queries from 0, [b, T]; b is 1 or B.
        batch: rows B.
        heads: number of heads of queries, H.
        groups: number of key-value heads, G.
        width: width of a head, D.
        blocks: padding sizes of the products of attention.
    """

    def __init__(
        self,
        positions: Tensor,
        batch: int,
        *,
        heads: int,
        groups: int,
        width: int,
        blocks: PaddingSizes,
    ) -> None:
        self._positions, self._heads, self._rows = positions, heads, blocks.rows
        min_queries = max(blocks.queries, -(-MIN_MULTIPLICATIONS // (MIN_KEYS * width)))
        self._queries = -(-min_queries * groups // heads)  # number of queries in each product
        self._parts: list[QueryBlock] = []
        self._output: Tensor | None = None
        all_positions = slice(0, positions.shape[1])
        num_keys, max_keys = (num_keys_for(int(end) + 1) for end in positions.aminmax())
        if num_keys == max_keys:
            self._add(slice(0, batch), batch, all_positions, num_keys, None)
            return
        begin = 0
        while num_keys <= max_keys:
            in_range = (positions >= begin) & (positions < num_keys)
            if len(in_range) == 1:
                length = int(in_range.sum())
                first = int(in_range[0].int().argmax())
                self._add(slice(0, batch), batch, slice(first, first + length), num_keys, None)
            elif len(rows := in_range.any(1).nonzero().squeeze(1)):
                self._add(rows, len(rows), all_positions, num_keys, in_range[rows])
            begin, num_keys = num_keys, 2 * num_keys

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        """Return the outputs [B * T, H * D] of queries [B, T, H, D], padded with rows of zeros.

        The keys and values [B, G, P, D] must reach the position of the last query. The next call
        overwrites the returned tensor.
        """
        batch, length, heads, width = q.shape
        split_shape = (batch, length, k.shape[1], heads // k.shape[1], width)
        if self._output is None:
            count = batch * length
            self._output = q.new_zeros((count + -count % self._rows, heads * width))
        queries, output = q.view(split_shape), self._output[: batch * length].view(split_shape)
        for part in self._parts:
            block = queries[part.rows, part.queries].permute(0, 2, 3, 1, 4)  # [K, G, H / G, T, D]
            keys, values = (cached[part.rows, :, : part.num_keys] for cached in (k, v))
            shape = (*block.shape[:3], self._queries, width)
            rows = shape[0] * shape[1]
            padded_queries = (
                block.reshape(rows, -1, width)
                if shape == block.shape
                else self._pad_queries(block, shape)
            )
            bias = part.causal.bias(window, rows, shape[2], q)
            result = _attend_block(padded_queries, keys, values, bias, scale).view(shape)[
                :, :, :, : block.shape[3]
            ]
            result = result.permute(0, 3, 1, 2, 4)
            if part.mask is not None:
                other_results = output[part.rows, part.queries]
                result = torch.where(part.mask[:, :, None, None, None], result, other_results)
            output[part.rows, part.queries] = result
        return self._output

    def _pad_queries(self, queries: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return queries [K * G, M, D] of [K, G, H / G, T, D], padded with zeros to a shape."""
        padded_queries = queries.new_zeros(shape)
        padded_queries[:, :, :, : queries.shape[3]] = queries
        return padded_queries.view(shape[0] * shape[1], -1, shape[4])

    def _add(
        self, rows: Tensor | slice, count: int, queries: slice, num_keys: int, mask: Tensor | None
    ) -> None:
        block_queries = self._queries
        block_rows = max(1, MAX_EXPLICIT_SCORES // (self._heads * num_keys * block_queries))
        for begin in range(queries.start, queries.stop, block_queries):
            block = slice(begin, min(begin + block_queries, queries.stop))
            for first in range(0, count, block_rows):
                row_range = slice(first, min(first + block_rows, count))
                part = (
                    row_range if isinstance(rows, slice) else _slice_if_contiguous(rows[row_range])
                )
                block_mask = None if mask is None else mask[row_range, block]
                self._parts.append(
                    QueryBlock(
                        part, block, num_keys, self._causal(part, block, num_keys), block_mask
                    )
                )

    def _causal(self, rows: Tensor | slice, queries: slice, num_keys: int) -> CausalMask:
        all_positions = self._positions if len(self._positions) == 1 else self._positions[rows]
        positions = all_positions[:, queries]
        num_missing = self._queries - positions.shape[1]
        if num_missing > 0:
            positions = torch.cat([positions, positions[:, -1:].expand(-1, num_missing)], 1)
        return CausalMask(positions, num_keys)


@dataclass(kw_only=True, slots=True)
class KeyValueCache:
    """Keys and values of the positions computed so far; entry p of a row is its position p.

    ``tensor`` has shape [layers, 2, B, G, P, D]. Entries beyond a row's length have no meaning: the
    mask hides them, and later writes replace them.
    """

    tensor: Tensor
    padding: PaddingSizes | None = None  # None: the rounding of results depends on the batch

    @property
    def device(self) -> torch.device:
        """Device of the tensor."""
        return self.tensor.device

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def positions(self) -> int:
        """Number P of positions that a row can hold."""
        return self.tensor.shape[4]

    def fill(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Write a layer's keys and values [B, T, G, D] of the first T positions of all rows."""
        length = keys.shape[1]
        self.tensor[layer, 0, :, :, :length] = keys.transpose(1, 2)
        self.tensor[layer, 1, :, :, :length] = values.transpose(1, 2)

    def take(self, rows: Tensor) -> KeyValueCache:
        """Return a copy of these rows."""
        return KeyValueCache(tensor=self.tensor.index_select(2, rows), padding=self.padding)

    def copy_from(
        self, other: KeyValueCache, source_rows: Tensor, target_rows: Tensor, length: int
    ) -> None:
        """Copy the first ``length`` positions of ``other``'s ``source_rows`` to ``target_rows``."""
        self.tensor[:, :, target_rows, :, :length] = other.tensor[:, :, source_rows, :, :length]

    def part(self, rows: Tensor, start: Tensor, length: int) -> KeyValueCache:
        """Return a copy of ``length`` positions of rows [K], from ``start`` [K] on."""
        entries = self.tensor[:, :, rows[:, None], :, self._positions_from(start, length)]
        return KeyValueCache(tensor=entries.permute(2, 3, 0, 4, 1, 5).contiguous())

    def put(
        self,
        other: KeyValueCache,
        source_rows: Tensor,
        target_rows: Tensor,
        start: Tensor,
        length: int,
    ) -> None:
        """Copy the first ``length`` positions of ``other``'s ``source_rows`` [K] into
        ``target_rows`` [K], to positions from ``start`` [K] on.
        """
        entries = other.tensor[:, :, source_rows, :, :length]
        self.tensor[:, :, target_rows[:, None], :, self._positions_from(start, length)] = (
            entries.permute(2, 4, 0, 1, 3, 5)
        )

    def _positions_from(self, start: Tensor, length: int) -> Tensor:
        """Return positions [K, length] from each start on."""
        return (start[:, None] + torch.arange(length, device=start.device)).clamp_(
            max=self.positions - 1
        )
