"""The episode index: one row per episode and one per seat, in memory, built file by file.

A part is the stored file of a step. The store's reader checks each part. The index writes nothing
to disk. It skips parts that are damaged or of a newer version, and lists them.
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
from sparring.view.run_files import Signature, is_inside, signature

BATCH = 20  # parts that are indexed at once
EPISODES, CREDIT = "episodes", "credit"
READ = (
    *("step", "episode_id", "group_id", "game", "seat", "turn_index", "candidate", "committed"),
    *("legal_actions", "action", "event", "logprobs", "oracle_values", "forfeited_by", "returns"),
    *("roles", "agents", "cut"),
)
READ_CREDIT = ("step", "episode_id", "seat", "turn_index", "candidate", "advantage")
SEATS = 1024  # a cast is an environment with its players; seat number: cast * SEATS + seat
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
      FROM (SELECT *, list_avg(logprobs) AS mean_logprob, len(logprobs) AS tokens,
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
    turns, tokens, bad, forfeited_by, cut, size, regret, mean_logprob, wrong
FROM (SELECT run, step, episode_id, any_value(group_id) AS group_id, any_value(game) AS game,
        any_value(roles) AS roles, any_value(agents) AS agents, any_value(returns) AS returns,
        count(*) AS turns, sum(tokens) AS tokens, count(*) FILTER (bad) AS bad,
        any_value(forfeited_by) AS forfeited_by, any_value(cut) AS cut, max(size) AS size,
        max(regret) AS regret, min(CASE WHEN isfinite(mean_logprob) THEN mean_logprob END) AS
        mean_logprob, coalesce(bool_or(wrong), false) AS wrong
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
    """The tables ``episodes`` and ``seats``; each thread needs its own ``cursor``.

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
        self.generation = 0  # number of changes of the tables
        self.num_stored: dict[int, int] = {}  # number of stored steps of each run

    def cursor(self) -> Any:
        """Return a connection to the tables for one thread."""
        return self._connection.cursor()

    def update(
        self,
        folders: Mapping[int, Path],
        changed: Callable[[set[int]], None],
        max_steps: int | None = None,
    ) -> bool:
        """Update the tables from the folders, newest steps first; return whether all steps are in.

        Args:
            folders: of the runs, by number.
            changed: called after each batch with the runs whose rows changed.
            max_steps: largest number of added steps; None adds all.
        """
        steps_by_run = {run: stored_steps(run, path) for run, path in folders.items()}
        current = dict(item for of_run in steps_by_run.values() for item in of_run.items())
        indexed = {step: key for step, key in self.known.items() if step.run in folders}
        removed = [step for step, key in indexed.items() if current.get(step) != key]
        changed_steps = [step for step, key in current.items() if indexed.get(step) != key]
        self.num_stored.update({run: len(of_run) for run, of_run in steps_by_run.items()})
        self._drop(removed)
        self.generation += 1
        if removed:
            changed({stored.run for stored in removed})
        newest = sorted(changed_steps, key=lambda place: current[place].episodes[1], reverse=True)
        to_add = newest[:max_steps]
        for begin in range(0, len(to_add), BATCH):
            batch = to_add[begin : begin + BATCH]
            self._add_all(folders, {stored: current[stored] for stored in batch})
            self.generation += 1
            changed({stored.run for stored in batch})
        pa.default_memory_pool().release_unused()
        return len(to_add) == len(newest)

    def close(self) -> None:
        """Drop the tables; the index cannot be used afterwards."""
        self._connection.close()
        del self._connection  # DuckDB warns about open connections when the process ends

    def _add_all(
        self, folders: Mapping[int, Path], signatures: Mapping[StoredStep, StepSignature]
    ) -> None:
        import duckdb

        try:
            self._add(folders, signatures)
        except (duckdb.Error, pa.ArrowException) as error:
            if len(signatures) > 1:
                for stored, signature_of_step in signatures.items():
                    self._add_all(folders, {stored: signature_of_step})
                return
            (stored,) = signatures
            name = EpisodeStore(Path()).path(stored.step).name
            self.left_out[stored, EPISODES] = SkippedPart(f"{EPISODES}/{name}", one_line(error))
            self.known.update(signatures)

    def _drop(self, stored_steps: Iterable[StoredStep]) -> None:
        cursor = self.cursor()
        for stored in stored_steps:
            with self._lock:
                for table in ("episodes", "seats"):
                    cursor.execute(f"DELETE FROM {table} WHERE run = ? AND step = ?", stored)
                self.known.pop(stored, None)
                self.rows.pop(stored, None)
                for kind in (EPISODES, CREDIT):
                    self.left_out.pop((stored, kind), None)

    def _add(self, folders: Mapping[int, Path], steps: Mapping[StoredStep, StepSignature]) -> None:
        turns, credit = [], []
        for stored, step_signature in steps.items():
            folder = folders[stored.run]
            table = self._load(EpisodeStore(folder / EPISODES), stored, READ, EPISODES)
            if table is None:
                continue
            turns.append(table)
            if step_signature.credit is not None:
                rows = self._load(CreditStore(folder / CREDIT), stored, READ_CREDIT, CREDIT)
                credit += [] if rows is None else [rows]
        if turns:
            self._insert(pa.concat_tables(turns), _concat_credit(credit))
        self.known.update(steps)

    def _load(
        self, store: Parts, stored: StoredStep, columns: Sequence[str], kind: str
    ) -> pa.Table | None:
        """Return the rows of a part; list an invalid part and return None."""
        path = store.path(stored.step)
        try:
            if not is_inside(store.folder.parent, path):
                raise ValueError("it is a link out of the run folder")
            table = store.load(path, columns)
            if set(table["step"].to_pylist()) - {stored.step, None}:
                raise ValueError("it contains other steps")
        except FileNotFoundError:
            return None
        except (SparringError, *DAMAGED) as error:
            self.left_out[stored, kind] = SkippedPart(
                f"{kind}/{path.name}", describe_damage(error, path)
            )
            return None
        return _with_run(table, stored.run)

    def _insert(self, turns: pa.Table, credit: pa.Table) -> None:
        cursor = self.cursor()
        cursor.register("turns", turns)
        cursor.register("credit", credit)
        cursor.execute(TURNS)
        with self._lock:
            (first_id,) = cursor.execute("SELECT nextval('numbers')").fetchall()[0]
            cursor.execute("BEGIN")
            cursor.execute(ADD_CASTS)
            cursor.execute(ADD_EPISODES)
            cursor.execute(ADD_SEATS, [first_id])
            cursor.execute("COMMIT")
        counts = cursor.execute(
            "SELECT run, step, count(*) FROM episodes WHERE id >= ? GROUP BY run, step", [first_id]
        ).fetchall()
        self.rows.update({StoredStep(run, step): rows for run, step, rows in counts})
        cursor.close()


def stored_steps(run: int, folder: Path) -> dict[StoredStep, StepSignature]:
    """Return the stored steps of a run folder with the signatures of their files."""
    if not all(is_inside(folder, folder / kind) for kind in (EPISODES, CREDIT)):
        return {}
    episodes, credit = EpisodeStore(folder / EPISODES), CreditStore(folder / CREDIT)
    signatures = {}
    for step in episodes.steps():
        episodes_signature = signature(episodes.path(step))
        if episodes_signature is not None:
            signatures[StoredStep(run, step)] = StepSignature(
                episodes_signature, signature(credit.path(step))
            )
    return signatures


def describe_damage(error: Exception, path: Path) -> str:
    """Return why a part is skipped, without names of folders."""
    if isinstance(error, RunError):
        return one_line(error).replace(str(path), path.name)
    if type(error) is ValueError:
        return f"it is damaged: {one_line(error)}"
    return "it is incomplete or damaged"


def _concat_credit(credit: Sequence[pa.Table]) -> pa.Table:
    if credit:
        return pa.concat_tables(credit)
    schema = CreditStore(Path()).columns.schema
    return _with_run(pa.schema([schema.field(name) for name in READ_CREDIT]).empty_table(), 0)


def _with_run(table: pa.Table, run: int) -> pa.Table:
    return table.append_column("run", pa.array([run] * len(table), pa.int32()))
