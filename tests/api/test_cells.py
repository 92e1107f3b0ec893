"""Cells of studies: what is run, what is kept, what is refused, and processes that end with ours."""

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

from sparring.api import cells as cells_of
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
from studies.common.study import QUICK, Study, reproduce


def nothing(folder, stdout, ask):
    return {"said": stdout.strip()}


def cell(key, *words, measure=nothing):
    return Cell(key=(key,), folder=str(key), command=("sparring", *words), path_words=(), measure=measure)


@pytest.fixture
def place(monkeypatch, tmp_path):
    workplace = CellRunner(tmp_path / "study")
    workplace.version, workplace.ran = "0123abc", []

    def ask(words):
        workplace.ran.append(tuple(words))
        return " ".join(words)

    monkeypatch.setattr(workplace, "run_command", ask)
    return workplace


def run(place, *cells, watch=lambda line: None, workers=1):
    return run_cells(list(cells), place, workers, watch)


def test_a_cell_is_run_once_and_again_only_for_another_command(place):
    records = run(place, cell("a", "train", "demo"))
    assert records["a",]["found"] == {"said": "sparring train demo"}
    assert (records["a",]["command"], records["a",]["commit"]) == ("sparring train demo", "0123abc")
    assert run(place, cell("a", "train", "demo")) == records and len(place.ran) == 1
    run(place, cell("a", "train", "demo", "steps=2"))
    assert len(place.ran) == 2


def needs(needing, *keys):
    return dataclasses.replace(needing, after=tuple((key,) for key in keys))


def test_cells_begin_after_what_they_need_and_first_where_others_wait(place):
    """Three runs of an hour and their matches: with the matches of a seed right after its run, the last run would have a core for itself."""
    runs = [cell(f"run{seed}", f"run{seed}") for seed in range(3)]
    matches = [needs(cell(f"match{seed}", f"match{seed}"), f"run{seed}") for seed in range(3)]
    run(place, *(each for pair in zip(runs, matches, strict=True) for each in pair), cell("alone", "alone"))
    assert [words[1] for words in place.ran] == ["run0", "run1", "run2", "match0", "match1", "match2", "alone"]
    run(place, needs(cell("both", "both"), "a", "b"), cell("a", "a"), needs(cell("b", "b"), "a"), cell("c", "c"))
    assert [words[1] for words in place.ran][7:] == ["a", "b", "both", "c"]
    run(place, cell("a", "a"), needs(cell("d", "d"), "a"))  # a was done before
    assert place.ran[-1] == ("sparring", "d") and len(place.ran) == 12


def test_while_what_a_cell_needs_still_runs_others_begin(place, monkeypatch):
    free, order = threading.Event(), []

    def ask(words):
        if words[1] == "slow":
            assert free.wait(30)
        order.append(words[1])
        free.set()
        return ""

    monkeypatch.setattr(place, "run_command", ask)
    run(place, cell("slow", "slow"), needs(cell("last", "last"), "slow"), cell("other", "other"), workers=2)
    assert order == ["other", "slow", "last"]


def test_what_needs_a_cell_that_failed_is_not_run_and_the_rest_is_kept(place, monkeypatch):
    def ask(words):
        if words[1] == "bad":
            raise RunError("out of luck")
        place.ran.append(tuple(words))
        return ""

    monkeypatch.setattr(place, "run_command", ask)
    lines = []
    with pytest.raises(RunError, match=r"3 of 4 cells failed, the first: out of luck"):
        run(
            place,
            cell("bad", "bad"),
            needs(cell("x", "x"), "bad"),
            needs(cell("y", "y"), "x"),
            cell("good", "good"),
            watch=lines.append,
        )
    assert [words[1] for words in place.ran] == ["good"]
    assert "x failed: not run, as a cell that it needs failed" in lines


def test_a_training_run_names_its_place_and_its_command_does_not(place):
    training = training_cell(("demo", 0), "three games/demo-0", "demo", ["seed=0"], nothing)
    record = run(place, training)["demo", 0]
    folder = place.folder / "three-games-demo-0"
    expected = ("sparring", "train", "demo", "seed=0", "--run", str(folder), "--overwrite")
    assert place.ran == [expected]
    assert record["command"] == "sparring train demo seed=0"
    assert json.loads((folder / "cell.json").read_text()) == record


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '{"command": "sparring train demo"}'])
def test_a_damaged_cell_is_run_again(place, text):
    (place.folder / "a").mkdir(parents=True)
    (place.folder / "a" / "cell.json").write_text(text)
    assert "found" in run(place, cell("a", "train", "demo"))["a",]


def test_a_run_that_was_stopped_is_no_cell(place):
    folder = place.folder / "a"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("steps: 3", encoding="utf-8")
    (folder / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n', encoding="utf-8")
    stopped = cell("a", "train", "demo", measure=lambda folder, stdout, ask: metrics(folder))
    with pytest.raises(RunError, match="stopped after 2 of 3 steps"):
        run(place, stopped)
    assert not (folder / "cell.json").exists()
    (folder / "metrics.jsonl").write_text('{"step": 3}\n', encoding="utf-8")
    assert run(place, stopped)["a",]["found"] == [{"step": 3}]


def test_cells_of_several_commits_are_refused(place):
    records = [{"commit": "0123abc", "date": "2026-11-21"}, {"commit": "0123abc", "date": "2026-11-22"}]
    assert origin(records) == {"commit": "0123abc", "date": "2026-11-22"}
    with pytest.raises(RunError, match="2 commits: 0123abc, 4567def"):
        origin([*records, {"commit": "4567def", "date": "2026-11-22"}])
    run(place, cell("a", "train"))
    place.version = "4567def"
    with pytest.raises(RunError, match=r"holds cells of 0123abc, and this code is 4567def.*--folder"):
        run(place, cell("a", "train"), cell("b", "train"))
    assert len(place.ran) == 1
    assert run(place, cell("a", "train"))["a",]["commit"] == "0123abc"  # nothing is to be added


def test_without_git_the_version_stands_for_the_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(cells_of, "code_commit", lambda: None)
    place = CellRunner(tmp_path)
    assert place.version.startswith("sparring ")
    assert origin([{"commit": place.version, "date": "2026-11-22"}])["commit"] is None


def test_a_cell_that_fails_is_told_with_its_last_words_and_the_others_stay(tmp_path):
    place, lines = CellRunner(tmp_path), []
    good, bad = cell("good", "list", "players"), cell("bad", "list", "slots-that-are-none")
    with pytest.raises(RunError) as raised:
        run(place, bad, good, watch=lines.append, workers=2)
    message = str(raised.value)
    assert "1 of 2 cells failed" in message and "`sparring list slots-that-are-none` failed" in message
    assert "Unknown kind of thing" in message and "the same command" in message
    assert place.stored_record(good) is not None and place.stored_record(bad) is None
    assert any(line.startswith("bad failed: ") for line in lines)


def test_failures_and_progress_are_told(place):
    with pytest.raises(RunError, match="cannot be measured: KeyError: 'gone'"):
        run(place, cell("a", "train", measure=lambda folder, stdout, ask: {}["gone"]))
    lines = []
    run(place, cell("a", "train"))
    run(place, *(cell(name, "train") for name in "abc"), watch=lines.append)
    assert lines[0].startswith("1 of 3 cells are done in")
    assert lines[1].startswith("2/3 cells done, one every 1 seconds, 1 seconds left: b")
    assert lines[2].startswith("3/3 cells done") and len(lines) == 3


def test_a_cell_says_how_many_steps_of_its_run_are_done(tmp_path):
    place, of = CellRunner(tmp_path), cell("a", "train")
    assert place.progress_of(of) == "a"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("steps: 8\n")
    assert place.progress_of(of) == "a"  # nothing tells whether it will have steps
    (tmp_path / "a" / "metrics.jsonl").write_text("")
    assert place.progress_of(of) == "a (before step 1)"
    (tmp_path / "a" / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    assert place.progress_of(of) == "a (step 2 of 8)"
    for damaged in ("steps: [\n", "- 1\n", "{}"):
        (tmp_path / "a" / "config.yaml").write_text(damaged)
        assert place.progress_of(of) == "a"


def test_what_runs_is_told_where_nothing_was_told_for_long(place, monkeypatch):
    def slow(words):
        time.sleep(0.3)
        return ""

    monkeypatch.setattr(place, "run_command", slow)
    monkeypatch.setattr(cells_of, "POLL_SECONDS", 0.02)
    for quiet, is_reported in ((60.0, False), (0.1, True)):
        lines = []
        monkeypatch.setattr(cells_of, "QUIET_SECONDS", quiet)
        run(place, cell(f"a{is_reported}", "train"), cell(f"b{is_reported}", "train"), watch=lines.append, workers=2)
        since = [line for line in lines if line.startswith("After ")]
        assert bool(since) == is_reported and all(
            line.endswith(f"seconds: a{is_reported}, b{is_reported}.") for line in since
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


def test_an_interrupt_ends_what_runs_and_keeps_what_is_done(sleeper, tmp_path):
    place, done = CellRunner(tmp_path), cell("a", "list", "players")
    endless = Cell(key=("b",), folder="b", command=sleeper, path_words=("{}",), measure=nothing)

    def watch(line):
        if line.startswith("1/2"):
            wait_for((tmp_path / "b" / "pid").exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(place, endless, done, watch=watch, workers=2)
    assert place.stored_record(done) is not None and place.stored_record(endless) is None
    assert not is_running((tmp_path / "b" / "pid").read_text())
    with pytest.raises(StudyStopped):
        place.run(done)


def test_an_interrupt_that_does_not_end_the_wait_is_heard_while_a_cell_runs(place, monkeypatch):
    stopped = threading.Event()

    def ask(words):
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # this thread, where the main one waits
        if not stopped.wait(60):
            place.ran.append(tuple(words))
        return ""

    monkeypatch.setattr(place, "run_command", ask)
    monkeypatch.setattr(place, "stop", stopped.set)
    with pytest.raises(KeyboardInterrupt):
        run(place, cell("a", "train"))
    assert place.ran == []  # it did not have to end by itself


PARENT = """
import sys
from pathlib import Path
from sparring.api.cells import CellRunner
place = CellRunner(Path(sys.argv[1]))
place.run_command(["python", "-m", "sleeper", sys.argv[1]])
"""


def test_a_command_ends_when_we_are_killed(sleeper, tmp_path):
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
    raise AssertionError("It did not come within a minute.")


def is_running(pid):
    """Return whether a process runs; one that nobody has waited for does not."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def small(*names):
    return Study(
        summary="lists",
        page="docs/x.md",
        hours=0.0,
        setting={"names": list(names)},
        quick={"names": list(names[:1])},
        cells=lambda setting: [cell(name, "list", name) for name in setting["names"]],
        rows=lambda setting, records: [{"what": name, **record["found"]} for (name,), record in records.items()],
    )


def test_the_results_of_a_study_say_where_they_come_from(tmp_path):
    study = small("agents", "oracles")
    results = reproduce(study, study.setting, tmp_path, command="sparring reproduce x", workers=2)
    assert [row["what"] for row in results["rows"]] == ["agents", "oracles"]
    assert "mcts" in results["rows"][0]["said"]
    assert (results["command"], results["setting"]) == ("sparring reproduce x", study.setting)
    assert {"commit", "date", "machine"} <= results.keys() and "torch" in results["versions"]
    assert "note" not in results
    quick = reproduce(study, {"names": ["agents"]}, tmp_path, command="x", quick=True)
    assert quick["setting"] == {"names": ["agents"], "quick": True} and quick["note"] == QUICK
    # as a kill leaves it: one cell is done, of the other there is no result
    before = (tmp_path / "agents" / "cell.json").stat().st_mtime_ns
    (tmp_path / "oracles" / "cell.json").unlink()
    lines = []
    again = reproduce(study, study.setting, tmp_path, command="sparring reproduce x", watch=lines.append)
    assert lines[0].startswith("1 of 2 cells are done") and again == {**results, "date": again["date"]}
    assert (tmp_path / "agents" / "cell.json").stat().st_mtime_ns == before


def test_two_cannot_work_in_one_folder(tmp_path):
    study = small("agents")

    def watch(line):
        with pytest.raises(LockedError, match="Another process works in"):
            reproduce(study, study.setting, tmp_path, command="x")

    reproduce(study, study.setting, tmp_path, command="x", watch=watch)
