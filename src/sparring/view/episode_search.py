"""Episodes that meet the conditions of a request: SQL with places for values, and no names."""

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
from sparring.view.http_requests import Refused
from sparring.view.index import EPISODES, SEATS, EpisodeIndex
from sparring.view.runs import PEOPLE

OUTCOMES = {"win": "gained > 0", "draw": "gained = 0", "loss": "gained < 0"}
OF = {"training": f"run < {PEOPLE}", "people": f"run >= {PEOPLE}"}
_RANGE = re.compile(r"(-?[0-9.]+(?:e-?[0-9]+)?)?(-)?(-?[0-9.]+(?:e-?[0-9]+)?)?")
Condition = tuple[str, list[Any]]
Asked = Mapping[str, str]


class Cast(NamedTuple):
    """Who plays what.

    Attributes:
        game: label of the environment.
        roles: of the seats.
        agents: players of the seats, in their text form.
    """

    game: str
    roles: list[str]
    agents: list[str]


Casts = Mapping[int, Cast]


def where(asked: Asked, casts: Casts) -> Condition:
    """Return the conditions of a request on rows of ``episodes``.

    Raises:
        Refused: a parameter has no such value.
    """
    conditions = list(_of_episodes(asked, casts))
    text = " AND ".join(text for text, _ in conditions) or "true"
    return text, [value for _, values in conditions for value in values]


def _of_episodes(asked: Asked, casts: Casts) -> Iterable[Condition]:
    """Yield the conditions on rows of ``episodes``."""
    if runs := asked.get("run"):
        numbers = [whole({"run": text}, "run", 0, 10**9) for text in runs.split(",")]
        yield f"list_contains(?::INTEGER[], run % {PEOPLE})", [numbers]
    if of := asked.get("of"):
        if of not in OF:
            raise Refused(400, f"of is one of {', '.join(OF)}")
        yield OF[of], []
    if game := asked.get("game"):
        yield _among("cast_id", [number for number, cast in casts.items() if cast.game == game])
    for name, column in (("turns", "turns"), ("step", "step"), ("group", "group_id")):
        if asked.get(name):
            yield _between(name, column, asked[name])
    if asked.get("forfeited"):
        yield f"forfeited_by IS {'NOT ' if _flag(asked, 'forfeited') else ''}NULL", []
    if asked.get("text"):
        yield "(run, step, episode) IN (SELECT (run, step, episode) FROM spoken)", []
    if asked.get("seat") or asked.get("player"):
        yield from _of_one_seat(asked, casts)
        return
    yield from _measured(asked)
    outcome = list(_outcome(asked))
    if outcome:
        yield f"id IN (SELECT id FROM seats WHERE {outcome[0][0]})", []


def _of_one_seat(asked: Asked, casts: Casts) -> Iterable[Condition]:
    places = [
        number * SEATS + seat
        for number, cast in casts.items()
        for seat, (role, agent) in enumerate(zip(cast.roles, cast.agents, strict=True))
        if asked.get("seat", role) in ("", role) and asked.get("player", agent) in ("", agent)
    ]
    conditions = [*_outcome(asked), *_measured(asked)]
    if not conditions:
        yield _among("cast_id", sorted({place // SEATS for place in places}))
        return
    text, values = _among("place", places)
    own = " AND ".join([text, *(text for text, _ in conditions)])
    values = [*values, *(value for _, some in conditions for value in some)]
    yield f"id IN (SELECT id FROM seats WHERE {own})", values


def _among(column: str, numbers: list[int]) -> Condition:
    if not numbers:
        return "false", []
    return f"{column} IN ({', '.join('?' * len(numbers))})", list(numbers)


def _outcome(asked: Asked) -> Iterable[Condition]:
    if outcome := asked.get("outcome"):
        if outcome not in OUTCOMES:
            raise Refused(400, f"outcome is one of {', '.join(OUTCOMES)}")
        yield OUTCOMES[outcome], []


def _measured(asked: Asked) -> Iterable[Condition]:
    if asked.get("illegal"):
        yield f"illegal {'>' if _flag(asked, 'illegal') else '='} 0", []
    if asked.get("wrong"):
        yield f"{'' if _flag(asked, 'wrong') else 'NOT '}wrong", []
    for name in ("advantage", "regret"):
        if asked.get(name):
            yield _between(name, name, asked[name])


def whole(asked: Asked, name: str, default: int, most: int) -> int:
    """Return a parameter that is a whole number, at most so large.

    Raises:
        Refused: it is none.
    """
    text = asked.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused(400, f"{name} is a whole number")
    return min(int(text), most)


def _flag(asked: Asked, name: str) -> bool:
    if asked[name] not in ("0", "1"):
        raise Refused(400, f"{name} is 0 or 1")
    return asked[name] == "1"


def _between(name: str, column: str, text: str) -> Condition:
    """Return the condition of a range: 5, 5-9, 5- or -9."""
    try:
        low, high = _ends(text.strip())
    except ValueError:
        raise Refused(400, f"{name} is a number or a range, such as 5, 5-9, 5- or -9") from None
    pairs = [(">=", low), ("<=", high)]
    said = [(f"{column} {sign} ?", end) for sign, end in pairs if end is not None]
    return " AND ".join(text for text, _ in said), [end for _, end in said]


def _ends(text: str) -> tuple[float | None, float | None]:
    """Return the ends of a range; a minus at the beginning leaves the lower end open."""
    match = _RANGE.fullmatch(text)
    if match is None or not text.strip("-"):
        raise ValueError(text)
    if text.startswith("-"):
        return None, float(text[1:])
    low = float(match[1])
    return low, low if match[2] is None else float(match[3]) if match[3] else None


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
    rows = cursor.execute("SELECT id, game, roles, agents FROM casts").fetchall()
    return {number: Cast(*parts) for number, *parts in rows}


def _sorted(sort: str, casts: Casts) -> str:
    if sort != "game":
        return SORTS[sort]
    names = sorted(casts, key=lambda number: casts[number].game)
    return f"list_position([{', '.join(map(str, names))}]::INTEGER[], cast_id)"


def _row(row: tuple[Any, ...], casts: Casts) -> dict[str, Any]:
    found = dict(zip(COLUMNS, row, strict=True))
    found["group"] = found.pop("group_id")
    cast = casts[found.pop("cast_id")]
    run = found.pop("run")
    return {"run": run % PEOPLE, "people": run >= PEOPLE, **found, **cast._asdict()}


def _facets(cursor: Any, asked: Asked, casts: Casts) -> tuple[int, dict[str, Any]]:
    """Count the values of each facet, whatever is chosen in the facet itself."""
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
    """Make the table ``spoken`` of episodes with these words, until the time is up."""
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
