"""Commands of `sparring` in one process of their own, which costs one start of Python for all of them."""

import json
import subprocess
import sys

import pytest

DRIVER = """
import json, sys
from typer.testing import CliRunner
from sparring.cli import app
said = []
for words, typed in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words, input=typed)
    said.append([done.exit_code, done.stdout, done.output + str(done.exception or "")])
print(json.dumps(said))
"""


@pytest.fixture
def sparring():
    """Return what runs commands, one after the other, and gives what each printed to standard output.

    A command is a list of words, or one with what is typed. They stand in a process that has seen no plug-in of these
    tests; all must succeed.
    """

    def run(*commands, cwd, environment):
        inputs = [command if isinstance(command, tuple) else (command, "") for command in commands]
        done = subprocess.run([sys.executable, "-c", DRIVER, json.dumps(inputs)], cwd=cwd, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        outcomes = json.loads(done.stdout.splitlines()[-1])
        for code, _, everything in outcomes:
            assert code == 0, everything
        return [out for _, out, _ in outcomes]

    return run
