"""Finds the turns in a batch: each unbroken span of sampled tokens in a row is one turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.core.records import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Spans:
    """Positions of the N turns in a batch of B rows and L tokens."""

    mask: BoolArray  # [B, L], true at the sampled tokens
    # [B, L] turn of each token; a prompt after the first prompt belongs to the turn before it
    turn_of: IntArray
    num_turns: IntArray  # [B]

    def sum_by_turn(self, values: FloatArray) -> FloatArray:
        """Sum values over each turn and the prompt after it, [B, L] -> [N]."""
        return np.bincount(
            self.turn_of.ravel(), weights=values.ravel(), minlength=int(self.num_turns.sum())
        ).astype(np.float64)

    def sum_over_sampled(self, values: FloatArray) -> FloatArray:
        """Sum values over each turn's sampled tokens, [B, L] -> [N]."""
        return np.bincount(
            self.turn_of[self.mask], weights=values[self.mask], minlength=int(self.num_turns.sum())
        ).astype(np.float64)

    def at_first_token(self, values: FloatArray) -> FloatArray:
        """Return the value at each turn's first sampled token, [B, L] -> [N]; 0 if it has none."""
        turns, index = np.unique(self.turn_of[self.mask], return_index=True)
        first_values = np.zeros(int(self.num_turns.sum()))
        first_values[turns] = values[self.mask][index]
        return first_values

    @property
    def n_tokens(self) -> IntArray:
        """Return the number of sampled tokens of each turn, [N]."""
        return np.bincount(self.turn_of[self.mask], minlength=int(self.num_turns.sum())).astype(
            np.int64
        )


def spans(mask: BoolArray) -> Spans:
    """Return the turns of a mask [B, L].

    A row without sampled tokens has one empty turn, to which its reward belongs.
    """
    previous_mask = np.zeros_like(mask)
    previous_mask[:, 1:] = mask[:, :-1]
    turn_number = np.cumsum(mask & ~previous_mask, axis=1, dtype=np.int64)
    num_turns = np.maximum(turn_number.max(axis=1, initial=0), 1)
    offset = np.cumsum(num_turns) - num_turns
    return Spans(
        mask=mask, turn_of=offset[:, None] + np.maximum(turn_number - 1, 0), num_turns=num_turns
    )
