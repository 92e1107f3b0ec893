"""Attempts of a trial in a turn table: which turns are of which, and returns that go on over them.

Legend: N turns, P turns of attempts (all but notes), K attempts, M notes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.errors import CreditError
from sparring.ops.groups import group_ids
from sparring.ops.returns import (
    backward_recurrence,
    discounted_returns,
    next_values,
    trajectory_starts,
)
from sparring.types import FloatArray, IntArray, TurnTable


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempts:
    """The attempts of a table, each a run of the turns of one seat.

    Attributes:
        rows: of the table that are turns of attempts, in order, [P].
        part: number of the attempt of each of these, non-decreasing, [P].
        starts: place among these of each attempt's first turn, [K].
        lengths: turns of each attempt, [K].
        sequence: which attempts follow one another, [K].
        number: of each attempt in its sequence, from 0, [K].
        order: puts sequences together, attempts in order, [K].
        notes: rows of the table that are notes between attempts, [M].
        after: the attempt that follows each note; -1 where none does, [M].
    """

    rows: IntArray
    part: IntArray
    starts: IntArray
    lengths: IntArray
    sequence: IntArray
    number: IntArray
    order: IntArray
    notes: IntArray
    after: IntArray

    @property
    def ends(self) -> IntArray:
        """Place of each attempt's last turn, [K]."""
        return self.starts + self.lengths - 1


def attempts_of(turns: TurnTable, method: str, length: int) -> Attempts:
    """Return the attempts that a table tells of by its columns ``attempt`` and ``note``.

    Where it has neither, every trajectory is an attempt, and the episodes of a seat in a (group,
    role), in order of their ids, are cut into sequences.

    Args:
        turns: the table.
        method: name of the estimator, for messages.
        length: of these sequences; the last may be shorter.

    Raises:
        CreditError: attempts of a trajectory are not in order.
    """
    if turns.attempt is None and turns.note is None:
        return _guessed(turns, length)
    attempt = np.zeros(len(turns.reward), np.int64) if turns.attempt is None else turns.attempt
    back = np.flatnonzero((np.diff(turns.trajectory) == 0) & (np.diff(attempt) < 0))
    if len(back):
        row = back[0] + 1
        raise CreditError(
            f"credit {method!r}: row {row} is of attempt {attempt[row]}, after attempt "
            f"{attempt[row - 1]} of the same seat and play; give the turns in order of play."
        )
    note = np.zeros(len(attempt), dtype=bool) if turns.note is None else turns.note
    rows, notes = np.flatnonzero(~note), np.flatnonzero(note)
    part, _ = group_ids(turns.trajectory[rows], attempt[rows])
    starts = trajectory_starts(part)
    sequence = turns.trajectory[rows[starts]]
    # what the first turn after each note is of, if it is of the same trajectory
    place = np.searchsorted(rows, notes)
    follows = np.append(part, -1)[place]
    same = np.append(turns.trajectory[rows], -1)[place] == turns.trajectory[notes]
    return Attempts(
        rows=rows,
        part=part,
        starts=starts,
        lengths=np.diff(np.append(starts, len(rows))),
        sequence=sequence,
        number=attempt[rows[starts]],
        order=np.arange(len(starts)),
        notes=notes,
        after=np.where(same, follows, -1),
    )


def _guessed(turns: TurnTable, length: int) -> Attempts:
    """Return whole trajectories as attempts, cut into sequences of this many."""
    starts = trajectory_starts(turns.trajectory)
    groups, _ = group_ids(turns.group[starts], turns.role[starts], turns.seat[starts])
    order = np.lexsort((turns.episode[starts], groups))
    begin = trajectory_starts(groups[order])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(begin, np.diff(np.append(begin, len(order))))
    sequence, _ = group_ids(groups, rank // length)
    return Attempts(
        rows=np.arange(len(turns.reward)),
        part=turns.trajectory,
        starts=starts,
        lengths=np.diff(np.append(starts, len(turns.reward))),
        sequence=sequence,
        number=rank % length,
        order=order,
        notes=np.zeros(0, dtype=np.int64),
        after=np.zeros(0, dtype=np.int64),
    )


def earned(found: Attempts, reward: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what was earned at the turns of attempts, [P], and after notes, [M].

    What came between a note and the next turn counts to the first turn of the attempt that follows.

    Args:
        found: the attempts.
        reward: of every turn, [N].
    """
    own, left = reward[found.rows], reward[found.notes]
    followed = found.after >= 0
    np.add.at(own, found.starts[found.after[followed]], left[followed])
    return own, left


def differences(found: Attempts, returns: FloatArray) -> FloatArray:
    """Return what each attempt earned more than the one before it, 0 before the first, [K]."""
    order, result = found.order, np.empty(len(returns))
    sequence = found.sequence[order]
    before = next_values(returns[order][::-1], sequence[::-1])[::-1]
    result[order] = returns[order] - before
    return result


def at_the_end(found: Attempts, values: FloatArray) -> FloatArray:
    """Return one value per attempt as a reward of its last turn, [P]."""
    reward = np.zeros(len(found.rows))
    reward[found.ends] = values
    return reward


def step_returns(
    found: Attempts,
    reward: FloatArray,
    gamma: float,
    gamma_episode: float,
    *,
    last_only: bool,
    discounted: bool,
) -> FloatArray:
    """Return what follows from every turn of an attempt on, later attempts included, [P].

    Args:
        found: the attempts.
        reward: what each turn is paid, [P].
        gamma: discount per turn within an attempt.
        gamma_episode: factor on what the next attempt has from its first turn on.
        last_only: nothing but the last turns of attempts are paid.
        discounted: what comes of later attempts is discounted by the turns that are left of this
            one too.
    """
    order, sequence = found.order, found.sequence[found.order]
    own = discounted_returns(reward, found.part, gamma=gamma)
    # from an attempt's last turn back to its first
    fade = np.power(gamma, found.lengths - 1, dtype=np.float64)
    begin = fade * reward[found.ends] if last_only else own[found.starts]
    factor = fade * gamma_episode if discounted else np.full(len(fade), gamma_episode)
    first = backward_recurrence(begin[order], factor[order], sequence)
    later = np.empty(len(begin))
    later[order] = gamma_episode * next_values(first, sequence)
    if not discounted:
        return own + later[found.part]
    paid = reward.copy()
    paid[found.ends] += later
    return discounted_returns(paid, found.part, gamma=gamma)
