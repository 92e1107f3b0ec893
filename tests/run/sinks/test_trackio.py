"""The trackio sink with a fake module; `make sinks-test` uses the real package."""

import json
import sqlite3
import sys
import types

import pytest

from sparring.config.plugins import registry
from sparring.run.sinks.base import RunStart


@pytest.fixture
def database(monkeypatch, tmp_path):
    path = tmp_path / "database.db"

    class SQLiteStorage:
        @staticmethod
        def validate_project_name(project):
            if not project:
                raise ValueError("a project has a name")

        @staticmethod
        def init_db(project):
            with sqlite3.connect(path) as connection:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS metrics (run_id TEXT, run_name TEXT, step INTEGER, metrics TEXT)"
                )
                connection.execute("CREATE TABLE IF NOT EXISTS configs (run_id TEXT, config TEXT)")
            return path

        @staticmethod
        def bulk_log(project, run, metrics_list, steps, config, run_id):
            with sqlite3.connect(path) as connection:
                read_rows = [
                    (run_id, run, step, json.dumps(metrics)) for step, metrics in zip(steps, metrics_list, strict=True)
                ]
                connection.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?)", read_rows)
                if config:
                    connection.execute("INSERT INTO configs VALUES (?, ?)", (run_id, json.dumps(config)))

    module = types.ModuleType("trackio.sqlite_storage")
    module.SQLiteStorage = SQLiteStorage
    monkeypatch.setitem(sys.modules, "trackio", types.ModuleType("trackio"))
    monkeypatch.setitem(sys.modules, "trackio.sqlite_storage", module)
    return path


def open_sink(start, **options):
    return registry.bind("run.sinks", "trackio", options)(start)


def read_rows(path, columns="run_name, step, metrics", table="metrics"):
    with sqlite3.connect(path) as connection:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()


def test_metrics_and_configuration_are_in_the_database(database, tmp_path):
    sink = open_sink(RunStart(folder=tmp_path, name="kuhn", seed=3, config={"steps": 5}))
    sink.write(1, {"a": 0.5})
    sink.write(2, {"a": 0.25})
    sink.close()
    database_rows = read_rows(database)
    assert [(step, json.loads(text)) for _, step, text in database_rows] == [(1, {"a": 0.5}), (2, {"a": 0.25})]
    assert database_rows[0][0].startswith("kuhn-seed3-")
    assert [json.loads(text) for (text,) in read_rows(database, "config", "configs")] == [{"steps": 5}]


def test_a_resumed_run_has_the_same_id_and_every_step_once(database, tmp_path):
    (tmp_path / "other").mkdir()
    sink_of_other_run = open_sink(RunStart(folder=tmp_path / "other"), project="sparring")
    sink_of_other_run.write(3, {"a": 9.0})
    first_sink = open_sink(RunStart(folder=tmp_path))
    for step in (1, 2, 3):
        first_sink.write(step, {"a": float(step)})
    resumed_sink = open_sink(RunStart(folder=tmp_path, step=1))
    resumed_sink.write(2, {"a": 2.5})
    database_rows = [row for row in read_rows(database, "run_id, step, metrics") if json.loads(row[2])["a"] < 9]
    assert [(step, json.loads(text)["a"]) for _, step, text in database_rows] == [(1, 1.0), (2, 2.5)]
    assert (
        len({run for run, *_ in database_rows}) == 1 and len(read_rows(database)) == 3
    )  # the step of the other run stays
