"""The KV cache of a batch of sequences: keys and values of attention, row by row.

Legend: B cached rows, P cached positions, G key-value heads, D width of a head, K chosen rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sparring.models.attention import Blocks


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
        """Return positions [K, length] from each start on.

        What would be beyond the room is its last position, which is free.
        """
        return (start[:, None] + torch.arange(length, device=start.device)).clamp_(
            max=self.positions - 1
        )
