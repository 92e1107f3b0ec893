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
    """The attempts of a table, each with consecutive turns of one seat.

    Attributes:
        rows: rows of the table that are turns of attempts, in order, [P].
        attempt: index of the attempt of each turn in ``rows``, non-decreasing, [P].
        starts: index of each attempt's first turn in ``rows``, [K].
        lengths: number of turns of each attempt, [K].
        sequence: index of each attempt's sequence, [K].
        rank: index of each attempt in its sequence, from 0, [K].
        order: order of attempts by sequence and rank, [K].
        notes: rows of the table that are notes between attempts, [M].
        next_attempt: attempt that follows each note, or -1, [M].
    """

    rows: IntArray
    attempt: IntArray
    starts: IntArray
    lengths: IntArray
    sequence: IntArray
    rank: IntArray
    order: IntArray
    notes: IntArray
    next_attempt: IntArray

    @property
    def ends(self) -> IntArray:
        """Index of each attempt's last turn in ``rows``, [K]."""
        return self.starts + self.lengths - 1


def attempts_of(turns: TurnTable, method: str, length: int) -> Attempts:
    """Return the attempts of a table by its columns ``attempt`` and ``note``.

    In a table without these columns every trajectory is an attempt. The episodes of a seat in a
    (group, role), in order of their ids, then form sequences.

    Args:
        turns: the table.
        method: name of the estimator, for messages.
        length: length of these sequences; the last may be shorter.

    Raises:
        CreditError: attempts of a trajectory are not in order.
    """
    if turns.attempt is None and turns.note is None:
        return _attempts_by_episode(turns, length)
    attempt = np.zeros(len(turns.reward), np.int64) if turns.attempt is None else turns.attempt
    decreases = np.flatnonzero((np.diff(turns.trajectory) == 0) & (np.diff(attempt) < 0))
    if len(decreases):
        row = decreases[0] + 1
        raise CreditError(
            f"credit {method!r}: row {row} is of attempt {attempt[row]}, after attempt "
            f"{attempt[row - 1]} of the same seat and episode; sort the turns by time."
        )
    note = np.zeros(len(attempt), dtype=bool) if turns.note is None else turns.note
    rows, notes = np.flatnonzero(~note), np.flatnonzero(note)
    attempt_ids, _ = group_ids(turns.trajectory[rows], attempt[rows])
    starts = trajectory_starts(attempt_ids)
    sequence = turns.trajectory[rows[starts]]
    # the attempt of the first turn after each note, within the same trajectory
    next_indices = np.searchsorted(rows, notes)
    next_attempts = np.append(attempt_ids, -1)[next_indices]
    has_next = np.append(turns.trajectory[rows], -1)[next_indices] == turns.trajectory[notes]
    return Attempts(
        rows=rows,
        attempt=attempt_ids,
        starts=starts,
        lengths=np.diff(np.append(starts, len(rows))),
        sequence=sequence,
        rank=attempt[rows[starts]],
        order=np.arange(len(starts)),
        notes=notes,
        next_attempt=np.where(has_next, next_attempts, -1),
    )


def _attempts_by_episode(turns: TurnTable, length: int) -> Attempts:
    starts = trajectory_starts(turns.trajectory)
    groups, _ = group_ids(turns.group[starts], turns.role[starts], turns.seat[starts])
    order = np.lexsort((turns.episode[starts], groups))
    group_starts = trajectory_starts(groups[order])
    episode_ranks = np.empty(len(order), dtype=np.int64)
    lengths = np.diff(np.append(group_starts, len(order)))
    episode_ranks[order] = np.arange(len(order)) - np.repeat(group_starts, lengths)
    sequence, _ = group_ids(groups, episode_ranks // length)
    return Attempts(
        rows=np.arange(len(turns.reward)),
        attempt=turns.trajectory,
        starts=starts,
        lengths=np.diff(np.append(starts, len(turns.reward))),
        sequence=sequence,
        rank=episode_ranks % length,
        order=order,
        notes=np.zeros(0, dtype=np.int64),
        next_attempt=np.zeros(0, dtype=np.int64),
    )


def split_rewards(attempts: Attempts, reward: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (rewards of turns of attempts [P], rewards of notes [M]).

    The reward of a note is added to the first turn of the next attempt.

    Args:
        attempts: the attempts.
        reward: reward of every turn, [N].
    """
    attempt_rewards, note_rewards = reward[attempts.rows], reward[attempts.notes]
    has_next = attempts.next_attempt >= 0
    np.add.at(
        attempt_rewards, attempts.starts[attempts.next_attempt[has_next]], note_rewards[has_next]
    )
    return attempt_rewards, note_rewards


def return_gains(attempts: Attempts, returns: FloatArray) -> FloatArray:
    """Return each attempt's return minus that of the attempt before (0 for the first), [K]."""
    order, gains = attempts.order, np.empty(len(returns))
    sequence = attempts.sequence[order]
    previous_returns = next_values(returns[order][::-1], sequence[::-1])[::-1]
    gains[order] = returns[order] - previous_returns
    return gains


def pay_last_turns(attempts: Attempts, values: FloatArray) -> FloatArray:
    """Return one value per attempt as a reward of its last turn, [P]."""
    reward = np.zeros(len(attempts.rows))
    reward[attempts.ends] = values
    return reward


def step_returns(
    attempts: Attempts,
    reward: FloatArray,
    gamma: float,
    gamma_episode: float,
    *,
    last_only: bool,
    discounted: bool,
) -> FloatArray:
    """Return the return from every turn of an attempt on, with later attempts, [P].

    Args:
        attempts: the attempts.
        reward: reward of each turn, [P].
        gamma: discount per turn within an attempt.
        gamma_episode: factor on the next attempt's return from its first turn.
        last_only: whether only the last turns of attempts have rewards.
        discounted: whether ``gamma`` also discounts later attempts by the remaining turns.
    """
    order, sequence = attempts.order, attempts.sequence[attempts.order]
    returns = discounted_returns(reward, attempts.attempt, gamma=gamma)
    # discount from an attempt's last turn back to its first turn
    decay = np.power(gamma, attempts.lengths - 1, dtype=np.float64)
    first_returns = decay * reward[attempts.ends] if last_only else returns[attempts.starts]
    factor = decay * gamma_episode if discounted else np.full(len(decay), gamma_episode)
    totals = backward_recurrence(first_returns[order], factor[order], sequence)
    later_returns = np.empty(len(first_returns))
    later_returns[order] = gamma_episode * next_values(totals, sequence)
    if not discounted:
        return returns + later_returns[attempts.attempt]
    reward_with_later = reward.copy()
    reward_with_later[attempts.ends] += later_returns
    return discounted_returns(reward_with_later, attempts.attempt, gamma=gamma)


NEEDS_BY = {"per_opponent": {True: {"opponents"}}}
_AS_RELEASED = {
    "attempts": 1,
    "over": "turns",
    "note_zeros": True,
    "keep_lone": True,
    "outcome": "game",
}
GROUP_RELATIVE = {"by_attempt": {True}}
PRESETS = {
    "as_released": _AS_RELEASED,
    "lamer": {**_AS_RELEASED, "pay": "cumulative", "later": "whole"},
    "lamer_as_released": {**_AS_RELEASED, "pay": "cumulative"},
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
    """Credit an attempt with its gain over the attempt before, and with gains of later attempts.

    What: The environment ``trial`` has several attempts in an episode, with notes between them. The
    reward of an attempt is its return minus that of the attempt before, or (LaMer) its return. Then
    the two levels of GiGPO compare attempts of a group, and turns with the same view in any
    attempt. A note has the return from the next attempt's first turn on.
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
    With ``pay: cumulative`` A_E uses R(n) in place of r_hat(n), and rewards stay at their turns.
    With ``later: whole`` as well, the return from a turn on is LaMer's
        G_t(n) = sum over l >= t of gamma^(l-t) r_l(n)
                 + sum over m > n of gamma_episode^(m-n) g_1(m)
    g_1(m) is the sum over l of gamma^(l-1) r_l(m), of attempt m alone.
    Shapes: advantages [N].
    Pitfalls:
        - If attempts do not learn from earlier ones, R(n-1) is only noise in attempt n. An attempt
          with a successor, whose r_hat contains -R(n), then loses the share gamma_episode of its
          step credit. This is a bias without a benefit.
        - With new deals R(n-1) also contains the luck of the deal. Use ``pay: cumulative`` and
          ``by_attempt: true`` then.
        - Means over all attempts mix first attempts, which start from 0, with later attempts.
        - After an early win (``stop_on_win``) later attempts are missing. Then ``by_attempt``
          compares failures with failures.
        - A table without the columns ``attempt`` and ``note`` does not mark attempts. If trials may
          all end in their first attempt, write ``attempts: 1``.
        - If the seat has no turn in an attempt, the attempt's reward counts for the next attempt,
          or without notes for the attempt before.
        - A reward before the seat's first turn in an attempt counts for the note before, or without
          notes for the last turn of the attempt before.
        - A group of one attempt gives 0. A group of equal returns does not, unless ``pay`` is
          "cumulative": its first attempts have a reward, and later ones have none.
        - MAGE's code compares both seats of a game in one group; here roles are separate.
        - The anchor of MAGE's code contains the opponent's name. This matters only for groups with
          several sets of opponents.
        - In MAGE's code, penalties for invalid or long replies affect only A_E, because the code
          subtracts them from step returns that A_S does not read.
    Reference: MAGE (arXiv 2603.03680) and code of Lu-Yang666/MAGE; LaMer (arXiv 2512.16848) and
    code of mlbio-epfl/LaMer; Feng et al., 2025 (GiGPO, arXiv 2505.10978).
    Verified by: tests/methods/credit/test_mage.py, tests/methods/credit/test_attempts.py.

    Args:
        attempts: length of a sequence of attempts in tables without the columns ``attempt`` and
            ``note``, at least 1. A seat's episodes of a group in one role, in order of their ids,
            form sequences of this length (the last may be shorter). With 1 every episode is a
            separate attempt; the default is 3.
        gamma: discount per turn within an attempt, in [0, 1]; 1 does not discount. The default is
            0.95.
        gamma_episode: factor on the gains of later attempts, per attempt, in [0, 1]; 0 ignores
            later attempts. The default is 0.6.
        step_weight: weight of the turn-level term A_S, any number. 0 leaves A_E alone; 1 (default)
            counts both equally.
        anchor: which turns are compared: those with the same "view" (default), or those with the
            same information state ("state_key"). Notes are compared with notes alone.
        by_attempt: true compares only attempts with the same number in their sequences, at both
            levels; a note belongs to the attempt before it. False (default) compares all attempts.
        pay: reward of an attempt: "differential" (default, MAGE), its return minus that of the
            attempt before, or "cumulative" (LaMer), its rewards at their turns.
        later: weight of later attempts in the returns of turns: "discounted" (default, both
            authors' code) by gamma for every remaining turn, or "whole" (LaMer's formula).
        over: unit of the means of A_E: "attempts" (default), or all "turns", so that long attempts
            weigh more (presets).
        note_zeros: true (presets): a note counts as an attempt, or turn, of reward 0 in the means
            of A_E. False (default): the A_E of a note is 0.
        keep_lone: true (presets): a single entry in a mean of A_E keeps its raw value, as in
            the authors' code. False (default): a single entry gets 0.
        outcome: name of the part of the reward that R sums, "game" for the environment's reward
            (presets). Other parts of a turn's reward, such as fines, then count only in this turn's
            A_E, minus their mean over the compared turns. None (default) sums all parts. Then a
            fine lowers r_hat of its attempt and raises r_hat of the next attempt.
        per_opponent: true compares only turns and attempts against the same players in the other
            seats, for groups that mix opponents. False (default) compares all.

    Raises:
        CreditError: the anchor's column or the part ``outcome`` is missing, or attempts are not in
            order.
    """
    reward = turns.reward if outcome is None else component(turns, "mage", outcome)
    data = attempts_of(turns, "mage", attempts)
    rewards, note_rewards = split_rewards(data, reward)
    returns, is_differential = trajectory_sums(rewards, data.attempt), pay == "differential"
    gains = return_gains(data, returns) if is_differential else returns
    later_returns = step_returns(
        data,
        pay_last_turns(data, gains) if is_differential else rewards,
        gamma,
        gamma_episode,
        last_only=is_differential,
        discounted=later == "discounted",
    )
    keys = _comparison_keys(turns, data, by_attempt, per_opponent)
    groups, num_groups = group_ids(turns.group, turns.role, *keys)
    options = over == "turns", note_zeros, keep_lone
    advantages = _attempt_advantages(data, gains, groups, num_groups, options)
    if outcome is not None:
        advantages += _centre(turns.reward - reward, groups, num_groups, keep_lone)
    anchors, num_anchors = anchor_groups(turns, "mage", anchor)
    if keys:
        anchors, num_anchors = group_ids(anchors, *keys)
    turn_advantages = centre(_add_notes(data, later_returns, note_rewards), anchors, num_anchors)
    return Credit(advantages=advantages + step_weight * turn_advantages)


def _comparison_keys(
    turns: TurnTable, attempts: Attempts, by_attempt: bool, per_opponent: bool
) -> tuple[IntArray, ...]:
    """Return the further columns, [N] each, in which rows must be equal to be compared."""
    keys: list[IntArray] = []
    if by_attempt:
        attempt_index = np.zeros(len(turns.reward), dtype=np.int64)
        attempt_index[attempts.rows] = attempts.rank[attempts.attempt]
        if turns.attempt is not None:
            attempt_index[attempts.notes] = turns.attempt[attempts.notes]
        keys.append(attempt_index)
    if per_opponent:
        assert turns.opponents is not None
        keys.append(turns.opponents)
    return tuple(keys)


def _attempt_advantages(
    attempts: Attempts,
    gains: FloatArray,
    groups: IntArray,
    num_groups: int,
    options: tuple[bool, bool, bool],
) -> FloatArray:
    over_turns, note_zeros, keep_lone = options
    starts = attempts.rows[attempts.starts]
    rows, values = (attempts.rows, gains[attempts.attempt]) if over_turns else (starts, gains)
    num_entries = len(rows)
    if note_zeros:
        rows = np.append(rows, attempts.notes)
        values = np.append(values, np.zeros(len(attempts.notes)))
    centred = _centre(values, groups[rows], num_groups, keep_lone)
    result = np.zeros(len(groups))
    attempt_values, note_values = centred[:num_entries], centred[num_entries:]
    result[attempts.rows] = attempt_values if over_turns else attempt_values[attempts.attempt]
    if note_zeros:
        result[attempts.notes] = note_values
    return result


def _centre(values: FloatArray, ids: IntArray, num_groups: int, keep_lone: bool) -> FloatArray:
    """Return values minus their group's mean; a single value stays if ``keep_lone``."""
    is_lone = group_counts(ids, num_groups)[ids] == 1
    return np.where(is_lone & keep_lone, values, centre(values, ids, num_groups))


def _add_notes(attempts: Attempts, values: FloatArray, note_rewards: FloatArray) -> FloatArray:
    """Return the return from every turn on, with notes, [N]."""
    returns = np.zeros(len(attempts.rows) + len(attempts.notes))
    returns[attempts.rows], returns[attempts.notes] = values, note_rewards
    has_next = attempts.next_attempt >= 0
    returns[attempts.notes[has_next]] = values[attempts.starts[attempts.next_attempt[has_next]]]
    return returns
