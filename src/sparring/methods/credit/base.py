"""Functions for estimators: checks of the turn table, groups, parts of rewards, truncation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sparring.config.plugins.registry import BoundPlugin, Plugin
from sparring.core.errors import CreditError, PluginError
from sparring.core.records import BoolArray, Credit, FloatArray, IntArray, TurnTable
from sparring.ops.groups import group_ids, trajectory_starts, trajectory_sums

NEEDS_FROM = ("columns",)
RENAMED = {  # names in NEEDS before the columns were plug-ins
    "values": {"value"},
    "values_after": {"value_after"},
    "token_values": {"token_value"},
    "old_logprobs": {"old_logprob"},
    "reference_logprobs": {"reference_logprob"},
    "process_logprobs": {"process_logprob"},
    "action_values": {"action_value", "state_value", "default_value"},
}
MISSING_COLUMN_ADVICE = {  # column -> end of the error text for a missing column
    "value": "; declare NEEDS = {'value'} so that the critic computes the column.",
    "process_logprob": ", of a process model, which only a run trains; elsewhere write preset "
    "policy (in the lab oprl:policy).",
    **dict.fromkeys(
        ("state_group", "committed"),
        ", which has a row for every reply to a prompt; write turn_table(episodes, "
        "candidates=True).",
    ),
}
MAX_ADVANTAGE = 1e30  # largest size of an advantage, well below the limit of float32


def check_input(estimator: BoundPlugin, turns: TurnTable, *state: Any) -> None:
    """Check the turn table, and the columns of an estimator's NEEDS, before each call."""
    validate_turn_table(turns, estimator.plugin.name, columns=sorted(estimator.needs))


def validate_turn_table(turns: TurnTable, method: str, *, columns: Iterable[str] = ()) -> None:
    """Check the rewards, groups and required columns of a turn table.

    Args:
        turns: the table.
        method: name of the estimator, for messages.
        columns: required optional columns.

    Raises:
        CreditError: a reward or required column is not finite, a required column is missing, or a
            group mixes games.
    """
    _check_groups(turns, method)
    invalid = np.flatnonzero(~np.isfinite(turns.reward))
    if len(invalid):
        raise CreditError(
            f"credit {method!r}: reward {turns.reward[invalid[0]]} in row {invalid[0]} is not "
            "finite; correct the game or the reward plug-in from which it comes."
        )
    for name in columns:
        require_column(turns, method, name)


def require_column(turns: TurnTable, method: str, name: str) -> Any:
    """Return an optional column of the turn table, an array of finite numbers.

    Args:
        turns: the table.
        method: name of the estimator, for messages.
        name: the column.

    Raises:
        CreditError: the column is missing or not finite.
    """
    column = turns.extra.get(name, getattr(turns, name, None))
    if column is None:
        advice = MISSING_COLUMN_ADVICE.get(name, f"; declare NEEDS = {{{name!r}}} in its module.")
        raise CreditError(f"credit {method!r} needs the column {name!r} of the turn table{advice}")
    invalid = np.flatnonzero(~np.isfinite(column))
    if len(invalid) and name == "value":
        raise CreditError(
            f"credit {method!r}: the critic's value in row {invalid[0]} is not finite; lower the "
            "learning rate."
        )
    if len(invalid):
        raise CreditError(
            f"credit {method!r}: {name} {column[invalid[0]]} in row {invalid[0]} is not finite."
        )
    return column


def adapt(plugin: Plugin) -> Callable[..., Credit]:
    """Return an estimator as a function of table and state that returns a Credit.

    An estimator without state may be a function of the table that returns advantages, [N], or one
    per sampled token if its module declares ``LEVEL = "token"``.
    """
    parameters = inspect.signature(plugin.function).parameters.values()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional_parameters = [parameter for parameter in parameters if parameter.kind in by_position]
    if len(positional_parameters) != 1:
        return plugin.function

    def with_state(turns: TurnTable, state: Mapping[str, Any], **options: Any) -> Credit:
        result = plugin.function(turns, **options)
        if isinstance(result, Credit):
            return replace(result, state=dict(state))
        return Credit(
            advantages=np.asarray(result), state=dict(state), level=plugin.declarations.LEVEL
        )

    return with_state


def check_output(estimator: BoundPlugin, credit: Any, turns: TurnTable, *state: Any) -> None:
    """Check the output of an estimator, after every call.

    Raises:
        PluginError: advantages, value targets or baselines are not one finite number per turn, or
            per token; or ``trained`` is not a boolean per turn.
    """
    if not isinstance(credit, Credit):
        raise PluginError(
            f"The {estimator} must return a Credit; it returned {type(credit).__name__}."
        )
    num_tokens, num_rows = int(turns.n_tokens.sum()), len(turns.reward)
    by_token = "token_value" in estimator.needs and "value" not in estimator.needs
    length = num_tokens if credit.level == "token" else num_rows
    _check_column(estimator, "advantages", credit.advantages, length)
    if credit.value_targets is not None:
        length = num_tokens if by_token else num_rows
        _check_column(estimator, "value_targets", credit.value_targets, length)
    if credit.baselines is not None:
        _check_column(estimator, "baselines", credit.baselines, num_rows)
    if credit.trained is not None:
        mask = np.asarray(credit.trained)
        if mask.shape != (num_rows,) or mask.dtype != bool:
            raise PluginError(
                f"The {estimator} must return trained as booleans of shape ({num_rows},) here; it "
                f"returned {mask.dtype} of shape {mask.shape}."
            )


def _check_column(estimator: BoundPlugin, name: str, column: FloatArray, length: int) -> None:
    if np.shape(column) != (length,):
        raise PluginError(
            f"The {estimator} must return {name} of shape ({length},) here; it "
            f"returned {np.shape(column)}."
        )
    dtype = np.asarray(column).dtype
    if dtype.kind not in "fiu":
        raise PluginError(
            f"The {estimator} must return {name} as an array of numbers; it returned {dtype}."
        )
    invalid = np.flatnonzero(~(np.abs(column) <= MAX_ADVANTAGE))
    if len(invalid):
        raise PluginError(
            f"The {estimator} returned {name} {column[invalid[0]]} in row {invalid[0]}; all must "
            f"be finite and at most {MAX_ADVANTAGE:g} in size."
        )


def _check_groups(turns: TurnTable, method: str) -> None:
    if not len(turns.game) or turns.game.min() == turns.game.max():
        return
    groups, num_groups = group_ids(turns.group)
    game_of_group = np.zeros(num_groups, dtype=np.int64)
    game_of_group[groups] = turns.game
    mixed_rows = np.flatnonzero(game_of_group[groups] != turns.game)
    if len(mixed_rows):
        row = mixed_rows[0]
        names = sorted(
            turns.game_names[game] for game in (turns.game[row], game_of_group[groups[row]])
        )
        raise CreditError(
            f"credit {method!r}: group {turns.group[row]} (row {row}) mixes the "
            f"games {names[0]!r} and {names[1]!r}, whose returns cannot be compared; use "
            "separate groups for each game."
        )


def role_groups(turns: TurnTable) -> tuple[IntArray, int]:
    """Return (id of every row's (game, role) [N], number of ids)."""
    return group_ids(turns.game, turns.role)


def start_groups(turns: TurnTable) -> tuple[IntArray, int]:
    """Return (id of every row's (group, role) [N], number of ids), the groups of baselines."""
    return group_ids(turns.group, turns.role)


def turn_keys(turns: TurnTable) -> tuple[IntArray, ...]:
    """Return (group, role, turn index) of every row as columns, [N] each.

    Further columns separate memories, notes and attempts. Rows that are equal in all columns are
    comparable turns of episodes with one initial state.
    """
    optional_columns = (turns.memory, turns.attempt, turns.note)
    columns = tuple(column.astype(np.int64) for column in optional_columns if column is not None)
    return (turns.group, turns.role, turns.turn_index, *columns)


def trajectory_returns(turns: TurnTable) -> tuple[FloatArray, IntArray]:
    """Return (undiscounted return, first row) of each trajectory."""
    return trajectory_sums(turns.reward, turns.trajectory), trajectory_starts(turns.trajectory)


def broadcast_to_turns(values: FloatArray, turns: TurnTable) -> FloatArray:
    """Return one value per trajectory broadcast to its rows, [N]."""
    first_rows = trajectory_starts(turns.trajectory)
    return np.repeat(values, np.diff(np.append(first_rows, len(turns.trajectory))))


def component(turns: TurnTable, method: str, name: str) -> FloatArray:
    """Return a named part of the reward, [N].

    Args:
        turns: the table.
        method: name of the estimator, for messages.
        name: the part; the components of an empty table are empty.

    Raises:
        CreditError: no turn has this part, or the part is not finite.
    """
    if name not in turns.components:
        if not len(turns.reward):
            return np.zeros(0)
        names = ", ".join(sorted(turns.components)) or "none"
        raise CreditError(
            f"credit {method!r}: no reward component {name!r} (available: {names}); write one of "
            "these, or add it to rewards. A reward that abstains on every turn has no component."
        )
    values = turns.components[name]
    invalid = np.flatnonzero(~np.isfinite(values))
    if len(invalid):
        raise CreditError(
            f"credit {method!r}: component {name!r} is {values[invalid[0]]} in row {invalid[0]}; "
            "correct the reward plug-in from which it comes."
        )
    return values


Cut = Literal["bootstrap", "zero"]


def cut_turns(turns: TurnTable, cut: Cut) -> BoolArray:
    """Return a mask of the last turns of trajectories that are to be bootstrapped, [N].

    The value after a truncation is not 0. But the critic cannot evaluate the state after the
    truncation: the record does not contain the seat's next prompt, because others or chance may
    move first. The nearest evaluated state is before the seat's last turn T. With "bootstrap", V[T]
    replaces r[T] + gamma V[T+1], and earlier turns bootstrap from V[T]. The last turn's difference
    is 0: the turn has no advantage and no effect on the critic, and its reward is ignored. With
    "zero" the episode counts as ended: V[T+1] = 0.
    """
    if turns.cut is None or cut == "zero":
        return np.zeros(len(turns.reward), dtype=bool)
    return turns.cut


def with_bootstrap(reward: FloatArray, value: FloatArray, cut: BoolArray) -> FloatArray:
    """Return the rewards [N]; at truncated turns, the value before the turn replaces the reward."""
    return np.where(cut, value, reward)


def whiten_known(advantages: FloatArray, is_unknown: BoolArray) -> FloatArray:
    """Return advantages with mean 0 and deviation 1 over known turns; unknown turns get 0."""
    known_values = advantages[~is_unknown]
    if len(known_values) < 2:
        return advantages
    deviation = known_values.std(ddof=1) + 1e-8
    return np.where(is_unknown, 0.0, (advantages - known_values.mean()) / deviation)
