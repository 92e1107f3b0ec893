"""The episode index: one row per episode and one per seat, in memory, built part by part.

The store's reader checks pages and versions of parts. The index writes nothing to disk. Parts that
are damaged, of a newer version, or missing are skipped and listed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from sparring.core.errors import RunError, SparringError
from sparring.play.parquet_parts import DAMAGED, Parts
from sparring.play.store import CreditStore, EpisodeStore
from sparring.view.http_requests import one_line
from sparring.view.run_files import Signature, is_own, signature

BATCH = 20  # parts indexed at once
EPISODES, CREDIT = "episodes", "credit"
READ = (
    *("step", "episode_id", "group_id", "game", "seat", "turn_index", "candidate", "committed"),
    *("legal_actions", "action", "event", "logprobs", "oracle_values", "forfeited_by", "returns"),
    *("roles", "agents", "cut"),
)
READ_CREDIT = ("step", "episode_id", "seat", "turn_index", "candidate", "advantage")
SEATS = 1024  # a seat in a cast has the number cast * SEATS + seat
TABLES = """
CREATE SEQUENCE numbers;
CREATE TABLE casts (id INTEGER, game VARCHAR, roles VARCHAR[], agents VARCHAR[]);
CREATE TABLE episodes (id BIGINT, run INTEGER, step BIGINT, episode BIGINT, group_id BIGINT,
    cast_id INTEGER, returns DOUBLE[], turns INTEGER, tokens BIGINT, illegal INTEGER,
    forfeited_by INTEGER, cut BOOLEAN, advantage DOUBLE, regret DOUBLE, logprob DOUBLE,
    wrong BOOLEAN);
CREATE TABLE seats (id BIGINT, run INTEGER, step BIGINT, place INTEGER, gained DOUBLE,
    illegal INTEGER, advantage DOUBLE, regret DOUBLE, wrong BOOLEAN);
"""
TURNS = """
CREATE OR REPLACE TEMP TABLE judged AS
SELECT own.*, abs(advantage) AS size, event IN ('illegal', 'unparsable') AS bad,
    regret > 1e-9 AND advantage > 0 OR regret <= 1e-9 AND advantage < 0 AS wrong
FROM (SELECT turns.*, CASE WHEN isfinite(credit.advantage) THEN credit.advantage END AS advantage,
        list_max(values) - CASE WHEN event = 'ok' AND action IS NOT NULL
            THEN values[list_position(legal_actions, action)] ELSE list_min(values) END AS regret
      FROM (SELECT *, list_avg(logprobs) AS said, len(logprobs) AS tokens,
              CASE WHEN isfinite(list_sum(oracle_values)) THEN oracle_values END AS values
            FROM turns) AS turns
      LEFT JOIN credit USING (run, step, episode_id, seat, turn_index, candidate)
      WHERE committed AND event <> 'memory') AS own
"""
ADD_CASTS = """
INSERT INTO casts SELECT (SELECT count(*) FROM casts) + row_number() OVER () - 1, *
FROM (SELECT DISTINCT game, roles, agents FROM judged) AS own
ANTI JOIN casts USING (game, roles, agents)
"""
ADD_EPISODES = """
INSERT INTO episodes SELECT nextval('numbers'), run, step, episode_id, group_id, casts.id, returns,
    turns, tokens, bad, forfeited_by, cut, size, regret, said, wrong
FROM (SELECT run, step, episode_id, any_value(group_id) AS group_id, any_value(game) AS game,
        any_value(roles) AS roles, any_value(agents) AS agents, any_value(returns) AS returns,
        count(*) AS turns, sum(tokens) AS tokens, count(*) FILTER (bad) AS bad,
        any_value(forfeited_by) AS forfeited_by, any_value(cut) AS cut, max(size) AS size,
        max(regret) AS regret, min(CASE WHEN isfinite(said) THEN said END) AS said,
        coalesce(bool_or(wrong), false) AS wrong
      FROM judged GROUP BY run, step, episode_id) AS own
JOIN casts USING (game, roles, agents)
"""
ADD_SEATS = f"""
INSERT INTO seats SELECT id, run, step, cast_id * {SEATS} + seat, returns[seat + 1],
    coalesce(bad, 0), size, regret, coalesce(wrong, false)
FROM (SELECT id, run, step, episode AS episode_id, cast_id, returns,
        unnest(range(len(returns))) AS seat FROM episodes WHERE id >= ?) AS every
LEFT JOIN (SELECT run, step, episode_id, seat, count(*) FILTER (bad) AS bad, max(size) AS size,
        max(regret) AS regret, bool_or(wrong) AS wrong
      FROM judged GROUP BY run, step, episode_id, seat) AS own USING (run, step, episode_id, seat)
"""


class StepSignature(NamedTuple):
    """The signatures of a stored step's files."""

    episodes: Signature
    credit: Signature | None


class StoredStep(NamedTuple):
    """A stored step of a run."""

    run: int
    step: int


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """A part that cannot be read.

    Args:
        part: its path in the run folder.
        why: the reason.
    """

    part: str
    why: str


class EpisodeIndex:
    """The tables ``episodes`` and ``seats``; every caller needs its own ``cursor``.

    Raises:
        ImportError: the extra ``view`` is not installed.
    """

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        self._connection.execute(TABLES)
        self._lock = threading.Lock()
        self.known: dict[StoredStep, StepSignature] = {}
        self.rows: dict[StoredStep, int] = {}  # episodes of each step
        self.left_out: dict[tuple[StoredStep, str], SkippedPart] = {}
        self.generation = 0  # counts changes of the tables
        self.num_stored: dict[int, int] = {}  # stored steps of each run, also without index

    def cursor(self) -> Any:
        """Return a connection to the tables for one thread."""
        return self._connection.cursor()

    def update(
        self,
        folders: Mapping[int, Path],
        changed: Callable[[set[int]], None],
        most: int | None = None,
    ) -> bool:
        """Update the tables from the folders, newest steps first; return whether all is done.

        Args:
            folders: of the runs, by number.
            changed: called after each batch with the runs whose rows changed.
            most: largest number of added steps; None adds all.
        """
        by_run = {run: stored_steps(run, path) for run, path in folders.items()}
        current = {place: key for keys in by_run.values() for place, key in keys.items()}
        indexed = {place: key for place, key in self.known.items() if place.run in folders}
        removed = [place for place, key in indexed.items() if current.get(place) != key]
        fresh = [place for place, key in current.items() if indexed.get(place) != key]
        self.num_stored.update({run: len(keys) for run, keys in by_run.items()})
        self._drop(removed)
        self.generation += 1
        if removed:
            changed({place.run for place in removed})
        newest = sorted(fresh, key=lambda place: current[place].episodes[1], reverse=True)
        to_add = newest[:most]
        for begin in range(0, len(to_add), BATCH):
            batch = to_add[begin : begin + BATCH]
            self._add_all(folders, {place: current[place] for place in batch})
            self.generation += 1
            changed({place.run for place in batch})
        pa.default_memory_pool().release_unused()
        return len(to_add) == len(newest)

    def close(self) -> None:
        """Drop the tables; the index cannot be used afterwards."""
        self._connection.close()
        del self._connection  # DuckDB warns about open connections when the process ends

    def _add_all(
        self, folders: Mapping[int, Path], places: Mapping[StoredStep, StepSignature]
    ) -> None:
        import duckdb

        try:
            self._add(folders, places)
        except (duckdb.Error, pa.ArrowException) as error:
            if len(places) > 1:
                for place, key in places.items():
                    self._add_all(folders, {place: key})
                return
            (place,) = places
            name = EpisodeStore(Path()).path(place.step).name
            self.left_out[place, EPISODES] = SkippedPart(f"{EPISODES}/{name}", one_line(error))
            self.known.update(places)

    def _drop(self, places: Iterable[StoredStep]) -> None:
        cursor = self.cursor()
        for place in places:
            with self._lock:
                for table in ("episodes", "seats"):
                    cursor.execute(f"DELETE FROM {table} WHERE run = ? AND step = ?", place)
                self.known.pop(place, None)
                self.rows.pop(place, None)
                for kind in (EPISODES, CREDIT):
                    self.left_out.pop((place, kind), None)

    def _add(self, folders: Mapping[int, Path], places: Mapping[StoredStep, StepSignature]) -> None:
        turns, credit = [], []
        for place, key in places.items():
            folder = folders[place.run]
            table = self._load(EpisodeStore(folder / EPISODES), place, READ, EPISODES)
            if table is None:
                continue
            turns.append(table)
            if key.credit is not None:
                rows = self._load(CreditStore(folder / CREDIT), place, READ_CREDIT, CREDIT)
                credit += [] if rows is None else [rows]
        if turns:
            self._insert(pa.concat_tables(turns), _joined(credit))
        self.known.update(places)

    def _load(
        self, store: Parts, place: StoredStep, only: Sequence[str], kind: str
    ) -> pa.Table | None:
        """Return the rows of a part; an invalid part is listed and returns None."""
        path = store.path(place.step)
        try:
            if not is_own(store.folder.parent, path):
                raise ValueError("it leads out of the run folder")
            table = store.load(path, only)
            if set(table["step"].to_pylist()) - {place.step, None}:
                raise ValueError("it holds other steps")
        except FileNotFoundError:
            return None
        except (SparringError, *DAMAGED) as error:
            self.left_out[place, kind] = SkippedPart(
                f"{kind}/{path.name}", why_left_out(error, path)
            )
            return None
        return _of_run(table, place.run)

    def _insert(self, turns: pa.Table, credit: pa.Table) -> None:
        cursor = self.cursor()
        cursor.register("turns", turns)
        cursor.register("credit", credit)
        cursor.execute(TURNS)
        with self._lock:
            (first,) = cursor.execute("SELECT nextval('numbers')").fetchall()[0]
            cursor.execute("BEGIN")
            cursor.execute(ADD_CASTS)
            cursor.execute(ADD_EPISODES)
            cursor.execute(ADD_SEATS, [first])
            cursor.execute("COMMIT")
        counts = cursor.execute(
            "SELECT run, step, count(*) FROM episodes WHERE id >= ? GROUP BY run, step", [first]
        ).fetchall()
        self.rows.update({StoredStep(run, step): rows for run, step, rows in counts})
        cursor.close()


def stored_steps(run: int, folder: Path) -> dict[StoredStep, StepSignature]:
    """Return the stored steps of a run folder with the signatures of their files."""
    if not all(is_own(folder, folder / kind) for kind in (EPISODES, CREDIT)):
        return {}
    episodes, credit = EpisodeStore(folder / EPISODES), CreditStore(folder / CREDIT)
    keys = {}
    for step in episodes.steps():
        episodes_signature = signature(episodes.path(step))
        if episodes_signature is not None:
            keys[StoredStep(run, step)] = StepSignature(
                episodes_signature, signature(credit.path(step))
            )
    return keys


def why_left_out(error: Exception, path: Path) -> str:
    """Return why a part is skipped, without folder names."""
    if isinstance(error, RunError):
        return one_line(error).replace(str(path), path.name)
    if type(error) is ValueError:
        return f"it is damaged: {one_line(error)}"
    return "it is torn or damaged"


def _joined(credit: Sequence[pa.Table]) -> pa.Table:
    if credit:
        return pa.concat_tables(credit)
    schema = CreditStore(Path()).columns.schema
    return _of_run(pa.schema([schema.field(name) for name in READ_CREDIT]).empty_table(), 0)


def _of_run(table: pa.Table, run: int) -> pa.Table:
    return table.append_column("run", pa.array([run] * len(table), pa.int32()))
