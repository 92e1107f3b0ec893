"""The command `sparring reproduce`; a cell is one run of an experiment. tests/api/test_cells.py tests its parts."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from sparring import cli
from sparring.core.errors import ConfigError, UnknownNameError
from studies.common.results_file import errors_of
from studies.common.study import study_names

SMALLEST = "vpr-noise"
PROGRAM = "import sys\nfrom sparring.cli import main\nsys.argv[0] = 'sparring'\nmain()"


def reproduce(*arguments):
    return CliRunner().invoke(cli.app, ["reproduce", *map(str, arguments)])


def start_process(*arguments):
    words = [sys.executable, "-c", PROGRAM, "reproduce", *map(str, arguments)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


def wait_for_a_cell(folder):
    for _ in range(1200):
        if finished_cells := list(folder.glob("*/cell.json")):
            return finished_cells
        time.sleep(0.05)
    raise AssertionError("No cell was done within a minute.")


def without_dates(text):
    """Return a results file without the fields that differ between runs."""
    return {key: value for key, value in json.loads(text).items() if key not in ("date", "commit")}


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """Return the folder and the output of an uninterrupted quick run."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    return folder, reproduce(SMALLEST, "--quick", "--folder", folder)


@pytest.mark.parametrize("arguments", [[], ["--list"], ["mars", "--list"]])
def test_the_list_has_every_experiment_with_page_hours_and_cells(arguments):
    lines = reproduce(*arguments).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == list(study_names())
    columns = {line.split("\t")[0]: line.split("\t")[1:] for line in lines}
    assert columns["mars"][1:] == ["studies/mars/page.md", "0.8", "27"]


def test_the_list_as_json():
    rows = json.loads(reproduce("--json").stdout)
    assert [row["name"] for row in rows] == list(study_names())
    assert {row["name"]: row["cells"] for row in rows}["mars"] == 27


def test_a_quick_run_writes_results_and_tables_marked_as_quick(quick_run):
    folder, outcome = quick_run
    assert outcome.exit_code == 0, outcome.output
    document = json.loads((folder / "results.json").read_text())
    assert document["command"] == f"sparring reproduce {SMALLEST} --quick"
    assert document["setting"]["quick"] is True and "measure nothing" in document["note"]
    assert errors_of({**document, "commit": "0123abc"}) == []
    assert {row["starts"] for row in document["rows"]} == {"seen", "unseen"}
    tables = (folder / "tables.md").read_text()
    assert "| TPR | FPR |" in tables and "measure nothing" in tables
    assert f"Wrote {folder / 'results.json'}, {folder / 'tables.md'}." in outcome.stdout
    assert "2/2 cells done" in outcome.stderr


def test_finished_cells_are_not_run_again(quick_run):
    folder, _ = quick_run
    results_before = (folder / "results.json").read_text()
    output = reproduce(SMALLEST, "--quick", "--folder", folder, "--json")
    assert "2 of 2 cells are done" in output.stderr and "2/2" not in output.stderr
    assert json.loads(output.stdout) == json.loads(results_before)
    assert (folder / "results.json").read_text() == results_before


@pytest.mark.slow
@pytest.mark.parametrize(("signal_number", "exit_code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_an_interrupted_run_resumes_to_the_same_results(quick_run, tmp_path, signal_number, exit_code):
    folder = tmp_path / "study"
    arguments = (SMALLEST, "--quick", "--workers", 1, "--folder", folder)
    process = start_process(*arguments)
    wait_for_a_cell(folder)
    os.kill(process.pid, signal_number)
    stderr = process.communicate()[1]
    assert process.returncode == exit_code
    assert not (folder / "results.json").exists()
    assert exit_code != 130 or f"Finished cells are in {folder}; the same command continues" in stderr
    outcome = reproduce(*arguments)
    assert outcome.exit_code == 0 and "1 of 2 cells are done" in outcome.stderr
    results_texts = [(path / "results.json").read_text() for path in (quick_run[0], folder)]
    assert without_dates(results_texts[0]) == without_dates(results_texts[1])


def test_an_unknown_name_suggests_the_nearest(tmp_path):
    error = reproduce("credit-rase", "--folder", tmp_path / "study").exception
    assert isinstance(error, UnknownNameError) and "Did you mean 'credit-race'" in str(error)
    assert all(name in str(error) for name in study_names())


def test_publish_is_refused_before_any_cell_runs(tmp_path):
    arguments = (SMALLEST, "--publish", "--folder", tmp_path / "study")
    error = reproduce(*arguments, "--quick").exception
    assert isinstance(error, ConfigError) and "Omit --quick" in str(error)
    assert not (tmp_path / "study").exists()


def test_without_a_checkout_the_error_says_where_studies_are(tmp_path, monkeypatch):
    monkeypatch.setattr("sparring.__file__", str(tmp_path / "a/b/sparring/__init__.py"))
    monkeypatch.chdir(tmp_path)
    error = reproduce("mars").exception
    assert isinstance(error, ConfigError) and "clone it, and write `sparring reproduce NAME` in its folder" in str(
        error
    )
