"""The search for episodes: conditions, facets, sorting and pages over the index."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparring.core.errors import SparringError
from sparring.play.parquet_parts import DAMAGED
from sparring.play.store import EpisodeStore
from sparring.view.answers import Refused
from sparring.view.conditions import Asked, Cast, Casts, where, whole
from sparring.view.index import EPISODES, EpisodeIndex
from sparring.view.runs import PEOPLE

SORTS = {
    "step": "step",
    "episode": "episode",
    "game": "",  # see _sorted
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
SEARCH_SECONDS = 2.0  # after which a search for words ends
MOST_FACETS = 100  # values of each
Counts = list[tuple[int, int, int]]  # run, cast, episodes


def find(index: EpisodeIndex, asked: Mapping[str, str], folders: Mapping[int, Path]) -> Any:
    """Return a page of episodes that meet all conditions, with facets.

    Args:
        index: of all runs.
        asked: parameters, as docs/view.md names them.
        folders: of the runs by their number in the index, where words are looked for.

    Raises:
        Refused: a parameter is none, or has no such value.
    """
    began = time.perf_counter()
    sort = asked.get("sort", "step")
    if sort not in SORTS:
        raise Refused(400, f"sort is one of {', '.join(SORTS)}")
    order = asked.get("order", "asc" if sort in ("episode", "game", "logprob") else "desc")
    if order not in ("asc", "desc"):
        raise Refused(400, "order is asc or desc")
    offset, limit = whole(asked, "offset", 0, 10**9), whole(asked, "limit", 50, LIMIT)
    cursor, searched = index.cursor(), None
    if asked.get("text"):
        searched = _search(cursor, asked, folders)
    casts = _casts(cursor)
    condition, values = where(asked, casts)
    rows = cursor.execute(
        f"SELECT {', '.join(COLUMNS)} FROM episodes WHERE {condition} ORDER BY "
        f"{_sorted(sort, casts)} {order} NULLS LAST, run, step DESC, episode LIMIT ? OFFSET ?",
        [*values, limit, offset],
    ).fetchall()
    total, facets = _facets(cursor, asked, casts)
    cursor.close()
    return {
        "total": total,
        "offset": offset,
        "searched": searched,
        "facets": facets,
        "rows": [_row(row, casts) for row in rows],
        "ms": round(1000 * (time.perf_counter() - began), 1),
    }


def _casts(cursor: Any) -> dict[int, Cast]:
    """Return who plays what, by the number that episodes have of it."""
    rows = cursor.execute("SELECT id, game, roles, agents FROM casts").fetchall()
    return {number: Cast(*parts) for number, *parts in rows}


def _sorted(sort: str, casts: Casts) -> str:
    """Return what rows are sorted by."""
    if sort != "game":
        return SORTS[sort]
    names = sorted(casts, key=lambda number: casts[number].game)
    return f"list_position([{', '.join(map(str, names))}]::INTEGER[], cast_id)"


def _row(row: tuple[Any, ...], casts: Casts) -> dict[str, Any]:
    """Return a row of the table by names."""
    found = dict(zip(COLUMNS, row, strict=True))
    found["group"] = found.pop("group_id")
    cast = casts[found.pop("cast_id")]
    run = found.pop("run")
    return {"run": run % PEOPLE, "people": run >= PEOPLE, **found, **cast._asdict()}


def _facets(cursor: Any, asked: Asked, casts: Casts) -> tuple[int, dict[str, Any]]:
    """Return how many episodes there are, and the values of each facet with their numbers.

    The condition on a facet itself is left out for it, so that another value may be chosen.
    """
    counted: dict[tuple[Any, ...], Counts] = {}

    def counts(without: str) -> Counts:
        text, values = where({key: own for key, own in asked.items() if key != without}, casts)
        key = (text, str(values))
        if key not in counted:
            counted[key] = cursor.execute(
                f"SELECT run, cast_id, count(*) FROM episodes WHERE {text} GROUP BY ALL", values
            ).fetchall()
        return counted[key]

    facets = {}
    for name, of in FACETS.items():
        found: Counter[Any] = Counter()
        for run, number, times in counts(name):
            for value in of(run, casts[number]):
                found[value] += times
        ranked = sorted(found.items(), key=lambda pair: (-pair[1], str(pair[0])))
        facets[name] = ranked[:MOST_FACETS]
    return sum(times for *_, times in counts("")), facets


def _search(cursor: Any, asked: Mapping[str, str], folders: Mapping[int, Path]) -> dict[str, int]:
    """Make the table ``spoken`` of the episodes in which words were told or said.

    Newest steps first, until the time is up.
    """
    rest = {key: value for key, value in asked.items() if key != "text"}
    condition, values = where(rest, _casts(cursor))
    places = cursor.execute(
        f"SELECT DISTINCT run, step FROM episodes WHERE {condition} ORDER BY step DESC, run", values
    ).fetchall()
    ends, found, done = time.monotonic() + SEARCH_SECONDS, [], 0
    for run, step in places:
        if time.monotonic() > ends:
            break
        numbers = _spoken(folders[run], step, asked["text"]) if run in folders else []
        found += [(run, step, number) for number in numbers]
        done += 1
    table = pa.table(
        {
            name: pa.array([row[place] for row in found], pa.int64())
            for place, name in enumerate(("run", "step", "episode"))
        }
    )
    cursor.register("found_words", table)
    cursor.execute("CREATE OR REPLACE TEMP TABLE spoken AS SELECT * FROM found_words")
    return {"parts": done, "of": len(places)}


def _spoken(folder: Path, step: int, words: str) -> list[int]:
    """Return the episodes of a step in whose told texts or replies words stand."""
    store = EpisodeStore(folder / EPISODES)
    try:
        table = store.load(store.path(step), ("episode_id", "told", "reply"))
    except (SparringError, *DAMAGED):
        return []  # the index names it
    told, said = (
        pc.match_substring(table[name], words, ignore_case=True) for name in ("told", "reply")
    )
    either = pc.or_(pc.fill_null(told, False), pc.fill_null(said, False))
    numbers: list[int] = pc.unique(table.filter(either)["episode_id"]).to_pylist()
    return numbers
