"""Groups of anchor states: turns of a group with equal views, information states or actions."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Literal

import numpy as np

from sparring.core.errors import ConfigError
from sparring.core.records import FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import require_column, start_groups
from sparring.ops.groups import group_ids, group_mean, trajectory_starts

Anchor = Literal["view", "state_key"]


def anchor_groups(
    turns: TurnTable, method: str, anchor: Anchor, similarity: float | None = None
) -> tuple[IntArray, int]:
    """Return (id of each turn's anchor state [N], number of ids).

    Ids are equal if and only if group, role, game and anchor are equal. Notes between attempts are
    compared only with notes.

    Args:
        turns: the table.
        method: name of the estimator, for messages.
        anchor: the column of the anchor state.
        similarity: smallest similarity of a text to the first text of its cluster, within a group.
            None requires equal texts.

    Raises:
        CreditError: the column is missing.
        ConfigError: similarity is given for information states, which have no texts.
    """
    column = require_column(turns, method, anchor)
    if similarity is None:
        return group_ids(turns.group, turns.role, turns.game, column, *_note_columns(turns))
    if anchor != "view":
        raise ConfigError(
            f"credit {method!r}: similarity={similarity} needs texts, which {anchor!r} lacks; "
            "write anchor: view."
        )
    return group_ids(_clusters(turns, column, similarity), *_note_columns(turns))


def _note_columns(turns: TurnTable) -> tuple[IntArray, ...]:
    return () if turns.note is None else (turns.note.astype(np.int64),)


def node_groups(turns: TurnTable, method: str, anchors: IntArray) -> tuple[IntArray, int]:
    """Return (id of each turn's anchor state and action [N], number of ids).

    A turn without an action has a separate id.

    Raises:
        CreditError: the column of actions is missing.
    """
    action = require_column(turns, method, "action")
    has_no_action = action < 0
    action = np.where(has_no_action, action.max(initial=0) + np.cumsum(has_no_action), action)
    return group_ids(anchors, action)


def positions(trajectory: IntArray) -> IntArray:
    """Return each row's index within its trajectory, from 0, [N]."""
    first_rows = trajectory_starts(trajectory)
    return np.arange(len(trajectory)) - np.repeat(
        first_rows, np.diff(np.append(first_rows, len(trajectory)))
    )


def mean_over_trajectories(
    values: FloatArray, ids: IntArray, num_ids: int, trajectory: IntArray
) -> FloatArray:
    """Return the mean of a trajectory's value over the trajectories of each id, [num_ids].

    A repeated id counts once per trajectory.

    Args:
        values: value of each row, equal over the rows of a trajectory, [N].
        ids: id of each row, [N].
        num_ids: number of ids.
        trajectory: trajectory of each row, [N].
    """
    rows = _first_rows(ids, trajectory)
    return group_mean(values[rows], ids[rows], num_ids)


def _first_rows(ids: IntArray, trajectory: IntArray) -> IntArray:
    """Return one row per (id, trajectory)."""
    # a stable sort keeps the order of rows, and so of trajectories, within an id
    order = np.argsort(ids, kind="stable")
    is_repeated = (np.diff(ids[order]) == 0) & (np.diff(trajectory[order]) == 0)
    return order[np.append(True, ~is_repeated)] if len(order) else order


def _clusters(turns: TurnTable, view: IntArray, similarity: float) -> IntArray:
    """Return the id of each row's cluster of similar views, [N], by greedy clustering in order."""
    groups, num_groups = group_ids(start_groups(turns)[0], turns.game)
    pairs, num_pairs = group_ids(groups, view)
    rows = np.zeros(num_pairs, dtype=np.int64)
    rows[pairs] = np.arange(len(pairs))
    texts_of_groups: list[list[tuple[str, int]]] = [[] for _ in range(num_groups)]
    for pair, row in enumerate(rows):
        texts_of_groups[groups[row]].append((turns.view_names[view[row]], pair))
    cache: dict[tuple[str, str], bool] = {}
    leader_of = np.arange(num_pairs)
    for texts in texts_of_groups:
        leaders: list[tuple[str, int]] = []
        for text, pair in sorted(texts):
            for leader_text, leader in leaders:
                if _is_similar(text, leader_text, similarity, cache):
                    leader_of[pair] = leader
                    break
            else:
                leaders.append((text, pair))
    return leader_of[pairs]


def _is_similar(a: str, b: str, similarity: float, cache: dict[tuple[str, str], bool]) -> bool:
    is_similar = cache.get((a, b))
    if is_similar is None:
        matcher = SequenceMatcher(None, a, b)
        # the first two are upper bounds of the ratio, and faster to compute
        ratios = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
        is_similar = cache[a, b] = all(ratio() >= similarity for ratio in ratios)
    return is_similar
