"""Checks the contract of advantage estimators."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from sparring.config.plugins.registry import BoundPlugin, built_in, sort_columns
from sparring.core.records import Credit, TurnTable
from sparring.core.rng import Stream
from sparring.methods.columns.base import FIELDS
from sparring.testing.bound_plugin import bind_plugin


def check_estimator(
    estimator: Callable[..., Any] | BoundPlugin, *, tables: int = 50, seed: int = 0, **options: Any
) -> None:
    """Check an advantage estimator on random turn tables.

    The tables have only the optional columns in the estimator's NEEDS. Half of them come from the
    environment ``trial``: their turns have attempts, and some turns are notes.

    The estimator must return a Credit with one finite advantage per turn, or per token if its level
    is "token", and equal advantages for equal tables; it must not change the table or the state. A
    state from JSON must lead to the same next step. If the estimator needs "value", it must return
    targets for the critic.

    Args:
        estimator: the function, or the bound plug-in.
        tables: number of tables; one of them has no turns.
        seed: seed of the tables.
        options: options of the function.

    Raises:
        AssertionError: the estimator breaks one of these rules.
        PluginError: the estimator raised an exception that is not Sparring's, or returned an
            unusable value.
    """
    plugin = bind_plugin("credit", estimator, options)
    root = Stream.from_seed(seed)
    state: dict[str, Any] = {}
    for number in range(tables):
        table_stream = root.child(number)
        lengths = [1 + table_stream.integer(counter, 4) for counter in range(number % 13)]
        trials = number % 2 == 1
        turns = random_table(lengths, seed=number, trials=trials)
        check_estimator_on(plugin, _with_needed_columns(turns, plugin), {})
        turns = random_table(lengths or [1], seed=number, trials=trials)
        state = check_state(plugin, _with_needed_columns(turns, plugin), state)


def _with_needed_columns(turns: TurnTable, estimator: BoundPlugin) -> TurnTable:
    """Drop columns that the estimator does not need; fill columns of plug-ins at random."""
    needs = sort_columns(estimator.needs)
    changes: dict[str, Any] = {name: None for name in built_in("columns") if name not in needs}
    stream = Stream.from_seed(0)
    plugin_columns = {
        name: stream.child(name).generator().normal(size=len(turns.reward))
        for name in needs
        if name not in FIELDS
    }
    if "state_group" in needs or "committed" in needs:
        rows = np.arange(len(turns.reward))
        changes |= {"state_group": rows // 3, "committed": rows % 3 == 0}
    return dataclasses.replace(turns, **changes, extra=plugin_columns)


def check_estimator_on(plugin: BoundPlugin, turns: TurnTable, state: Mapping[str, Any]) -> Credit:
    """Check an estimator on one table and return its credit; see ``check_estimator``."""
    original, state_json = copy.deepcopy(turns), json.dumps(state)
    credit: Credit = plugin(turns, state)
    assert json.dumps(state) == state_json, (
        f"The {plugin} changed the state that was passed to it; return a new state."
    )
    for field in dataclasses.fields(turns):
        _require_equal(
            getattr(turns, field.name),
            getattr(original, field.name),
            f"The {plugin} changed the column {field.name!r} of the table.",
        )
    second_credit = plugin(turns, json.loads(state_json))
    _require_equal(
        credit.advantages,
        second_credit.advantages,
        f"The {plugin} returned other advantages for the same table; do not use random numbers.",
    )
    json.dumps(credit.state)
    for need in {"value", "token_value"} & plugin.needs:
        has_targets = credit.value_targets is not None
        assert has_targets, (
            f"The {plugin} needs {need!r} and must return value_targets, to which the "
            "critic is fitted."
        )
    return credit


def check_state(plugin: BoundPlugin, turns: TurnTable, state: Mapping[str, Any]) -> dict[str, Any]:
    """Check that a state from JSON leads to the same next step; return the new state."""
    credit, resumed_credit = plugin(turns, state), plugin(turns, json.loads(json.dumps(state)))
    _require_equal(
        credit.advantages,
        resumed_credit.advantages,
        f"The {plugin} returns other advantages after its state was written as JSON and read.",
    )
    assert credit.state == resumed_credit.state, (
        f"The {plugin} returns another state after its state was written as JSON and read."
    )
    metric_values = credit.metrics.values()
    assert all(np.isfinite(value) for value in metric_values), (
        f"The {plugin} returned metrics that are not finite: {dict(credit.metrics)}."
    )
    return dict(credit.state)


def _require_equal(first: Any, second: Any, message: str) -> None:
    try:
        np.testing.assert_equal(first, second)
    except AssertionError:
        raise AssertionError(message) from None


def random_table(lengths: Sequence[int], seed: int, *, trials: bool = False) -> TurnTable:
    """Return a turn table with every column: two seats per episode, two episodes per group.

    Args:
        lengths: number of turns of each trajectory.
        seed: seed of all random draws.
        trials: whether turns have attempts and notes; this changes no other column.
    """
    root, counter = Stream.from_seed(seed), itertools.count()
    num_turns, num_trajectories = sum(lengths), len(lengths)

    def uniform(number: int) -> Any:
        stream = root.child(next(counter))
        return np.array([stream.uniform(index) for index in range(number)])

    def normal(number: int) -> Any:
        return np.array(
            [NormalDist().inv_cdf(min(max(share, 1e-9), 1 - 1e-9)) for share in uniform(number)]
        )

    def integers(low: int, high: int, number: int) -> Any:
        return low + np.floor((high - low) * uniform(number)).astype(np.int64)

    def column(per_trajectory: Any) -> Any:
        return np.repeat(np.asarray(per_trajectory, dtype=np.int64), lengths)

    is_last_turn = np.zeros(num_turns, dtype=bool)
    if num_turns:
        is_last_turn[np.cumsum(lengths) - 1] = True
    reward, n_tokens = normal(num_turns), integers(1, 4, num_turns)
    table = TurnTable(
        episode=column(np.arange(num_trajectories) // 2),
        group=column(np.arange(num_trajectories) // 4),
        trajectory=column(np.arange(num_trajectories)),
        game=column(integers(0, 2, num_trajectories)[np.arange(num_trajectories) // 4]),
        role=column(np.arange(num_trajectories) % 2),
        seat=column(np.arange(num_trajectories) % 2),
        agent=column(np.zeros(num_trajectories)),
        turn_index=np.concatenate([np.arange(n) for n in lengths]).astype(np.int64)
        if num_turns
        else np.zeros(0, dtype=np.int64),
        reward=reward,
        components={
            "game": 0.75 * reward,
            "process": 0.125 * reward,
            "best_action": 0.125 * reward,
        },
        done=is_last_turn,
        state_key=integers(0, 5, num_turns),
        legal=np.ones(num_turns, dtype=bool),
        n_tokens=n_tokens,
        action=integers(-1, 3, num_turns),
        view=integers(0, 4, num_turns),
        logprob=-uniform(num_turns),
        value=normal(num_turns),
        value_after=normal(num_turns),
        old_logprob=-uniform(num_turns),
        reference_logprob=-uniform(num_turns),
        process_logprob=-uniform(num_turns),
        action_value=normal(num_turns),
        state_value=normal(num_turns),
        default_value=normal(num_turns),
        token_value=normal(int(n_tokens.sum())),
        playout=normal(num_turns),
        playout_before=normal(num_turns),
        candidate_value=normal(num_turns),
        candidate_judged=uniform(num_turns) < 0.75,
        opponents=column(np.arange(num_trajectories) // 2 % 2),
        failed=column(np.arange(num_trajectories) % 5 == 2) > 0,
        wideseek_turns=column(np.arange(num_trajectories) % 4 != 3) > 0,
        cut=is_last_turn & (column(np.arange(num_trajectories) % 3) == 1),
        action_names=("up", "down", "left"),
        view_names=("near", "far", "here", "there"),
        game_names=("a", "b"),
        role_names=("x", "y"),
        agent_names=("learner",),
    )
    return _as_trials(table, root.child("trials")) if trials else table


def _as_trials(turns: TurnTable, stream: Stream) -> TurnTable:
    num_turns = len(turns.reward)
    attempt, note = np.zeros(num_turns, dtype=np.int64), np.zeros(num_turns, dtype=bool)
    for row in range(1, num_turns):
        if turns.trajectory[row] != turns.trajectory[row - 1]:
            continue
        kind = stream.integer(row, 3)
        note[row] = kind == 1  # kind 1: a note, also after another note; 2: a new attempt
        is_new_attempt = note[row - 1] if kind != 1 else False
        attempt[row] = attempt[row - 1] + (is_new_attempt or kind == 2)
    return dataclasses.replace(turns, attempt=attempt, note=note)
