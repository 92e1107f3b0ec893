"""Searches for episodes by the conditions of a request, with parametrised SQL."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sparring.core.errors import SparringError
from sparring.play.parquet_parts import DAMAGED
from sparring.play.store import EpisodeStore
from sparring.view.episode_index import EPISODES, SEATS_PER_CAST, EpisodeIndex
from sparring.view.http_requests import RequestError
from sparring.view.viewed_run import PEOPLE

OUTCOMES = {"win": "seat_return > 0", "draw": "seat_return = 0", "loss": "seat_return < 0"}
SOURCES = {"training": f"run < {PEOPLE}", "people": f"run >= {PEOPLE}"}
_RANGE = re.compile(r"(-?[0-9.]+(?:e-?[0-9]+)?)?(-)?(-?[0-9.]+(?:e-?[0-9]+)?)?")
Condition = tuple[str, list[Any]]
QueryParams = Mapping[str, str]


class Cast(NamedTuple):
    """A cast: an environment and the players of its seats.

    Attributes:
        game: label of the environment.
        roles: role of each seat.
        agents: player of each seat, in text form.
    """

    game: str
    roles: list[str]
    agents: list[str]


Casts = Mapping[int, Cast]


def conditions_of(params: QueryParams, casts: Casts) -> Condition:
    """Return the conditions of a request on rows of ``episodes``.

    Raises:
        RequestError: the value of a parameter is invalid.
    """
    conditions = list(_episode_conditions(params, casts))
    text = " AND ".join(text for text, _ in conditions) or "true"
    return text, [value for _, values in conditions for value in values]


def _episode_conditions(params: QueryParams, casts: Casts) -> Iterable[Condition]:
    if runs := params.get("run"):
        numbers = [int_param({"run": text}, "run", 0, 10**9) for text in runs.split(",")]
        yield f"list_contains(?::INTEGER[], run % {PEOPLE})", [numbers]
    if source := params.get("of"):
        if source not in SOURCES:
            raise RequestError(400, f"of is one of {', '.join(SOURCES)}")
        yield SOURCES[source], []
    if game := params.get("game"):
        yield _is_among("cast_id", [number for number, cast in casts.items() if cast.game == game])
    for name, column in (("turns", "turns"), ("step", "step"), ("group", "group_id")):
        if params.get(name):
            yield _in_range(name, column, params[name])
    if params.get("forfeited"):
        yield f"forfeited_by IS {'NOT ' if _parse_flag(params, 'forfeited') else ''}NULL", []
    if params.get("text"):
        yield "(run, step, episode) IN (SELECT (run, step, episode) FROM matches)", []
    if params.get("seat") or params.get("player"):
        yield from _seat_conditions(params, casts)
        return
    yield from _measurement_conditions(params)
    outcome = list(_outcome_conditions(params))
    if outcome:
        yield f"id IN (SELECT id FROM seats WHERE {outcome[0][0]})", []


def _seat_conditions(params: QueryParams, casts: Casts) -> Iterable[Condition]:
    cast_seats = [
        number * SEATS_PER_CAST + seat
        for number, cast in casts.items()
        for seat, (role, agent) in enumerate(zip(cast.roles, cast.agents, strict=True))
        if params.get("seat", role) in ("", role) and params.get("player", agent) in ("", agent)
    ]
    conditions = [*_outcome_conditions(params), *_measurement_conditions(params)]
    if not conditions:
        cast_ids = {cast_seat // SEATS_PER_CAST for cast_seat in cast_seats}
        yield _is_among("cast_id", sorted(cast_ids))
        return
    text, values = _is_among("cast_seat", cast_seats)
    clause = " AND ".join([text, *(text for text, _ in conditions)])
    values = [*values, *(value for _, numbers in conditions for value in numbers)]
    yield f"id IN (SELECT id FROM seats WHERE {clause})", values


def _is_among(column: str, numbers: list[int]) -> Condition:
    if not numbers:
        return "false", []
    return f"{column} IN ({', '.join('?' * len(numbers))})", list(numbers)


def _outcome_conditions(params: QueryParams) -> Iterable[Condition]:
    if outcome := params.get("outcome"):
        if outcome not in OUTCOMES:
            raise RequestError(400, f"outcome is one of {', '.join(OUTCOMES)}")
        yield OUTCOMES[outcome], []


def _measurement_conditions(params: QueryParams) -> Iterable[Condition]:
    if params.get("illegal"):
        yield f"illegal {'>' if _parse_flag(params, 'illegal') else '='} 0", []
    if params.get("wrong"):
        yield f"{'' if _parse_flag(params, 'wrong') else 'NOT '}wrong", []
    for name in ("advantage", "regret"):
        if params.get(name):
            yield _in_range(name, name, params[name])


def int_param(params: QueryParams, name: str, default: int, maximum: int) -> int:
    """Return a whole number of a request, limited to ``maximum``.

    Raises:
        RequestError: the parameter is not a whole number.
    """
    text = params.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise RequestError(400, f"{name} is a whole number")
    return min(int(text), maximum)


def _parse_flag(params: QueryParams, name: str) -> bool:
    if params[name] not in ("0", "1"):
        raise RequestError(400, f"{name} is 0 or 1")
    return params[name] == "1"


def _in_range(name: str, column: str, text: str) -> Condition:
    try:
        low, high = _parse_range(text.strip())
    except ValueError:
        raise RequestError(
            400, f"{name} is a number or a range, such as 5, 5-9, 5- or -9"
        ) from None
    pairs = [(">=", low), ("<=", high)]
    clauses = [(f"{column} {sign} ?", end) for sign, end in pairs if end is not None]
    return " AND ".join(text for text, _ in clauses), [end for _, end in clauses]


def _parse_range(text: str) -> tuple[float | None, float | None]:
    """Return the ends of a range such as 5-9 or 5-; -9 has no lower end."""
    match = _RANGE.fullmatch(text)
    if match is None or not text.strip("-"):
        raise ValueError(text)
    if text.startswith("-"):
        return None, float(text[1:])
    low = float(match[1])
    return low, low if match[2] is None else float(match[3]) if match[3] else None


SORT_COLUMNS = {
    "step": "step",
    "episode": "episode",
    "game": "",  # see _order_by
    "turns": "turns",
    "tokens": "tokens",
    "illegal": "illegal",
    "advantage": "advantage",
    "regret": "regret",
    "logprob": "logprob",
    "return": "list_max(returns)",
}
COLUMNS = (
    *("run", "step", "episode", "group_id", "cast_id", "returns", "turns", "tokens", "illegal"),
    *("forfeited_by", "cut", "advantage", "regret", "logprob", "wrong"),
)
FACETS: Mapping[str, Callable[[int, Cast], Iterable[Any]]] = {
    "run": lambda run, cast: [run % PEOPLE],
    "of": lambda run, cast: ["people" if run >= PEOPLE else "training"],
    "game": lambda run, cast: [cast.game],
    "seat": lambda run, cast: set(cast.roles),
    "player": lambda run, cast: set(cast.agents),
}
LIMIT = 200  # rows of a page
SEARCH_SECONDS = 2.0  # time limit of a text search
MAX_FACETS = 100  # values per facet
Counts = list[tuple[int, int, int]]  # run, cast, number of episodes


def find(index: EpisodeIndex, params: Mapping[str, str], folders: Mapping[int, Path]) -> Any:
    """Return a page of episodes that meet all conditions, with facets.

    Args:
        index: the index of all runs.
        params: parameters of the request, see docs/view.md.
        folders: folders that are searched for text, by the run's number in the index.

    Raises:
        RequestError: a parameter or its value is invalid.
    """
    start = time.perf_counter()
    sort = params.get("sort", "step")
    if sort not in SORT_COLUMNS:
        raise RequestError(400, f"sort is one of {', '.join(SORT_COLUMNS)}")
    order = params.get("order", "asc" if sort in ("episode", "game", "logprob") else "desc")
    if order not in ("asc", "desc"):
        raise RequestError(400, "order is asc or desc")
    offset, limit = (int_param(params, "offset", 0, 10**9), int_param(params, "limit", 50, LIMIT))
    cursor, search_progress = index.cursor(), None
    if params.get("text"):
        search_progress = _search(cursor, params, folders)
    casts = _casts(cursor)
    condition, values = conditions_of(params, casts)
    rows = cursor.execute(
        f"SELECT {', '.join(COLUMNS)} FROM episodes WHERE {condition} ORDER BY "
        f"{_order_by(sort, casts)} {order} NULLS LAST, run, step DESC, episode LIMIT ? OFFSET ?",
        [*values, limit, offset],
    ).fetchall()
    total, facets = _facets(cursor, params, casts)
    cursor.close()
    return {
        "total": total,
        "offset": offset,
        "searched": search_progress,
        "facets": facets,
        "rows": [_row(row, casts) for row in rows],
        "ms": round(1000 * (time.perf_counter() - start), 1),
    }


def _casts(cursor: Any) -> dict[int, Cast]:
    rows = cursor.execute("SELECT id, game, roles, agents FROM casts").fetchall()
    return {number: Cast(*parts) for number, *parts in rows}


def _order_by(sort: str, casts: Casts) -> str:
    if sort != "game":
        return SORT_COLUMNS[sort]
    cast_ids = sorted(casts, key=lambda number: casts[number].game)
    return f"list_position([{', '.join(map(str, cast_ids))}]::INTEGER[], cast_id)"


def _row(row: tuple[Any, ...], casts: Casts) -> dict[str, Any]:
    values = dict(zip(COLUMNS, row, strict=True))
    values["group"] = values.pop("group_id")
    cast = casts[values.pop("cast_id")]
    run = values.pop("run")
    return {"run": run % PEOPLE, "people": run >= PEOPLE, **values, **cast._asdict()}


def _facets(cursor: Any, params: QueryParams, casts: Casts) -> tuple[int, dict[str, Any]]:
    """Count the values of each facet, without the condition on this facet itself."""
    counts_by_condition: dict[tuple[Any, ...], Counts] = {}

    def counts(ignored_key: str) -> Counts:
        text, values = conditions_of(
            {key: value for key, value in params.items() if key != ignored_key}, casts
        )
        key = (text, str(values))
        if key not in counts_by_condition:
            counts_by_condition[key] = cursor.execute(
                f"SELECT run, cast_id, count(*) FROM episodes WHERE {text} GROUP BY ALL", values
            ).fetchall()
        return counts_by_condition[key]

    facets = {}
    for name, values_of in FACETS.items():
        totals: Counter[Any] = Counter()
        for run, number, count in counts(name):
            for value in values_of(run, casts[number]):
                totals[value] += count
        value_counts = sorted(totals.items(), key=lambda pair: (-pair[1], str(pair[0])))
        facets[name] = value_counts[:MAX_FACETS]
    return sum(count for *_, count in counts("")), facets


def _search(cursor: Any, params: Mapping[str, str], folders: Mapping[int, Path]) -> dict[str, int]:
    """Create the table ``matches``: the episodes with the text that are found in the time limit."""
    other_params = {key: value for key, value in params.items() if key != "text"}
    condition, values = conditions_of(other_params, _casts(cursor))
    steps = cursor.execute(
        f"SELECT DISTINCT run, step FROM episodes WHERE {condition} ORDER BY step DESC, run", values
    ).fetchall()
    deadline, matching_episodes, num_searched = time.monotonic() + SEARCH_SECONDS, [], 0
    for run, step in steps:
        if time.monotonic() > deadline:
            break
        numbers = _episodes_with_text(folders[run], step, params["text"]) if run in folders else []
        matching_episodes += [(run, step, number) for number in numbers]
        num_searched += 1
    table = pa.table(
        {
            name: pa.array([row[index] for row in matching_episodes], pa.int64())
            for index, name in enumerate(("run", "step", "episode"))
        }
    )
    cursor.register("new_matches", table)
    cursor.execute("CREATE OR REPLACE TEMP TABLE matches AS SELECT * FROM new_matches")
    return {"parts": num_searched, "of": len(steps)}


def _episodes_with_text(folder: Path, step: int, text: str) -> list[int]:
    store = EpisodeStore(folder / EPISODES)
    try:
        table = store.load(store.path(step), ("episode_id", "told", "reply"))
    except (SparringError, *DAMAGED):
        return []  # the index lists this part as unreadable
    in_prompt, in_reply = (
        pc.match_substring(table[name], text, ignore_case=True) for name in ("told", "reply")
    )
    is_match = pc.or_(pc.fill_null(in_prompt, False), pc.fill_null(in_reply, False))
    numbers: list[int] = pc.unique(table.filter(is_match)["episode_id"]).to_pylist()
    return numbers
