"""Attention over cached or whole sequences: for the learner, and bit for bit for the sampler.

``attend`` takes whichever way is fast for the shapes of the batch, so that its last bits depend on
the batch. ``InvariantAttention`` gives every query the same bits whatever stands beside it, in one
thread and float32 on a CPU. A library chooses the order of a sum by the shapes of a product. So all
products of attention have one number of queries: more are cut into pieces, fewer filled up. And the
number P of positions that a query looks at, those that the mask hides included, is a function of
its own position. ``KeyValueCache`` holds the keys and values of cached sequences, row by row.

Legend: B rows, T queries of a row, P positions, H heads, G key-value heads, D width of a head, K
chosen rows.

Sequences as a tree of their prefixes, so that what they share is computed once.

The games of one batch begin with the same rules, the replies of one group with the same prompt. A
position of a sequence depends on its prefix alone, so every distinct prefix is one node, and all
that a network does to single positions is done once per node. Only attention looks at whole
sequences again.

Legend: R sequences, T the longest one's tokens, N distinct prefixes (nodes).
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

# pairs of positions, in all sequences, below which all at once cost less than parts
WHOLE_PAIRS = 1 << 15


class PrefixPart(NamedTuple):
    """Sequences whose own prefixes, which no sequence before them in order has, are about as many.

    Attributes:
        rows: the sequences, [K].
        begin: the position of the first own prefix of each, [K].
        queries: positions from there on, as many as the most that one of them owns.
        positions: tokens of the longest.
    """

    rows: Tensor
    begin: Tensor
    queries: int
    positions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixTree:
    """The distinct prefixes of a batch of sequences.

    A sequence shorter than the longest is padded at its end with nodes of other sequences, which no
    earlier position attends to.

    Every prefix is the own one of one sequence. Where sequences share much, ``parts`` puts those
    with about as many own prefixes together, so that attention has to look at own prefixes alone.
    """

    ids: Tensor  # [N] the last token of each prefix
    position: Tensor  # [N] the length of each prefix, less one
    node: Tensor  # [R, T] the prefix that ends at each position of each sequence
    first: Tensor  # [N] a flat index into [R, T] where each prefix is found
    place: Tensor  # [N] the same in what the parts ask, one after the other; without parts `first`
    parts: tuple[PrefixPart, ...] = ()  # empty: all positions of all sequences at once cost less

    def to(self, device: torch.device) -> PrefixTree:
        """Return this tree on a device."""
        return PrefixTree(
            ids=self.ids.to(device),
            position=self.position.to(device),
            node=self.node.to(device),
            first=self.first.to(device),
            place=self.place.to(device),
            parts=tuple(
                part._replace(rows=part.rows.to(device), begin=part.begin.to(device))
                for part in self.parts
            ),
        )

    def asked(self) -> Iterator[tuple[PrefixPart, Tensor, Tensor]]:
        """Yield each part with the positions [K, queries] that are asked, and their nodes, flat.

        Beyond the end of a sequence its last position, or garbage, is asked in vain.
        """
        for part in self.parts:
            own = part.begin[:, None] + torch.arange(part.queries, device=part.begin.device)
            own.clamp_(max=part.positions - 1)
            yield part, own, self.node[part.rows[:, None], own].flatten()


def prefix_tree(
    sequences: Sequence[tuple[int, ...]], whose: Sequence[int] | None = None
) -> PrefixTree:
    """Return the tree of the prefixes of R non-empty sequences.

    Its nodes stand in the sequences' sorted order.

    Args:
        sequences: the ids of each.
        whose: of each the number of the weights that it is computed with, whose prefixes are its
            own: they stand in the order of these numbers first. None: all have the same.
    """
    owners = np.zeros(len(sequences), dtype=np.int64) if whose is None else np.array(whose)
    order = sorted(range(len(sequences)), key=lambda row: (owners[row], sequences[row]))
    width = max(map(len, sequences))
    ids = np.array(
        [(*sequences[row], *(-1,) * (width - len(sequences[row]))) for row in order], dtype=np.int64
    )
    shared = np.zeros(ids.shape, dtype=bool)
    same = (owners[order][1:] == owners[order][:-1])[:, None]
    equal = (ids[1:] == ids[:-1]) & (ids[1:] >= 0) & same
    shared[1:] = np.logical_and.accumulate(equal, axis=1)
    new = ~shared & (ids >= 0)
    own = np.where(new, np.cumsum(new).reshape(ids.shape) - 1, -1)
    node = np.empty_like(own)
    node[order] = np.maximum(np.maximum.accumulate(own, axis=0), 0)
    row, position = np.nonzero(new)
    first = torch.from_numpy(np.array(order)[row] * width + position)
    parts, place = _parts(np.array(order), new) if new.size * width >= WHOLE_PAIRS else ((), first)
    return PrefixTree(
        ids=torch.from_numpy(ids[new]),
        position=torch.from_numpy(position),
        node=torch.from_numpy(node),
        first=first,
        place=place if parts else first,
        parts=parts,
    )


def _parts(order: IntArray, new: NDArray[np.bool_]) -> tuple[tuple[PrefixPart, ...], Tensor]:
    """Return the parts of sequences in sorted order, and where in them each prefix is.

    Args:
        order: the number of each, [R].
        new: whether a position of each is a prefix of its own, [R, T]; those stand side by side.

    Returns:
        No parts if they would have more than half of all positions.
    """
    own, begin = new.sum(1), new.argmax(1)
    sizes = np.ceil(np.log2(np.maximum(own, 1))).astype(np.int64)
    parts, place, count = [], np.zeros(new.shape, dtype=np.int64), 0
    for size in np.unique(sizes[own > 0]).tolist():
        rows = np.flatnonzero((own > 0) & (sizes == size))
        queries, start = int(own[rows].max()), begin[rows]
        index = count + np.arange(len(rows) * queries).reshape(len(rows), queries)
        for row, first, numbers in zip(rows, start, index, strict=True):
            place[row, first : first + own[row]] = numbers[: own[row]]
        positions = int((start + own[rows]).max())
        found = torch.from_numpy(order[rows]), torch.from_numpy(start)
        parts.append(PrefixPart(*found, queries=queries, positions=positions))
        count += index.size
    return tuple(parts) if 2 * count <= new.size else (), torch.from_numpy(place[new])


def shared_lengths(sequences: Sequence[tuple[int, ...]]) -> IntArray:
    """Return how many tokens each sequence's beginning shares with the one before, [R].

    The sequences are sorted.
    """
    lengths = [0]
    for before, after in pairwise(sequences):
        limit = min(len(before), len(after))
        if before[:limit] == after[:limit]:
            lengths.append(limit)
            continue
        low, high = 0, limit  # equal up to low, different before high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if before[:middle] == after[:middle] else (low, middle)
        lengths.append(low)
    return np.array(lengths, dtype=np.int64)


# up to this many attention scores, plain products beat the fused kernel on a CPU
EXPLICIT_SCORES = 1 << 21
LEAST_POSITIONS = 16
LEAST_PRODUCT = 400  # multiplications of a matrix in a batch; torch does fewer without MKL


class Blocks(NamedTuple):
    """What products come in, so that a position's bits are its own; see ``language_model.py``."""

    rows: int  # of products with weights, filled up to a multiple
    queries: int  # rows of a product of attention, at least


def room_for(positions: int) -> int:
    """Return the next power of two, at least LEAST_POSITIONS: what the last of them looks at."""
    return max(LEAST_POSITIONS, 1 << (positions - 1).bit_length())


def filled(x: Tensor, rows: int = 1) -> Tensor:
    """Return rows [N, ...] with rows of zeros after them, up to a multiple."""
    lacking = -len(x) % rows
    return torch.cat([x, x.new_zeros((lacking, *x.shape[1:]))]) if lacking else x


class Causal:
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


def attend(
    q: Tensor, k: Tensor, v: Tensor, causal: Causal, scale: float, window: int | None
) -> Tensor:
    """Return attention's mixed values [B, T, H * D], the fast way.

    They are those of queries [B, T, H, D] over keys and values [B, G, P, D].
    """
    batch, length, heads, width = q.shape
    groups, positions = k.shape[1], k.shape[2]
    if q.device.type == "cpu" and batch * heads * length * positions <= EXPLICIT_SCORES:
        return explicit(q, k, v, causal, scale, window)
    seen = causal.seen(window)[:, None]
    mixed = F.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=seen, scale=scale, enable_gqa=heads != groups
    )
    return mixed.transpose(1, 2).reshape(batch, length, heads * width)


def explicit(
    q: Tensor, k: Tensor, v: Tensor, causal: Causal, scale: float, window: int | None
) -> Tensor:
    """Return what ``attend`` does, by two products and a softmax."""
    batch, length, heads, width = q.shape
    groups = k.shape[1]
    shared, rows = heads // groups, batch * groups
    queries = (
        q.view(batch, length, groups, shared, width)
        .permute(0, 2, 3, 1, 4)
        .reshape(rows, shared * length, width)
    )
    bias = causal.bias(window, rows, shared, q)
    return (
        _mix(queries, k, v, bias, scale)
        .view(batch, groups, shared, length, width)
        .permute(0, 3, 1, 2, 4)
        .reshape(batch, length, heads * width)
    )


def _mix(queries: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float) -> Tensor:
    """Return mixed values [B * G, M, D] of queries [B * G, M, D] by two products and a softmax."""
    positions, width = k.shape[2:]
    keys = k.reshape(len(queries), positions, width).transpose(1, 2)
    scores = torch.baddbmm(bias, queries, keys, alpha=scale)
    return torch.bmm(scores.softmax(-1), v.reshape(len(queries), positions, width))


class Part(NamedTuple):
    """Queries that look at equally many positions, few enough that their scores stay in cache."""

    rows: Tensor | slice
    queries: slice
    room: int  # positions they look at
    causal: Causal
    own: Tensor | None  # [K, T] which of the queries are meant; None: all


def _neighbours(rows: Tensor) -> Tensor | slice:
    """Return rows in ascending order as a slice if none is left out: it copies no keys."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


class InvariantAttention:
    """Explicit attention of queries at ``positions`` [b, T] (b is 1 or B), each by its own P.

    Args:
        positions: of the queries, from 0.
        batch: rows B.
        heads: of queries, H.
        groups: key-value heads, G.
        width: of a head, D.
        blocks: what products come in.
    """

    def __init__(
        self, positions: Tensor, batch: int, *, heads: int, groups: int, width: int, blocks: Blocks
    ) -> None:
        self._positions, self._heads, self._rows = positions, heads, blocks.rows
        least = max(blocks.queries, -(-LEAST_PRODUCT // (LEAST_POSITIONS * width)))
        self._queries = -(-least * groups // heads)  # of each product
        self._parts: list[Part] = []
        self._mixed: Tensor | None = None
        whole = slice(0, positions.shape[1])
        room, most = (room_for(int(end) + 1) for end in positions.aminmax())
        if room == most:
            self._add(slice(0, batch), batch, whole, room, None)
            return
        begin = 0
        while room <= most:
            own = (positions >= begin) & (positions < room)
            if len(own) == 1:
                length = int(own.sum())
                first = int(own[0].int().argmax())
                self._add(slice(0, batch), batch, slice(first, first + length), room, None)
            elif len(chosen := own.any(1).nonzero().squeeze(1)):
                self._add(chosen, len(chosen), whole, room, own[chosen])
            begin, room = room, 2 * room

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        """Return mixed values [B * T, H * D] of queries [B, T, H, D], filled up with rows of zeros.

        Keys and values [B, G, P, D] have room for the last query's positions. The next call writes
        over what this one returns.
        """
        batch, length, heads, width = q.shape
        split = (batch, length, k.shape[1], heads // k.shape[1], width)
        if self._mixed is None:
            count = batch * length
            self._mixed = q.new_zeros((count + -count % self._rows, heads * width))
        queries, mixed = q.view(split), self._mixed[: batch * length].view(split)
        for part in self._parts:
            own = queries[part.rows, part.queries].permute(0, 2, 3, 1, 4)  # [K, G, H / G, T, D]
            keys, values = (kept[part.rows, :, : part.room] for kept in (k, v))
            shape = (*own.shape[:3], self._queries, width)
            rows = shape[0] * shape[1]
            asked = own.reshape(rows, -1, width) if shape == own.shape else self._padded(own, shape)
            bias = part.causal.bias(window, rows, shape[2], q)
            found = _mix(asked, keys, values, bias, scale).view(shape)[:, :, :, : own.shape[3]]
            found = found.permute(0, 3, 1, 2, 4)
            if part.own is not None:
                before = mixed[part.rows, part.queries]
                found = torch.where(part.own[:, :, None, None, None], found, before)
            mixed[part.rows, part.queries] = found
        return self._mixed

    def _padded(self, own: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return queries [K * G, M, D] of [K, G, H / G, T, D], zeros added up to a shape."""
        padded = own.new_zeros(shape)
        padded[:, :, :, : own.shape[3]] = own
        return padded.view(shape[0] * shape[1], -1, shape[4])

    def _add(
        self, rows: Tensor | slice, count: int, queries: slice, room: int, own: Tensor | None
    ) -> None:
        wide = self._queries
        tall = max(1, EXPLICIT_SCORES // (self._heads * room * wide))
        for begin in range(queries.start, queries.stop, wide):
            some = slice(begin, min(begin + wide, queries.stop))
            for first in range(0, count, tall):
                chosen = slice(first, min(first + tall, count))
                part = chosen if isinstance(rows, slice) else _neighbours(rows[chosen])
                mine = None if own is None else own[chosen, some]
                self._parts.append(Part(part, some, room, self._causal(part, some, room), mine))

    def _causal(self, rows: Tensor | slice, queries: slice, room: int) -> Causal:
        """Return which positions these queries look at, and those that are added to them."""
        of = self._positions if len(self._positions) == 1 else self._positions[rows]
        positions = of[:, queries]
        lacking = self._queries - positions.shape[1]
        if lacking > 0:
            positions = torch.cat([positions, positions[:, -1:].expand(-1, lacking)], 1)
        return Causal(positions, room)


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

    def fill(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Write a layer's keys and values [B, T, G, D] of the first T positions of all rows."""
        length = keys.shape[1]
        self.tensor[layer, 0, :, :, :length] = keys.transpose(1, 2)
        self.tensor[layer, 1, :, :, :length] = values.transpose(1, 2)

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
        """Return positions [K, length] from each start on."""
        return (start[:, None] + torch.arange(length, device=start.device)).clamp_(
            max=self.positions - 1
        )
