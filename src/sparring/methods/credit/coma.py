"""Credit: counterfactual multi-agent advantages (COMA), by exact values or a running table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import require_column
from sparring.ops.groups import (
    discounted_returns,
    group_counts,
    group_ids,
    group_sum,
    trajectory_starts,
)

MIN_WEIGHT = 1e-6  # weight below which an entry leaves the table
MAX_ENTRIES = 20_000  # largest size of the table; entries with the smallest n leave first
REMOVED = {"max_entries": (MAX_ENTRIES, "0.2.0")}


def coma(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    values: Literal["table", "exact"] = "table",
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    decay: Annotated[float, Field(ge=0, le=1)] = 0.9,
) -> Credit:
    """Compare an action's value with the mean value of the agent's actions in the same view.

    What: The counterfactual baseline is the mean of Q over the agent's own actions, weighted by its
    policy. A running table over (game, role, view, action) estimates Q. Checkpoints store it.
    When to use: teams and self-play in games whose views occur often. No critic network is trained.
    Mathematics:
        A[t] = Q(s_t, a_t) - sum over a' of policy(a' | s_t) Q(s_t, a')
    With "table"
        Q(s, a) = W / n
        n <- decay n + number of turns that played (s, a)
        W <- decay W + sum of the discounted returns that followed
    this batch included. policy(a | s) is how often a was played among this batch's turns in s. With
    "exact"
        A[t] = Q(s_t, a_t) - V(s_t)
    Shapes: advantages [N]; state {"[game, role, view, action]": [n, W]} ("table").
    Pitfalls:
        - A view hides the seat's memory, so different states may share an entry, which is a bias.
        - A turn's return is part of its Q. If only one action was played in a view, A = 0.
        - All turns without an action count as one action.
        - The paper's Q reads the joint state and actions. Here an entry averages over the others'
          hidden states and actions, like Q in the credit lab.
    Reference: Foerster et al., 2018 (arXiv 1705.08926); a table replaces the critic network.
    Verified by: tests/methods/credit/test_exact_values.py.

    Args:
        values: where Q comes from. "table" (default): the running table. "exact": the columns of
            exact values, for turn tables that have them (in the credit lab). In a run write
            ``credit: exact_advantage`` instead, which gives the same advantages.
        gamma: discount per turn of the returns in the table, in [0, 1]; 1 (default) does not
            discount.
        decay: factor on the table's n and W per batch, in [0, 1]. 0 uses this batch only, 1 weighs
            all batches equally; the default 0.9 averages over about ten batches.

    Raises:
        CreditError: a column is missing.
    """
    if values == "exact":
        q, v = (require_column(turns, "coma", name) for name in ("action_value", "state_value"))
        return Credit(advantages=q - v, state=dict(state))
    view, action = (require_column(turns, "coma", name) for name in ("view", "action"))
    first_rows = trajectory_starts(turns.trajectory)
    roles = np.repeat(
        group_ids(turns.game[first_rows], turns.role[first_rows])[0],
        np.diff(np.append(first_rows, len(turns.reward))),
    )
    role_views, num_role_views = group_ids(roles * (int(view.max(initial=0)) + 1) + view)
    pairs, num_pairs = group_ids(role_views * (int(action.max(initial=-1)) + 2) + action + 1)
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    table = {
        key: (decay * num_plays, decay * total)
        for key, (num_plays, total) in state.items()
        if decay * num_plays > MIN_WEIGHT
    }
    counts = group_counts(pairs, num_pairs)
    pair_values = _update_table(
        table, _keys(turns, pairs, num_pairs), counts, group_sum(returns, pairs, num_pairs)
    )
    action_values = pair_values[pairs]
    baseline = group_sum(action_values, role_views, num_role_views) / np.maximum(
        group_counts(role_views, num_role_views), 1
    )
    metrics = {"table_size": float(len(table))}
    advantages = action_values - baseline[role_views]
    return Credit(advantages=advantages, state=_most_frequent(table), metrics=metrics)


def _keys(turns: TurnTable, pairs: IntArray, num_pairs: int) -> list[str]:
    assert turns.view is not None
    assert turns.action is not None
    example_rows = np.empty(num_pairs, dtype=np.int64)
    example_rows[pairs] = np.arange(len(pairs))
    columns = (
        turns.game[example_rows].tolist(),
        turns.role[example_rows].tolist(),
        turns.view[example_rows].tolist(),
        turns.action[example_rows].tolist(),
    )
    return [
        json.dumps(
            [
                turns.game_names[game],
                turns.role_names[role],
                turns.view_names[view],
                turns.action_names[action] if action >= 0 else None,
            ]
        )
        for game, role, view, action in zip(*columns, strict=True)
    ]


def _update_table(
    table: dict[str, tuple[float, float]], keys: list[str], counts: IntArray, totals: FloatArray
) -> FloatArray:
    values = np.empty(len(keys))
    for index, (key, num_plays, total) in enumerate(
        zip(keys, counts.tolist(), totals.tolist(), strict=True)
    ):
        old_num_plays, old_total = table.get(key, (0.0, 0.0))
        table[key] = old_num_plays + num_plays, old_total + total
        values[index] = table[key][1] / table[key][0]
    return values


def _most_frequent(table: Mapping[str, tuple[float, float]]) -> dict[str, list[float]]:
    """Return the table as lists, with at most ``MAX_ENTRIES`` of the most frequent entries."""
    entries = (
        table.items()
        if len(table) <= MAX_ENTRIES
        else sorted(table.items(), key=lambda item: (-item[1][0], item[0]))[:MAX_ENTRIES]
    )
    return {key: [count, total] for key, (count, total) in entries}
