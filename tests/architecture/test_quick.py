"""Quick tests have a time limit under `make`, tests/slow.txt lists slow tests, and slow tests take turns."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest

CONFTEST = Path(conftest.__file__)
TESTS = """
import subprocess, sys, time
import pytest

SPIN = "import time\\nwhile time.process_time() < 2.3: pass"

def test_of_no_time():
    pass

def test_sleeps():
    time.sleep(2.3)

def test_spins():
    began = time.process_time()
    while time.process_time() - began < 2.3: pass

def test_has_a_process_that_spins():
    subprocess.run([sys.executable, "-c", SPIN], check=True)

def test_imports_what_takes_long():
    import long_to_import

@pytest.mark.slow
def test_that_says_it_is_slow():
    test_spins()

@pytest.mark.parametrize("case", [0, 1])
def test_that_is_listed(case):
    test_spins()

@pytest.mark.parametrize("case", [0, 1])
def test_of_which_one_case_is_listed(case):
    test_spins()
"""
LONG = "import time\nbegan = time.process_time()\nwhile time.process_time() - began < 2.3: pass\n"
LISTED = "# listed\n2.30 test_it.py::test_that_is_listed\n2.30 test_it.py::test_of_which_one_case_is_listed[1]\n"


def output_of(folder, *options, **environment):
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--import-mode=importlib", *options, "."]
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    process = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True
    )
    return process.stdout + process.stderr


@pytest.mark.slow
@pytest.mark.always
def test_a_quick_test_that_takes_long_fails_under_make(tmp_path):
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "long_to_import.py").write_text(LONG)
    (tmp_path / "slow.txt").write_text(LISTED)
    output = output_of(tmp_path, SPARRING_NO_SKIPS="1")
    failed_tests = {line.split()[1] for line in output.splitlines() if line.startswith("FAILED")}
    assert failed_tests == {
        f"test_it.py::{name}"
        for name in ("test_spins", "test_has_a_process_that_spins", "test_of_which_one_case_is_listed[0]")
    }, output
    assert (
        "of processor time, where a quick test may take 2.0 s. Make it smaller" in output and "tests/slow.txt" in output
    )


@pytest.mark.slow
@pytest.mark.always
def test_long_tests_are_listed_by_their_longest_case(tmp_path):
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_it.py").write_text(
        TESTS.replace("2.3", "0.3")
        .replace("def test_of_no_time", "@pytest.mark.parametrize('case', range(3))\ndef test_of_no_time")
        .replace("time():", "time(case):")
    )
    (tmp_path / "long_to_import.py").write_text("")
    (tmp_path / "slow.txt").write_text(
        "9.00 test_it.py::test_that_is_listed\n8.00 test_it.py::test_of_no_time\n7.00 test_other.py::test_is_not_run\n"
    )
    output_of(tmp_path, "--measure-slow", "0.25", "-k", "not imports", SPARRING_NO_SKIPS="", SPARRING_ROTATION="")
    lines = [line.split() for line in (tmp_path / "slow.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == ["7.00", "test_other.py::test_is_not_run"]
    assert {name for _, name in lines[1:]} == {
        f"test_it.py::{name}"
        for name in (
            "test_spins",
            "test_has_a_process_that_spins",
            "test_that_is_listed",
            "test_of_which_one_case_is_listed",
        )
    }
    assert all(0.25 < float(seconds) < 2.0 for seconds, _ in lines[1:])
    assert [float(seconds) for seconds, _ in lines] == sorted((float(seconds) for seconds, _ in lines), reverse=True)


TURNS = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("case", range(40))
def test_slow(case):
    assert case != 3

@pytest.mark.slow
@pytest.mark.always
def test_always():
    pass

def test_quick():
    pass
"""


@pytest.mark.slow
@pytest.mark.always
def test_slow_tests_take_turns_and_a_failure_prints_how_to_repeat_it(tmp_path):
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_it.py").write_text(TURNS)
    tests_run, repeats = [], []
    for commit in ("1a2b30", "1a2b31", "1a2b32"):
        output = output_of(tmp_path, "-v", "-rA", SPARRING_ROTATION=f"{commit}/3")
        names = {line.split()[1] for line in output.splitlines() if line.startswith(("PASSED ", "FAILED "))}
        assert {"test_it.py::test_always", "test_it.py::test_quick"} <= names, output
        tests_run += [name for name in names if "test_slow" in name]
        repeats += [line for line in output.splitlines() if line.startswith(".venv/bin/python -m pytest ")]
    assert len(tests_run) == len(set(tests_run)) == 40
    assert repeats == [".venv/bin/python -m pytest 'test_it.py::test_slow[3]'"]
    assert "SPARRING_ROTATION='main/5' is no COMMIT/N" in output_of(tmp_path, SPARRING_ROTATION="main/5")


def test_every_part_of_the_rotation_has_its_turn(monkeypatch):
    places = []
    for commit in range(0x1A2B30, 0x1A2B35):
        monkeypatch.setenv("SPARRING_ROTATION", f"{commit:x}/7")
        places += [*conftest.places_of(5)(1, 101)]
    assert sorted(places) == list(range(1, 101))
    monkeypatch.delenv("SPARRING_ROTATION")
    assert (
        [*conftest.places_of(5)(1, 20)] == [1, 6, 11, 16]
        and [*conftest.places_of(1)(3, 6)] == [3, 4, 5]
        and [*conftest.places_of(5)(1, 40, 3)] == [1, 16, 31]
    )


def test_every_listed_test_exists():
    """A line with the name of a removed test has no effect, so it must be deleted."""
    for name in conftest.listed():
        path, _, test = name.partition("[")[0].partition("::")
        text = (CONFTEST.parents[1] / path).read_text(encoding="utf-8")
        assert re.search(rf"\b{test.split('::')[0]}\b", text), name
