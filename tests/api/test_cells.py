"""Cells of a study (one command and its stored result each): order, reuse, errors, and processes that end with ours."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sparring.api import cells as cells_module
from sparring.api.cells import (
    Cell,
    CellRunner,
    StudyStopped,
    metrics,
    origin,
    run_cells,
    training_cell,
)
from sparring.core.errors import LockedError, RunError
from studies.common.study import QUICK_NOTE, Study, reproduce


def store_stdout(folder, stdout, run_command):
    return {"said": stdout.strip()}


def cell(key, *words, measure=store_stdout):
    return Cell(key=(key,), folder=str(key), command=("sparring", *words), path_words=(), measure=measure)


@pytest.fixture
def runner(monkeypatch, tmp_path):
    runner = CellRunner(tmp_path / "study")
    runner.version, runner.commands = "0123abc", []

    def fake_command(words):
        runner.commands.append(tuple(words))
        return " ".join(words)

    monkeypatch.setattr(runner, "run_command", fake_command)
    return runner


def run_all(runner, *cells, watch=lambda line: None, workers=1):
    return run_cells(list(cells), runner, workers, watch)


def test_a_cell_is_run_again_only_if_its_command_changes(runner):
    records = run_all(runner, cell("a", "train", "demo"))
    assert records["a",]["found"] == {"said": "sparring train demo"}
    assert (records["a",]["command"], records["a",]["commit"]) == ("sparring train demo", "0123abc")
    assert run_all(runner, cell("a", "train", "demo")) == records and len(runner.commands) == 1
    run_all(runner, cell("a", "train", "demo", "steps=2"))
    assert len(runner.commands) == 2


def with_needs(dependent, *keys):
    return dataclasses.replace(dependent, after=tuple((key,) for key in keys))


def test_cells_start_after_their_needs_and_those_that_others_need_start_first(runner):
    """Long runs start first, so that at the end no core waits for a long run."""
    runs = [cell(f"run{seed}", f"run{seed}") for seed in range(3)]
    matches = [with_needs(cell(f"match{seed}", f"match{seed}"), f"run{seed}") for seed in range(3)]
    run_all(runner, *(item for pair in zip(runs, matches, strict=True) for item in pair), cell("alone", "alone"))
    assert [words[1] for words in runner.commands] == ["run0", "run1", "run2", "match0", "match1", "match2", "alone"]
    run_all(
        runner,
        with_needs(cell("both", "both"), "a", "b"),
        cell("a", "a"),
        with_needs(cell("b", "b"), "a"),
        cell("c", "c"),
    )
    assert [words[1] for words in runner.commands][7:] == ["a", "b", "both", "c"]
    run_all(runner, cell("a", "a"), with_needs(cell("d", "d"), "a"))  # cell a has a stored result
    assert runner.commands[-1] == ("sparring", "d") and len(runner.commands) == 12


def test_other_cells_start_while_a_cell_waits_for_its_needs(runner, monkeypatch):
    may_finish, order = threading.Event(), []

    def fake_command(words):
        if words[1] == "slow":
            assert may_finish.wait(30)
        order.append(words[1])
        may_finish.set()
        return ""

    monkeypatch.setattr(runner, "run_command", fake_command)
    run_all(runner, cell("slow", "slow"), with_needs(cell("last", "last"), "slow"), cell("other", "other"), workers=2)
    assert order == ["other", "slow", "last"]


def test_cells_that_need_a_failed_cell_are_skipped_and_others_run(runner, monkeypatch):
    def fake_command(words):
        if words[1] == "bad":
            raise RunError("out of luck")
        runner.commands.append(tuple(words))
        return ""

    monkeypatch.setattr(runner, "run_command", fake_command)
    lines = []
    with pytest.raises(RunError, match=r"3 of 4 cells failed, the first: out of luck"):
        run_all(
            runner,
            cell("bad", "bad"),
            with_needs(cell("x", "x"), "bad"),
            with_needs(cell("y", "y"), "x"),
            cell("good", "good"),
            watch=lines.append,
        )
    assert [words[1] for words in runner.commands] == ["good"]
    assert "x failed: not run, as a cell that it needs failed" in lines


def test_a_training_cell_runs_in_its_folder_but_stores_the_command_without_it(runner):
    training = training_cell(("demo", 0), "three games/demo-0", "demo", ["seed=0"], store_stdout)
    record = run_all(runner, training)["demo", 0]
    folder = runner.folder / "three-games-demo-0"
    expected = ("sparring", "train", "demo", "seed=0", "--run", str(folder), "--overwrite")
    assert runner.commands == [expected]
    assert record["command"] == "sparring train demo seed=0"
    assert json.loads((folder / "cell.json").read_text()) == record


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '{"command": "sparring train demo"}'])
def test_a_cell_with_a_damaged_result_is_run_again(runner, text):
    (runner.folder / "a").mkdir(parents=True)
    (runner.folder / "a" / "cell.json").write_text(text)
    assert "found" in run_all(runner, cell("a", "train", "demo"))["a",]


def test_a_run_that_stopped_early_is_not_stored(runner):
    folder = runner.folder / "a"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("steps: 3", encoding="utf-8")
    (folder / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n', encoding="utf-8")
    stopped_cell = cell("a", "train", "demo", measure=lambda folder, stdout, run_command: metrics(folder))
    with pytest.raises(RunError, match="stopped after 2 of 3 steps"):
        run_all(runner, stopped_cell)
    assert not (folder / "cell.json").exists()
    (folder / "metrics.jsonl").write_text('{"step": 3}\n', encoding="utf-8")
    assert run_all(runner, stopped_cell)["a",]["found"] == [{"step": 3}]


def test_results_of_several_commits_are_refused(runner):
    records = [{"commit": "0123abc", "date": "2026-11-21"}, {"commit": "0123abc", "date": "2026-11-22"}]
    assert origin(records) == {"commit": "0123abc", "date": "2026-11-22"}
    with pytest.raises(RunError, match="2 commits: 0123abc, 4567def"):
        origin([*records, {"commit": "4567def", "date": "2026-11-22"}])
    run_all(runner, cell("a", "train"))
    runner.version = "4567def"
    with pytest.raises(RunError, match=r"holds cells of 0123abc, and this code is 4567def.*--folder"):
        run_all(runner, cell("a", "train"), cell("b", "train"))
    assert len(runner.commands) == 1
    # all cells are stored, so the results have one commit
    assert run_all(runner, cell("a", "train"))["a",]["commit"] == "0123abc"


def test_without_git_the_version_of_the_package_replaces_the_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(cells_module, "code_commit", lambda: None)
    runner = CellRunner(tmp_path)
    assert runner.version.startswith("sparring ")
    assert origin([{"commit": runner.version, "date": "2026-11-22"}])["commit"] is None


def test_a_failed_cell_reports_its_last_error_lines_and_others_are_stored(tmp_path):
    runner, lines = CellRunner(tmp_path), []
    valid_cell, failing_cell = cell("good", "list", "players"), cell("bad", "list", "slots-that-are-none")
    with pytest.raises(RunError) as error:
        run_all(runner, failing_cell, valid_cell, watch=lines.append, workers=2)
    message = str(error.value)
    assert "1 of 2 cells failed" in message and "`sparring list slots-that-are-none` failed" in message
    assert "Unknown kind of entry" in message and "the same command" in message
    assert runner.stored_record(valid_cell) is not None and runner.stored_record(failing_cell) is None
    assert any(line.startswith("bad failed: ") for line in lines)


def test_a_failed_measure_and_the_progress_are_reported(runner):
    with pytest.raises(RunError, match="cannot be measured: KeyError: 'gone'"):
        run_all(runner, cell("a", "train", measure=lambda folder, stdout, run_command: {}["gone"]))
    lines = []
    run_all(runner, cell("a", "train"))
    run_all(runner, *(cell(name, "train") for name in "abc"), watch=lines.append)
    assert lines[0].startswith("1 of 3 cells are done in")
    assert lines[1].startswith("2/3 cells done, one every 1 seconds, 1 seconds left: b")
    assert lines[2].startswith("3/3 cells done") and len(lines) == 3


def test_progress_of_a_cell_counts_the_steps_of_its_run(tmp_path):
    runner, train_cell = CellRunner(tmp_path), cell("a", "train")
    assert runner.progress_of(train_cell) == "a"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("steps: 8\n")
    assert runner.progress_of(train_cell) == "a"  # a command without a metrics file may have no steps
    (tmp_path / "a" / "metrics.jsonl").write_text("")
    assert runner.progress_of(train_cell) == "a (before step 1)"
    (tmp_path / "a" / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    assert runner.progress_of(train_cell) == "a (step 2 of 8)"
    for config_text in ("steps: [\n", "- 1\n", "{}"):
        (tmp_path / "a" / "config.yaml").write_text(config_text)
        assert runner.progress_of(train_cell) == "a"


def test_running_cells_are_reported_after_a_quiet_time(runner, monkeypatch):
    def slow_command(words):
        time.sleep(0.3)
        return ""

    monkeypatch.setattr(runner, "run_command", slow_command)
    monkeypatch.setattr(cells_module, "POLL_SECONDS", 0.02)
    for quiet_seconds, is_reported in ((60.0, False), (0.1, True)):
        lines = []
        monkeypatch.setattr(cells_module, "QUIET_SECONDS", quiet_seconds)
        run_all(
            runner, cell(f"a{is_reported}", "train"), cell(f"b{is_reported}", "train"), watch=lines.append, workers=2
        )
        reports = [line for line in lines if line.startswith("After ")]
        assert bool(reports) == is_reported and all(
            line.endswith(f"seconds: a{is_reported}, b{is_reported}.") for line in reports
        )


SLEEPER = """
import os, sys, time
from pathlib import Path
Path(sys.argv[1], "pid").write_text(str(os.getpid()))
time.sleep(600)
"""


@pytest.fixture
def sleeper(monkeypatch, tmp_path):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", paths)
    return ("python", "-m", "sleeper")


def test_an_interrupt_ends_running_cells_and_keeps_stored_ones(sleeper, tmp_path):
    runner, finished_cell = CellRunner(tmp_path), cell("a", "list", "players")
    endless = Cell(key=("b",), folder="b", command=sleeper, path_words=("{}",), measure=store_stdout)

    def watch(line):
        if line.startswith("1/2"):
            wait_for((tmp_path / "b" / "pid").exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(runner, endless, finished_cell, watch=watch, workers=2)
    assert runner.stored_record(finished_cell) is not None and runner.stored_record(endless) is None
    assert not is_running((tmp_path / "b" / "pid").read_text())
    with pytest.raises(StudyStopped):
        runner.run(finished_cell)


def test_an_interrupt_in_a_worker_thread_stops_the_running_command(runner, monkeypatch):
    stop_requested = threading.Event()

    def fake_command(words):
        # sent to a worker thread, while the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        if not stop_requested.wait(60):
            runner.commands.append(tuple(words))
        return ""

    monkeypatch.setattr(runner, "run_command", fake_command)
    monkeypatch.setattr(runner, "stop", stop_requested.set)
    with pytest.raises(KeyboardInterrupt):
        run_all(runner, cell("a", "train"))
    assert runner.commands == []  # the command was stopped before it finished


PARENT = """
import sys
from pathlib import Path
from sparring.api.cells import CellRunner
runner = CellRunner(Path(sys.argv[1]))
runner.run_command(["python", "-m", "sleeper", sys.argv[1]])
"""


def test_a_command_ends_when_its_parent_is_killed(sleeper, tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, tmp_path])
    pid = wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    assert Path("/proc", pid).exists()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert wait_for(lambda: not is_running(pid))


def wait_for(condition):
    for _ in range(600):
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError("The condition was not met within a minute.")


def is_running(pid):
    """Return whether a process runs and is not a zombie."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def small_study(*names):
    return Study(
        summary="lists",
        page="docs/x.md",
        hours=0.0,
        setting={"names": list(names)},
        quick={"names": list(names[:1])},
        cells=lambda setting: [cell(name, "list", name) for name in setting["names"]],
        rows=lambda setting, records: [{"what": name, **record["found"]} for (name,), record in records.items()],
    )


def test_the_results_of_a_study_state_command_commit_and_machine(tmp_path):
    study = small_study("agents", "oracles")
    results = reproduce(study, study.setting, tmp_path, command="sparring reproduce x", workers=2)
    assert [row["what"] for row in results["rows"]] == ["agents", "oracles"]
    assert "mcts" in results["rows"][0]["said"]
    assert (results["command"], results["setting"]) == ("sparring reproduce x", study.setting)
    assert {"commit", "date", "machine"} <= results.keys() and "torch" in results["versions"]
    assert "note" not in results
    quick = reproduce(study, {"names": ["agents"]}, tmp_path, command="x", quick=True)
    assert quick["setting"] == {"names": ["agents"], "quick": True} and quick["note"] == QUICK_NOTE
    # the state after a kill: one cell is stored, the other has no result
    modified_at = (tmp_path / "agents" / "cell.json").stat().st_mtime_ns
    (tmp_path / "oracles" / "cell.json").unlink()
    lines = []
    second_results = reproduce(study, study.setting, tmp_path, command="sparring reproduce x", watch=lines.append)
    assert lines[0].startswith("1 of 2 cells are done") and second_results == {
        **results,
        "date": second_results["date"],
    }
    assert (tmp_path / "agents" / "cell.json").stat().st_mtime_ns == modified_at


def test_two_processes_cannot_use_one_folder(tmp_path):
    study = small_study("agents")

    def watch(line):
        with pytest.raises(LockedError, match="Another process uses"):
            reproduce(study, study.setting, tmp_path, command="x")

    reproduce(study, study.setting, tmp_path, command="x", watch=watch)
