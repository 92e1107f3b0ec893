"""Where the turns of a trajectory are: runs of sampled tokens in a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.core.records import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Spans:
    """Where the turns of a batch are."""

    mask: BoolArray  # [B, L]
    # [B, L] the turn a token is in or, for what was told, follows; the first where none came before
    turn_of: IntArray
    num_turns: IntArray  # [B]

    def total(self, values: FloatArray) -> FloatArray:
        """Return the sum over each turn and what was told after it, [B, L] -> [N]."""
        return np.bincount(
            self.turn_of.ravel(), weights=values.ravel(), minlength=int(self.num_turns.sum())
        ).astype(np.float64)

    def sampled(self, values: FloatArray) -> FloatArray:
        """Return the sum over each turn's sampled tokens, [B, L] -> [N]."""
        return np.bincount(
            self.turn_of[self.mask], weights=values[self.mask], minlength=int(self.num_turns.sum())
        ).astype(np.float64)

    def first(self, values: FloatArray) -> FloatArray:
        """Return the value at each turn's first sampled token, [B, L] -> [N].

        It is 0 for a turn without tokens.
        """
        turns, index = np.unique(self.turn_of[self.mask], return_index=True)
        out = np.zeros(int(self.num_turns.sum()))
        out[turns] = values[self.mask][index]
        return out

    @property
    def n_tokens(self) -> IntArray:
        """Number of sampled tokens of each turn, [N]."""
        return np.bincount(self.turn_of[self.mask], minlength=int(self.num_turns.sum())).astype(
            np.int64
        )


def spans(mask: BoolArray) -> Spans:
    """Return the turns of a mask [B, L].

    A row without sampled tokens has one turn of none, so that its reward counts.
    """
    before = np.zeros_like(mask)
    before[:, 1:] = mask[:, :-1]
    number = np.cumsum(mask & ~before, axis=1, dtype=np.int64)
    num_turns = np.maximum(number.max(axis=1, initial=0), 1)
    offset = np.cumsum(num_turns) - num_turns
    return Spans(
        mask=mask, turn_of=offset[:, None] + np.maximum(number - 1, 0), num_turns=num_turns
    )
