"""A turn table from plain arrays, for whoever has turns but no episodes of Sparring's."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import FloatArray, IntArray, TurnTable
from sparring.methods.columns.base import with_column

NAMED = ("game", "role", "agent", "action", "view", "state_key")  # numbers, or names of any kind
FLAGS = ("legal", "done", "cut", "judged", "memory", "note")
PER_TOKEN = ("token_value",)
WHOLE = ("state_group", "opponents")  # numbers that only tell rows apart


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

    A trajectory is the turns of one seat in one episode: its rows stand together, in order of play.

    Args:
        reward: what each turn earned until the seat's next one, [N].
        episode: number of the play of each turn, [N].
        seat: who took the turn, [N]; 0 for all if left out.
        group: number of the start; plays of one group are compared; one for all if left out.
        n_tokens: sampled tokens of each turn; 1 if left out.
        turn_index: number of the turn in its trajectory; counted if left out.
        components: named parts of the reward, [N] each.
        columns: other columns of the turn table by name: ``role``, ``game``, ``agent``, ``action``,
            ``view`` and ``state_key`` as numbers or names; ``legal``, ``done``, ``cut`` and
            ``judged``, ``memory``, ``note`` as flags; ``attempt`` as whole numbers; ``logprob``,
            ``value`` and all else as numbers.

    Raises:
        ConfigError: a column has another length, is no column of numbers, or rows of a trajectory
            do not stand together.
        UnknownNameError: there is no such column.
    """
    rewards = _floats("reward", reward, None)
    count = len(rewards)
    episodes = _integers("episode", episode, count)
    seats = _integers("seat", np.zeros(count) if seat is None else seat, count)
    trajectory = _trajectories(episodes, seats)
    starts = np.flatnonzero(np.diff(trajectory, prepend=-1))
    number = np.arange(count) - starts[trajectory] if count else np.zeros(0, dtype=np.int64)
    computed = set(registry.names("columns"))
    known = set(NAMED) | set(FLAGS) | {"logprob", "attempt"} | computed
    for name in columns:
        if name not in known:
            raise UnknownNameError("column of the turn table", name, sorted(known))
    tokens = np.ones(count) if n_tokens is None else n_tokens
    named = {name: _numbered(name, columns.get(name), count) for name in NAMED}
    seat_role, seat_names = _numbered("role", [f"seat {own}" for own in seats.tolist()], count)
    flags: dict[str, Any] = {
        name: _flags(name, columns[name], count) for name in FLAGS if name in columns
    }
    role, role_names = named["role"] if "role" in columns else (seat_role, seat_names)
    table = TurnTable(
        episode=episodes,
        group=_integers("group", np.zeros(count) if group is None else group, count),
        trajectory=trajectory,
        game=named["game"][0],
        role=role,
        seat=seats,
        agent=named["agent"][0],
        turn_index=_integers("turn_index", number if turn_index is None else turn_index, count),
        reward=rewards,
        done=flags.pop(
            "done",
            np.append(np.diff(trajectory) != 0, True)[-count:]
            if count
            else np.zeros(0, dtype=bool),
        ),
        state_key=named["state_key"][0] if "state_key" in columns else np.arange(count),
        legal=flags.pop("legal", np.ones(count, dtype=bool)),
        n_tokens=_integers("n_tokens", tokens, count),
        action=named["action"][0] if "action" in columns else None,
        view=named["view"][0] if "view" in columns else None,
        logprob=_floats("logprob", columns["logprob"], count) if "logprob" in columns else None,
        attempt=_integers("attempt", columns["attempt"], count) if "attempt" in columns else None,
        components={
            name: _floats(f"components[{name!r}]", values, count)
            for name, values in (components or {}).items()
        },
        game_names=named["game"][1],
        role_names=role_names,
        agent_names=named["agent"][1],
        action_names=named["action"][1],
        view_names=named["view"][1],
        **flags,
    )
    for name in sorted(columns.keys() & computed):
        length = int(table.n_tokens.sum()) if name in PER_TOKEN else count
        values: npt.NDArray[Any] = _floats(name, columns[name], length)
        if name in WHOLE:
            values = _integers(name, values, length)
        table = with_column(table, name, values)
    return table


def _floats(name: str, values: npt.ArrayLike, count: int | None) -> FloatArray:
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"turn_table: {name} holds what is no number.") from None
    if found.ndim != 1 or (count is not None and len(found) != count):
        wanted = "[N]" if count is None else f"({count},)"
        raise ConfigError(f"turn_table: {name} has shape {found.shape} and must have {wanted}.")
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise ConfigError(f"turn_table: {name} is {found[row]} in row {row}; give finite numbers.")
    return found


def _integers(name: str, values: npt.ArrayLike, count: int) -> IntArray:
    found = _floats(name, values, count)
    if (found != np.round(found)).any():
        row = int(np.flatnonzero(found != np.round(found))[0])
        raise ConfigError(f"turn_table: {name} is {found[row]} in row {row}; give whole numbers.")
    return found.astype(np.int64)


def _flags(name: str, values: npt.ArrayLike, count: int) -> npt.NDArray[np.bool_]:
    found = _integers(name, values, count)
    if not np.isin(found, (0, 1)).all():
        raise ConfigError(f"turn_table: {name} must be true or false in every row.")
    return found.astype(bool)


def _numbered(
    name: str, values: Sequence[Hashable] | npt.ArrayLike | None, count: int
) -> tuple[IntArray, tuple[str, ...]]:
    own = [""] * count if values is None else np.asarray(values).tolist()
    if not isinstance(own, list) or len(own) != count:
        length = len(own) if isinstance(own, list) else "no"
        raise ConfigError(f"turn_table: {name} has {length} entries and must have {count}.")
    places: dict[Any, int] = {}
    try:
        numbers = [places.setdefault(entry, len(places)) for entry in own]
    except TypeError:
        raise ConfigError(f"turn_table: {name} must hold one name or number per turn.") from None
    return np.array(numbers, dtype=np.int64), tuple(map(str, places))


def _trajectories(episode: IntArray, seat: IntArray) -> IntArray:
    found, places = np.zeros(len(episode), dtype=np.int64), dict[tuple[int, int], int]()
    previous: tuple[int, int] | None = None
    for row, pair in enumerate(zip(episode.tolist(), seat.tolist(), strict=True)):
        if pair != previous and pair in places:
            raise ConfigError(
                f"turn_table: row {row} comes back to episode {pair[0]}, seat {pair[1]}; sort the "
                "rows by episode, seat and turn."
            )
        found[row] = places.setdefault(pair, len(places))
        previous = pair
    return found
