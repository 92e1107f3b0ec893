"""The order of a step's updates: shuffled minibatches, or the turns of a game from the last to the
first (SeeUPO).

In SeeUPO turns are treated as agents that are updated one after the other, the last turn first:
when turn t is updated, the turns after it already follow the new policy, and its advantage is
weighted by how much likelier that policy makes what they did:

    M[T+1] = A;  M[t] = M[t+1] * pi_new(turn t) / pi_old(turn t)

so the tokens of turn t are trained with A times the product of the ratios of all later turns. The
ratios are taken after each update, against the policy before the step, and each is kept within
e^-limit .. e^limit.

Every update runs over all tokens of the step, with advantages of 0 outside the turn in hand. What
``learner.reduction`` then divides by is undone, so that each update is the reduction over the
turn's own tokens. With M tokens in all and M_t of turn t, S sequences and S_t with tokens of turn
t, n tokens of a sequence and n_t of turn t in it, advantages are scaled by

    token_mean:     M / M_t                 every token of the turn weighs 1 / M_t
    sequence_mean:  (S / S_t) (n / n_t)     every token of the turn weighs 1 / (S_t n_t)
    agent_mean:     the same with E N in place of S, of E plays and N sequences of one
    constant:       1                       every token of the turn weighs 1 / (S constant)

Losses that read no advantages, such as ``kl_penalty``, act on all tokens in each of these updates.

Reference: SeeUPO (abstract and notes; the product form is that of sequential trust-region methods,
Kuba et al., 2022).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.config.learning import Reduction
from sparring.learn.pack import Pack
from sparring.losses.reduction import agent_weights
from sparring.rng import Stream
from sparring.types import BoolArray, FloatArray, IntArray, TurnTable

LOG_RATIO_LIMIT = 2.0  # of one turn, and of the product


def minibatches(
    data: Pack,
    count: int,
    stream: Stream,
    turns: TurnTable | None = None,
    *,
    split: Literal["episodes", "sequences"] = "episodes",
) -> list[IntArray]:
    """Return the sequences of each minibatch, shuffled if there are several.

    Those without sampled tokens are in none.

    Args:
        data: the pack, S sequences.
        count: number of minibatches; some are empty where there is less to share out.
        stream: orders them.
        turns: the turn table, if games that share a start must stay together, for losses that
            compare them.
        split: "episodes" keeps all sequences of a game, those of all its seats, in one minibatch;
            "sequences" shuffles each alone.
    """
    order = data.spoken
    if count == 1:
        return [order]
    generator = stream.generator()
    if turns is None and split == "sequences":
        return np.array_split(generator.permutation(order), count)
    first = (np.cumsum(data.tokens) - data.tokens)[order]
    kept_together = data.episode[order] if turns is None else turns.group[data.turn_of[first]]
    _, unit = np.unique(kept_together, return_inverse=True)
    shuffled = generator.permutation(int(unit.max(initial=-1)) + 1)
    return [order[np.isin(unit, own)] for own in np.array_split(shuffled, count)]


class ReverseTurns:
    """The weights of one pass. ``indices`` are the turn indices that occur, the last first.

    Args:
        turns: the turn table, N rows.
        turn_of: int64 [M], row of each sampled token.
        sequence: int64 [M], training sequence of each sampled token.
        reduction: how the losses of tokens become one number.
        episode: [S], play of each sequence, for "agent_mean".
    """

    def __init__(
        self,
        turns: TurnTable,
        turn_of: IntArray,
        sequence: IntArray,
        reduction: Reduction = "token_mean",
        episode: IntArray | None = None,
    ) -> None:
        self._sequence, self._lengths, self._reduction = sequence, np.bincount(sequence), reduction
        self._index, self._trajectory = turns.turn_index[turn_of], turns.trajectory[turn_of]
        self._episode = episode
        self._carried = np.zeros(
            int(self._trajectory.max(initial=-1)) + 1
        )  # log of the product of later turns' ratios
        self.indices: list[int] = sorted(set(self._index.tolist()), reverse=True)

    def advantages(self, advantages: FloatArray, index: int) -> FloatArray:
        """Return what the tokens of the turns with this index are trained with, [M], and 0
        elsewhere.

        They are scaled so that the reduction over all tokens is the reduction over these; see the
        top of this file.
        """
        own = self._index == index
        weight = np.exp(np.clip(self._carried[self._trajectory], -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
        return np.where(own, self._undone(advantages * weight, own), 0.0)

    def _undone(self, values: FloatArray, own: BoolArray) -> FloatArray:
        """Return values [M] times what the reduction over all tokens divides by too much for a
        turn's own tokens.
        """
        if self._reduction == "constant":
            return values
        if self._reduction == "token_mean":
            scaled: FloatArray = values * len(own) / own.sum()
            return scaled
        of_turn = np.bincount(self._sequence[own], minlength=len(self._lengths))
        share = self._weights(of_turn) / self._weights(self._lengths)
        factor: FloatArray = (share * self._lengths / np.maximum(of_turn, 1))[self._sequence]
        return values * factor

    def _weights(self, lengths: IntArray) -> FloatArray:
        """Return what each sequence weighs among those that have tokens, of so many each, [S]."""
        there = lengths > 0
        weights = np.full(len(lengths), 1.0 / there.sum())
        if self._reduction == "agent_mean":
            assert self._episode is not None, "agent_mean weighs the sequences of plays"
            weights[there] *= agent_weights(self._episode[: len(lengths)][there])
        return weights

    def moved(self, index: int, log_ratios: FloatArray) -> None:
        """Take note of how far an update has moved the turns with this index: log pi_new - log
        pi_old of every token, [M].
        """
        own = self._index == index
        shift = np.bincount(
            self._trajectory[own], weights=log_ratios[own], minlength=len(self._carried)
        )
        self._carried += np.clip(shift, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
