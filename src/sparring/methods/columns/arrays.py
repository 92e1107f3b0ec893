"""A turn table from plain arrays, for users without recorded episodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import FloatArray, IntArray, TurnTable
from sparring.methods.columns.base import with_column

# columns of numbers or names
NAME_COLUMNS = ("game", "role", "agent", "action", "view", "state_key")
FLAG_COLUMNS = ("legal", "done", "cut", "judged", "memory", "note")
TOKEN_COLUMNS = ("token_value",)
INTEGER_COLUMNS = ("state_group", "opponents")  # identifiers of groups of rows


def table_of_arrays(
    reward: npt.ArrayLike,
    *,
    episode: npt.ArrayLike,
    seat: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    n_tokens: npt.ArrayLike | None = None,
    turn_index: npt.ArrayLike | None = None,
    components: Mapping[str, npt.ArrayLike] | None = None,
    **columns: Any,
) -> TurnTable:
    """Return the turn table of plain columns, one entry per turn.

    A trajectory is the turns of one seat in one episode; its rows must be adjacent and in order.

    Args:
        reward: reward from each turn until the seat's next turn, [N].
        episode: index of each turn's episode, [N].
        seat: seat of each turn, [N]; default 0.
        group: index of each turn's group; by default all turns are in one group.
        n_tokens: number of sampled tokens of each turn; default 1.
        turn_index: index of each turn in its trajectory, from 0; computed by default.
        components: named parts of the reward, [N] each.
        columns: other columns of the turn table by name: ``role``, ``game``, ``agent``, ``action``,
            ``view`` and ``state_key`` as numbers or names; ``legal``, ``done``, ``cut`` and
            ``judged``, ``memory``, ``note`` as flags; ``attempt`` as integers; ``logprob``,
            ``value`` and all others as numbers.

    Raises:
        ConfigError: a column has the wrong length or a value that is not a number, or the rows of a
            trajectory are not adjacent.
        UnknownNameError: a column's name is unknown.
    """
    rewards = _to_floats("reward", reward, None)
    num_rows = len(rewards)
    episodes = _to_integers("episode", episode, num_rows)
    seats = _to_integers("seat", np.zeros(num_rows) if seat is None else seat, num_rows)
    trajectory = _number_trajectories(episodes, seats)
    first_rows = np.flatnonzero(np.diff(trajectory, prepend=-1))
    if turn_index is None:
        turn_index = np.arange(num_rows) - first_rows[trajectory] if num_rows else np.zeros(0)
    plugin_columns = set(registry.names("columns"))
    known_columns = set(NAME_COLUMNS) | set(FLAG_COLUMNS) | {"logprob", "attempt"} | plugin_columns
    for name in columns:
        if name not in known_columns:
            raise UnknownNameError("column of the turn table", name, sorted(known_columns))
    token_counts = np.ones(num_rows) if n_tokens is None else n_tokens
    codes = {name: _number_entries(name, columns.get(name), num_rows) for name in NAME_COLUMNS}
    default_roles = _number_entries(
        "role", [f"seat {number}" for number in seats.tolist()], num_rows
    )
    flags: dict[str, Any] = {
        name: _to_flags(name, columns[name], num_rows) for name in FLAG_COLUMNS if name in columns
    }
    role, role_names = codes["role"] if "role" in columns else default_roles
    table = TurnTable(
        episode=episodes,
        group=_to_integers("group", np.zeros(num_rows) if group is None else group, num_rows),
        trajectory=trajectory,
        game=codes["game"][0],
        role=role,
        seat=seats,
        agent=codes["agent"][0],
        turn_index=_to_integers("turn_index", turn_index, num_rows),
        reward=rewards,
        done=flags.pop(
            "done",
            np.append(np.diff(trajectory) != 0, True)[-num_rows:]
            if num_rows
            else np.zeros(0, dtype=bool),
        ),
        state_key=codes["state_key"][0] if "state_key" in columns else np.arange(num_rows),
        legal=flags.pop("legal", np.ones(num_rows, dtype=bool)),
        n_tokens=_to_integers("n_tokens", token_counts, num_rows),
        action=codes["action"][0] if "action" in columns else None,
        view=codes["view"][0] if "view" in columns else None,
        logprob=_to_floats("logprob", columns["logprob"], num_rows)
        if "logprob" in columns
        else None,
        attempt=_to_integers("attempt", columns["attempt"], num_rows)
        if "attempt" in columns
        else None,
        components={
            name: _to_floats(f"components[{name!r}]", values, num_rows)
            for name, values in (components or {}).items()
        },
        game_names=codes["game"][1],
        role_names=role_names,
        agent_names=codes["agent"][1],
        action_names=codes["action"][1],
        view_names=codes["view"][1],
        **flags,
    )
    for name in sorted(columns.keys() & plugin_columns):
        num_values = int(table.n_tokens.sum()) if name in TOKEN_COLUMNS else num_rows
        values: npt.NDArray[Any] = _to_floats(name, columns[name], num_values)
        if name in INTEGER_COLUMNS:
            values = _to_integers(name, values, num_values)
        table = with_column(table, name, values)
    return table


def _to_floats(name: str, values: npt.ArrayLike, num_rows: int | None) -> FloatArray:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"turn_table: {name} contains a value that is not a number.") from None
    if numbers.ndim != 1 or (num_rows is not None and len(numbers) != num_rows):
        shape = "[N]" if num_rows is None else f"({num_rows},)"
        raise ConfigError(f"turn_table: {name} has shape {numbers.shape} and must have {shape}.")
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ConfigError(
            f"turn_table: {name} is {numbers[row]} in row {row}; write finite numbers."
        )
    return numbers


def _to_integers(name: str, values: npt.ArrayLike, num_rows: int) -> IntArray:
    numbers = _to_floats(name, values, num_rows)
    if (numbers != np.round(numbers)).any():
        row = int(np.flatnonzero(numbers != np.round(numbers))[0])
        raise ConfigError(f"turn_table: {name} is {numbers[row]} in row {row}; write integers.")
    return numbers.astype(np.int64)


def _to_flags(name: str, values: npt.ArrayLike, num_rows: int) -> npt.NDArray[np.bool_]:
    numbers = _to_integers(name, values, num_rows)
    if not np.isin(numbers, (0, 1)).all():
        raise ConfigError(f"turn_table: {name} must be true or false in every row.")
    return numbers.astype(bool)


def _number_entries(
    name: str, values: Sequence[Hashable] | npt.ArrayLike | None, num_rows: int
) -> tuple[IntArray, tuple[str, ...]]:
    entries = [""] * num_rows if values is None else np.asarray(values).tolist()
    if not isinstance(entries, list) or len(entries) != num_rows:
        length = len(entries) if isinstance(entries, list) else "no"
        raise ConfigError(f"turn_table: {name} has {length} entries and must have {num_rows}.")
    number_of_entry: dict[Any, int] = {}
    try:
        numbers = [number_of_entry.setdefault(entry, len(number_of_entry)) for entry in entries]
    except TypeError:
        raise ConfigError(f"turn_table: {name} must contain one name or number per turn.") from None
    return np.array(numbers, dtype=np.int64), tuple(map(str, number_of_entry))


def _number_trajectories(episode: IntArray, seat: IntArray) -> IntArray:
    trajectories = np.zeros(len(episode), dtype=np.int64)
    number_of_pair: dict[tuple[int, int], int] = {}
    previous: tuple[int, int] | None = None
    for row, pair in enumerate(zip(episode.tolist(), seat.tolist(), strict=True)):
        if pair != previous and pair in number_of_pair:
            raise ConfigError(
                f"turn_table: row {row} returns to episode {pair[0]}, seat {pair[1]}; sort the "
                "rows by episode, seat and turn."
            )
        trajectories[row] = number_of_pair.setdefault(pair, len(number_of_pair))
        previous = pair
    return trajectories
