"""Credit: returns over the attempts of a trial (MAGE, LaMer).

Legend: N turns, P turns of attempts (all but notes), K attempts, M notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import CreditError
from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.anchors import anchor_groups
from sparring.methods.credit.base import component
from sparring.ops.groups import (
    backward_recurrence,
    centre,
    discounted_returns,
    group_counts,
    group_ids,
    next_values,
    trajectory_starts,
    trajectory_sums,
)


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


NEEDS_BY = {"per_opponent": {True: {"opponents"}}}
_RELEASED = {
    "attempts": 1,
    "over": "turns",
    "note_zeros": True,
    "keep_lone": True,
    "outcome": "game",
}
GROUP_RELATIVE = {"by_attempt": {True}}
PRESETS = {
    "as_released": _RELEASED,
    "lamer": {**_RELEASED, "pay": "cumulative", "later": "whole"},
    "lamer_as_released": {**_RELEASED, "pay": "cumulative"},
}


def mage(
    turns: TurnTable,
    *,
    attempts: Annotated[int, Field(ge=1)] = 3,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.95,
    gamma_episode: Annotated[float, Field(ge=0, le=1)] = 0.6,
    step_weight: float = 1.0,
    anchor: Literal["view", "state_key"] = "view",
    by_attempt: bool = False,
    pay: Literal["differential", "cumulative"] = "differential",
    later: Literal["discounted", "whole"] = "discounted",
    over: Literal["attempts", "turns"] = "attempts",
    note_zeros: bool = False,
    keep_lone: bool = False,
    outcome: str | None = None,
    per_opponent: bool = False,
) -> Credit:
    """Credit an attempt with how much better it went than the attempt before.

    What later attempts gained from it counts too.

    What: The environment ``trial`` has several attempts in an episode, with notes between them. An
    attempt is paid the difference of its return to that of the attempt before, or (LaMer) its
    return. Then the two levels of GiGPO compare attempts of a group, and turns that met the same
    view in any attempt. A note has what follows from the next attempt's first turn on.
    When to use: when attempts learn from earlier ones (reflections, memory in context). Otherwise
    use ``gigpo``.
    Mathematics:
        R(n) = sum of the rewards of attempt n
        r_hat(n) = R(n) - R(n-1), R(0) = 0
    paid at the last turn of attempt n.
        G_t = r_t + gamma G_{t+1}
    within an attempt, and
        r_hat(n) + gamma_episode G_1(n+1)
    at the last turn of an attempt that has a successor. A note before attempt n has G_1(n).
        A_E = r_hat - mean of r_hat over the (group, role), 0 for notes
        A_S = G_t - mean of G over the turns of the (group, role) that met the same anchor
        A = A_E + step_weight A_S
    ``pay: cumulative`` has R(n) for r_hat(n) in A_E and leaves rewards at their turns. With
    ``later: whole`` it is LaMer's
        G_t(n) = sum over l >= t of gamma^(l-t) r_l(n)
                 + sum over m > n of gamma_episode^(m-n) g_1(m)
    g_1(m) is the sum over l of gamma^(l-1) r_l(m), of attempt m alone.
    Shapes: advantages [N].
    Pitfalls: If nothing is carried from one attempt to the next, R(n-1) is only noise in attempt n,
    and an attempt with a successor, whose r_hat contains -R(n), loses the share gamma_episode of
    its step credit: a bias without a benefit. With fresh deals R(n-1) is also luck of the deal:
    take ``pay: cumulative`` and ``by_attempt: true`` then. Means over all attempts mix first
    attempts, which start from 0, with later ones. After an early win (``stop_on_win``) later
    attempts are missing, and ``by_attempt`` compares failures with failures. A table without the
    columns ``attempt`` and ``note`` gives no attempts: where trials may all end in their first one,
    write ``attempts: 1``. An attempt in which the seat had no turn is not seen; what it brought
    counts to the attempt after it, or without notes to the one before. What a seat earns in an
    attempt before its first turn there is on the note before it; without notes it is on the last
    turn of the attempt before, and counts there. A group of one attempt gives 0. Attempts of
    equal returns do not: the first alone is paid, unless ``pay`` is "cumulative". MAGE's release
    compares both seats of a game in one group; here roles are apart. Its anchor has the opponent's
    name, which changes nothing where a group has one set of opponents. Its penalties for invalid or
    long replies reach A_E alone, as the step returns that they are subtracted from are not the ones
    that A_S reads.
    Reference: MAGE (arXiv 2603.03680) and code of Lu-Yang666/MAGE; LaMer (arXiv 2512.16848) and
    code of mlbio-epfl/LaMer; Feng et al., 2025 (GiGPO, arXiv 2505.10978).
    Verified by: tests/methods/credit/test_mage.py, tests/methods/credit/test_attempts.py.

    Args:
        attempts: length of a sequence of attempts in tables without the columns ``attempt`` and
            ``note``, at least 1; all others say themselves what follows what. A seat's episodes of
            a group in one role, in order of their ids, are cut into sequences of this many (the
            last may be shorter). 1 makes every episode an attempt of its own; the default is 3.
        gamma: discount per turn within an attempt, in [0, 1]; 1 does not discount. The default is
            0.95.
        gamma_episode: factor on what later attempts gain, per attempt, in [0, 1]; 0 ignores later
            attempts. The default is 0.6.
        step_weight: weight of the turn-level term A_S, any number. 0 leaves A_E alone; 1 (default)
            counts both equally.
        anchor: which turns are compared: those with the same "view" (default), or those with the
            same information state ("state_key"). Notes are compared with notes alone.
        by_attempt: true compares only attempts with the same number in their sequences, at both
            levels; a note is of the attempt before it. False (default) compares all attempts.
        pay: "differential" (default, MAGE): an attempt is paid how much better it went than the one
            before. "cumulative" (LaMer): it is paid what it earned, where it earned it.
        later: how what later attempts bring reaches the turns of this one: "discounted" (default,
            both releases) by gamma for every turn that is left of it, or "whole" (LaMer's formula).
        over: what the means of A_E run over: "attempts" (default), or all "turns", so that long
            attempts weigh more (presets).
        note_zeros: true (presets): a note counts as an attempt, or turn, that was paid 0 in the
            means of A_E, and is compared with them. False (default): its A_E is 0.
        keep_lone: true (presets): what is alone in its mean of A_E keeps its raw value, as in
            released code. False (default): it gets 0.
        outcome: name of the part of the reward that R sums, "game" for the environment's own
            (presets). The rest of a turn's reward, such as fines, then counts in this turn's A_E
            alone, minus its mean over the turns compared. None (default) sums all of it, so that a
            fine counts against its attempt and is paid back in the next one.
        per_opponent: true compares only turns and attempts against the same players in the other
            seats, for groups that mix opponents. False (default) compares all.

    Raises:
        CreditError: the anchor's column or the part ``outcome`` is missing, or attempts are not in
            order.
    """
    part = turns.reward if outcome is None else component(turns, "mage", outcome)
    found = attempts_of(turns, "mage", attempts)
    own, left = earned(found, part)
    returns, differential = trajectory_sums(own, found.part), pay == "differential"
    gains = differences(found, returns) if differential else returns
    after = step_returns(
        found,
        at_the_end(found, gains) if differential else own,
        gamma,
        gamma_episode,
        last_only=differential,
        discounted=later == "discounted",
    )
    keys = _apart(turns, found, by_attempt, per_opponent)
    groups, count = group_ids(turns.group, turns.role, *keys)
    episode = _episode(found, gains, groups, count, (over == "turns", note_zeros, keep_lone))
    if outcome is not None:
        episode += _centred(turns.reward - part, groups, count, keep_lone)
    met, num_met = anchor_groups(turns, "mage", anchor)
    if keys:
        met, num_met = group_ids(met, *keys)
    step = centre(_with_notes(found, after, left), met, num_met)
    return Credit(advantages=episode + step_weight * step)


def _apart(
    turns: TurnTable, found: Attempts, by_attempt: bool, per_opponent: bool
) -> tuple[IntArray, ...]:
    """Return the columns [N] that must be equal where rows are compared, besides their group."""
    keys: list[IntArray] = []
    if by_attempt:
        number = np.zeros(len(turns.reward), dtype=np.int64)
        number[found.rows] = found.number[found.part]
        if turns.attempt is not None:
            number[found.notes] = turns.attempt[found.notes]
        keys.append(number)
    if per_opponent:
        assert turns.opponents is not None
        keys.append(turns.opponents)
    return tuple(keys)


def _episode(
    found: Attempts,
    gains: FloatArray,
    groups: IntArray,
    count: int,
    options: tuple[bool, bool, bool],
) -> FloatArray:
    """Return how an attempt compares with those of its group at each of its turns, [N]."""
    over_turns, note_zeros, keep_lone = options
    starts = found.rows[found.starts]
    rows, values = (found.rows, gains[found.part]) if over_turns else (starts, gains)
    entries = len(rows)
    if note_zeros:
        rows = np.append(rows, found.notes)
        values = np.append(values, np.zeros(len(found.notes)))
    level = _centred(values, groups[rows], count, keep_lone)
    result = np.zeros(len(groups))
    result[found.rows] = level[:entries] if over_turns else level[:entries][found.part]
    if note_zeros:
        result[found.notes] = level[entries:]
    return result


def _centred(values: FloatArray, ids: IntArray, count: int, keep_lone: bool) -> FloatArray:
    """Return values minus their group's mean; what is alone in its group may keep its own."""
    level = centre(values, ids, count)
    return np.where(group_counts(ids, count)[ids] == 1, values, level) if keep_lone else level


def _with_notes(found: Attempts, after: FloatArray, left: FloatArray) -> FloatArray:
    """Return what follows from every turn on, notes included, [N]."""
    result = np.zeros(len(found.rows) + len(found.notes))
    result[found.rows], result[found.notes] = after, left
    followed = found.after >= 0
    result[found.notes[followed]] = after[found.starts[found.after[followed]]]
    return result
