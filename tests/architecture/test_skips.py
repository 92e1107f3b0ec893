"""A skipped test counts as failed if `make` has installed everything that tests need."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = """
import pytest

def test_skips():
    pytest.skip("no model")

@pytest.mark.skipif(True, reason="platform: no /proc")
def test_of_another_platform():
    pass

@pytest.mark.xfail
def test_is_known_to_fail():
    assert False
"""


@pytest.mark.slow
@pytest.mark.parametrize(("forbidden", "failed"), [("1", {"test_a.py::test_skips", "test_b.py"}), ("", set())])
def test_a_skip_fails_if_skips_are_forbidden(tmp_path, forbidden, failed):
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_a.py").write_text(TESTS)
    (tmp_path / "test_b.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    options = ["-q", "-rfE", "--import-mode=importlib", "--continue-on-collection-errors"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    environment = {**os.environ, "SPARRING_NO_SKIPS": forbidden}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    names = {line.split()[1] for line in process.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))}
    assert names == failed, process.stdout
    assert (process.returncode == 0) == (not forbidden)
