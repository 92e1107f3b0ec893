"""The episode index: one row per episode and one per seat, in memory, built file by file.

A part is a file with the episodes, or the credit, of one step. The reader of the store checks each
part. The index writes nothing to disk. Parts that are damaged or of a newer version are skipped and
listed.
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

PARTS_PER_BATCH = 20
EPISODES, CREDIT = "episodes", "credit"
TURN_COLUMNS = (
    *("step", "episode_id", "group_id", "game", "seat", "turn_index", "candidate", "committed"),
    *("legal_actions", "action", "event", "logprobs", "oracle_values", "forfeited_by", "returns"),
    *("roles", "agents", "cut"),
)
CREDIT_COLUMNS = ("step", "episode_id", "seat", "turn_index", "candidate", "advantage")
# a cast is one environment with one list of players; cast_seat is cast_id * SEATS_PER_CAST + seat
SEATS_PER_CAST = 1024
TABLES = """
CREATE SEQUENCE episode_ids;
CREATE TABLE casts (id INTEGER, game VARCHAR, roles VARCHAR[], agents VARCHAR[]);
CREATE TABLE episodes (id BIGINT, run INTEGER, step BIGINT, episode BIGINT, group_id BIGINT,
    cast_id INTEGER, returns DOUBLE[], turns INTEGER, tokens BIGINT, illegal INTEGER,
    forfeited_by INTEGER, cut BOOLEAN, advantage DOUBLE, regret DOUBLE, logprob DOUBLE,
    wrong BOOLEAN);
CREATE TABLE seats (id BIGINT, run INTEGER, step BIGINT, cast_seat INTEGER, seat_return DOUBLE,
    illegal INTEGER, advantage DOUBLE, regret DOUBLE, wrong BOOLEAN);
"""
# has_wrong_sign: the advantage of a reply with regret is positive, or without regret negative
TURNS = """
CREATE OR REPLACE TEMP TABLE turns_with_credit AS
SELECT with_regret.*, abs(advantage) AS abs_advantage,
    event IN ('illegal', 'unparsable') AS is_illegal,
    regret > 1e-9 AND advantage > 0 OR regret <= 1e-9 AND advantage < 0 AS has_wrong_sign
FROM (SELECT turns.*, CASE WHEN isfinite(credit.advantage) THEN credit.advantage END AS advantage,
        list_max(values) - CASE WHEN event = 'ok' AND action IS NOT NULL
            THEN values[list_position(legal_actions, action)] ELSE list_min(values) END AS regret
      FROM (SELECT *, list_avg(logprobs) AS mean_logprob, len(logprobs) AS tokens,
              CASE WHEN isfinite(list_sum(oracle_values)) THEN oracle_values END AS values
            FROM turns) AS turns
      LEFT JOIN credit USING (run, step, episode_id, seat, turn_index, candidate)
      WHERE committed AND event <> 'memory') AS with_regret
"""
ADD_CASTS = """
INSERT INTO casts SELECT (SELECT count(*) FROM casts) + row_number() OVER () - 1, *
FROM (SELECT DISTINCT game, roles, agents FROM turns_with_credit) AS new_casts
ANTI JOIN casts USING (game, roles, agents)
"""
ADD_EPISODES = """
INSERT INTO episodes SELECT nextval('episode_ids'), run, step, episode_id, group_id, casts.id,
    returns, turns, tokens, num_illegal, forfeited_by, cut, max_advantage, max_regret, min_logprob,
    has_wrong_sign
FROM (SELECT run, step, episode_id, any_value(group_id) AS group_id, any_value(game) AS game,
        any_value(roles) AS roles, any_value(agents) AS agents, any_value(returns) AS returns,
        count(*) AS turns, sum(tokens) AS tokens, count(*) FILTER (is_illegal) AS num_illegal,
        any_value(forfeited_by) AS forfeited_by, any_value(cut) AS cut,
        max(abs_advantage) AS max_advantage, max(regret) AS max_regret,
        min(CASE WHEN isfinite(mean_logprob) THEN mean_logprob END) AS min_logprob,
        coalesce(bool_or(has_wrong_sign), false) AS has_wrong_sign
      FROM turns_with_credit GROUP BY run, step, episode_id) AS by_episode
JOIN casts USING (game, roles, agents)
"""
ADD_SEATS = f"""
INSERT INTO seats SELECT id, run, step, cast_id * {SEATS_PER_CAST} + seat, returns[seat + 1],
    coalesce(num_illegal, 0), max_advantage, max_regret, coalesce(has_wrong_sign, false)
FROM (SELECT id, run, step, episode AS episode_id, cast_id, returns,
        unnest(range(len(returns))) AS seat FROM episodes WHERE id >= ?) AS all_seats
LEFT JOIN (SELECT run, step, episode_id, seat, count(*) FILTER (is_illegal) AS num_illegal,
        max(abs_advantage) AS max_advantage, max(regret) AS max_regret,
        bool_or(has_wrong_sign) AS has_wrong_sign
      FROM turns_with_credit GROUP BY run, step, episode_id, seat) AS by_seat
    USING (run, step, episode_id, seat)
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
        part: path of the part in the run folder.
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
        self.signatures: dict[StoredStep, StepSignature] = {}
        self.num_episodes: dict[StoredStep, int] = {}
        self.skipped_parts: dict[tuple[StoredStep, str], SkippedPart] = {}
        self.generation = 0  # number of changes to the tables
        self.num_stored_steps: dict[int, int] = {}  # by run

    def cursor(self) -> Any:
        """Return a connection to the tables for one thread."""
        return self._connection.cursor()

    def update(
        self,
        folders: Mapping[int, Path],
        on_change: Callable[[set[int]], None],
        max_steps: int | None = None,
    ) -> bool:
        """Index the folders' stored steps, newest first; return whether all of them are indexed.

        Args:
            folders: run folder of each run number.
            on_change: called after each batch with the numbers of the runs whose rows changed.
            max_steps: number of steps to add at most; None: all.
        """
        steps_by_run = {run: stored_steps(run, path) for run, path in folders.items()}
        current_steps = dict(item for steps in steps_by_run.values() for item in steps.items())
        indexed_steps = {
            step_key: step_signature
            for step_key, step_signature in self.signatures.items()
            if step_key.run in folders
        }
        removed_steps = [
            step_key
            for step_key, step_signature in indexed_steps.items()
            if current_steps.get(step_key) != step_signature
        ]
        changed_steps = [
            step_key
            for step_key, step_signature in current_steps.items()
            if indexed_steps.get(step_key) != step_signature
        ]
        self.num_stored_steps.update({run: len(steps) for run, steps in steps_by_run.items()})
        self._drop(removed_steps)
        self.generation += 1
        if removed_steps:
            on_change({step_key.run for step_key in removed_steps})
        by_time = sorted(changed_steps, key=lambda s: current_steps[s].episodes[1], reverse=True)
        new_steps = by_time[:max_steps]
        for start in range(0, len(new_steps), PARTS_PER_BATCH):
            batch = new_steps[start : start + PARTS_PER_BATCH]
            self._add_all(folders, {step_key: current_steps[step_key] for step_key in batch})
            self.generation += 1
            on_change({step_key.run for step_key in batch})
        pa.default_memory_pool().release_unused()
        return len(new_steps) == len(by_time)

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
                for step_key, step_signature in signatures.items():
                    self._add_all(folders, {step_key: step_signature})
                return
            (step_key,) = signatures
            name = EpisodeStore(Path()).path(step_key.step).name
            self.skipped_parts[step_key, EPISODES] = SkippedPart(
                f"{EPISODES}/{name}", one_line(error)
            )
            self.signatures.update(signatures)

    def _drop(self, step_keys: Iterable[StoredStep]) -> None:
        cursor = self.cursor()
        for step_key in step_keys:
            with self._lock:
                for table in ("episodes", "seats"):
                    cursor.execute(f"DELETE FROM {table} WHERE run = ? AND step = ?", step_key)
                self.signatures.pop(step_key, None)
                self.num_episodes.pop(step_key, None)
                for kind in (EPISODES, CREDIT):
                    self.skipped_parts.pop((step_key, kind), None)

    def _add(self, folders: Mapping[int, Path], steps: Mapping[StoredStep, StepSignature]) -> None:
        turn_tables, credit_tables = [], []
        for step_key, step_signature in steps.items():
            folder = folders[step_key.run]
            table = self._load(EpisodeStore(folder / EPISODES), step_key, TURN_COLUMNS, EPISODES)
            if table is None:
                continue
            turn_tables.append(table)
            if step_signature.credit is not None:
                rows = self._load(CreditStore(folder / CREDIT), step_key, CREDIT_COLUMNS, CREDIT)
                credit_tables += [] if rows is None else [rows]
        if turn_tables:
            self._insert(pa.concat_tables(turn_tables), _concat_credit(credit_tables))
        self.signatures.update(steps)

    def _load(
        self, store: Parts, step_key: StoredStep, columns: Sequence[str], kind: str
    ) -> pa.Table | None:
        """Return the rows of a part; None if the part is missing or skipped."""
        path = store.path(step_key.step)
        try:
            if not is_inside(store.folder.parent, path):
                raise ValueError("it is a link that leads out of the run folder")
            table = store.load(path, columns)
            if set(table["step"].to_pylist()) - {step_key.step, None}:
                raise ValueError("it contains rows of other steps")
        except FileNotFoundError:
            return None
        except (SparringError, *DAMAGED) as error:
            self.skipped_parts[step_key, kind] = SkippedPart(
                f"{kind}/{path.name}", describe_damage(error, path)
            )
            return None
        return _with_run(table, step_key.run)

    def _insert(self, turns: pa.Table, credit: pa.Table) -> None:
        cursor = self.cursor()
        cursor.register("turns", turns)
        cursor.register("credit", credit)
        cursor.execute(TURNS)
        with self._lock:
            (first_id,) = cursor.execute("SELECT nextval('episode_ids')").fetchall()[0]
            cursor.execute("BEGIN")
            cursor.execute(ADD_CASTS)
            cursor.execute(ADD_EPISODES)
            cursor.execute(ADD_SEATS, [first_id])
            cursor.execute("COMMIT")
        counts = cursor.execute(
            "SELECT run, step, count(*) FROM episodes WHERE id >= ? GROUP BY run, step", [first_id]
        ).fetchall()
        self.num_episodes.update({StoredStep(run, step): count for run, step, count in counts})
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
    """Return the reason why a part is skipped, without folder names."""
    if isinstance(error, RunError):
        return one_line(error).replace(str(path), path.name)
    if type(error) is ValueError:
        return f"it is damaged: {one_line(error)}"
    return "it is incomplete or damaged"


def _concat_credit(tables: Sequence[pa.Table]) -> pa.Table:
    if tables:
        return pa.concat_tables(tables)
    schema = CreditStore(Path()).columns.schema
    return _with_run(pa.schema([schema.field(name) for name in CREDIT_COLUMNS]).empty_table(), 0)


def _with_run(table: pa.Table, run: int) -> pa.Table:
    return table.append_column("run", pa.array([run] * len(table), pa.int32()))
