"""The sink against a small module in the place of trackio; `make sinks-test` takes the real one."""

import json
import sqlite3
import sys
import types

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import PluginError
from sparring.run.sinks.base import RunStart


@pytest.fixture
def database(monkeypatch, tmp_path):
    """A storage with the calls and the columns of trackio's that the sink uses; its file."""
    path = tmp_path / "database.db"

    class SQLiteStorage:
        @staticmethod
        def validate_project_name(project):
            if not project:
                raise ValueError("a project has a name")

        @staticmethod
        def init_db(project):
            with sqlite3.connect(path) as made:
                made.execute("CREATE TABLE IF NOT EXISTS metrics (run_id TEXT, run_name TEXT, step INTEGER, metrics TEXT)")
                made.execute("CREATE TABLE IF NOT EXISTS configs (run_id TEXT, config TEXT)")
            return path

        @staticmethod
        def bulk_log(project, run, metrics_list, steps, config, run_id):
            with sqlite3.connect(path) as made:
                rows = [(run_id, run, step, json.dumps(one)) for step, one in zip(steps, metrics_list, strict=True)]
                made.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?)", rows)
                if config:
                    made.execute("INSERT INTO configs VALUES (?, ?)", (run_id, json.dumps(config)))

    module = types.ModuleType("trackio.sqlite_storage")
    module.SQLiteStorage = SQLiteStorage
    monkeypatch.setitem(sys.modules, "trackio", types.ModuleType("trackio"))
    monkeypatch.setitem(sys.modules, "trackio.sqlite_storage", module)
    return path


def opened(start, **options):
    return registry.bind("run.sinks", "trackio", options)(start)


def rows(path, what="run_name, step, metrics", table="metrics"):
    with sqlite3.connect(path) as made:
        return made.execute(f"SELECT {what} FROM {table}").fetchall()


def test_figures_and_configuration_are_in_the_database(database, tmp_path):
    sink = opened(RunStart(folder=tmp_path, name="kuhn", seed=3, config={"steps": 5}))
    sink.write(1, {"a": 0.5})
    sink.write(2, {"a": 0.25})
    sink.close()
    found = rows(database)
    assert [(step, json.loads(one)) for _, step, one in found] == [(1, {"a": 0.5}), (2, {"a": 0.25})]
    assert found[0][0].startswith("kuhn-seed3-")
    assert [json.loads(one) for (one,) in rows(database, "config", "configs")] == [{"steps": 5}]


def test_a_run_that_goes_on_is_the_same_run_and_has_no_step_twice(database, tmp_path):
    other = opened(RunStart(folder=tmp_path / "other"), project="sparring") if (tmp_path / "other").mkdir() is None else None
    other.write(3, {"a": 9.0})
    first = opened(RunStart(folder=tmp_path))
    for step in (1, 2, 3):
        first.write(step, {"a": float(step)})
    second = opened(RunStart(folder=tmp_path, step=1))
    second.write(2, {"a": 2.5})
    own = [row for row in rows(database, "run_id, step, metrics") if json.loads(row[2])["a"] < 9]
    assert [(step, json.loads(one)["a"]) for _, step, one in own] == [(1, 1.0), (2, 2.5)]
    assert len({run for run, *_ in own}) == 1 and len(rows(database)) == 3  # the other run's step stays


def test_a_wrong_project_names_the_sink(database, tmp_path):
    with pytest.raises(PluginError, match=r"sink 'trackio' \(logging.sinks\) failed.*a project has a name"):
        opened(RunStart(folder=tmp_path), project="")
