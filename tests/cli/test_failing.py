"""Whatever fails, a user sees one line; SPARRING_DEBUG=1 shows the trace; nothing is hidden from tests that call the application."""

import errno
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sparring import cli
from sparring.cli.verbs import message_of
from sparring.core import files
from sparring.core.errors import ConfigError, RunError, SparringError
from sparring.core.files import disk_error, disk_errors

QUICK = ["steps=2", "rollout.games_per_step=8", "model.hidden_size=16", "model.layers=1", "evaluation.exact=false", "threads=1"]
LONG = "n" * 300
COMMAND = [sys.executable, "-c", "from sparring.cli import main; main()"]


def call(*arguments):
    """Return the outcome of a command."""
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("failing") / "run"
    outcome = call("train", "kuhn-tiny", *QUICK, "--run", path)
    assert outcome.exit_code == 0, outcome.output
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "{run}", "--svg", "{tmp}/x/y/z.svg"], ["x/y/z.svg", "No such file"]),
        (["report", "{run}", "--svg", "{tmp}/file/z.svg"], ["file/z.svg", "Not a directory"]),
        (["report", "{run}", "--svg", "{tmp}"], ["directory"]),
        (["report", "{run}", "--svg", "{tmp}/" + LONG], ["too long"]),
        (["report", "{tmp}/" + LONG], ["too long"]),
        (["train", "kuhn-tiny", *QUICK, "--run", "/proc/x"], ["/proc/x"]),
        (["train", "kuhn-tiny", *QUICK, "--run", "{tmp}/file/x"], ["file/x", "Not a directory"]),
        (["train", "kuhn-tiny", *QUICK, "--run", "{tmp}/" + LONG], ["too long"]),
        (["train", "--resume", "--run", "{tmp}/" + LONG], ["too long"]),
        (["train", "{tmp}/" + LONG + ".yaml"], ["nnn"]),
        (["train", "{tmp}/folder.yaml"], ["folder.yaml"]),
        (["train", "{tmp}/loop.yaml"], ["loop.yaml"]),
        (["evaluate", "{tmp}/" + LONG], ["too long"]),
        (["evaluate", "{run}", "--suite", "{tmp}/folder.yaml"], ["folder.yaml", "directory"]),
        (["evaluate", "{run}", "--suite", "{tmp}/" + LONG + ".yaml"], ["too long"]),
        (["evaluate", "{run}", "--suite", "{tmp}/latin.yaml"], ["latin.yaml", "UTF-8"]),
        (["play", "{tmp}/" + LONG], ["too long"]),
        (["export", "{run}", "{tmp}/file/x"], ["file/x"]),
        (["export", "{run}", "{tmp}/" + LONG], ["too long"]),
        (["export", "{tmp}/" + LONG, "{tmp}/new"], ["too long"]),
        (["credit", "compare", "--policy", "{tmp}/" + LONG], ["nnn"]),
        (["explain", LONG], ["nnn"]),
        (["list", LONG], ["nnn"]),
    ],
    ids=lambda value: " ".join(value)[:60],
)
def test_what_the_disk_refuses_is_one_line_with_the_path(arguments, words, trained, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"rows: \xff")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    outcome = call(*(argument.replace("{tmp}", str(tmp_path)).replace("{run}", str(trained)) for argument in arguments))
    assert isinstance(outcome.exception, SparringError), repr(outcome.exception)
    said = str(outcome.exception)
    assert all(word in said for word in words), said
    assert "\n" not in said and len(said) < 900


CODES = ["EIO", "EFBIG", "ENAMETOOLONG", "EISDIR", "ENOENT", "ENOTDIR", "ENOSPC", "EDQUOT", "EACCES", "EROFS", "EPERM", "EBUSY", "EMFILE"]


@pytest.mark.parametrize("code", [*CODES, "ELOOP", "ESTALE", "ETIMEDOUT"])
def test_every_error_of_the_disk_has_path_and_cause(code, tmp_path):
    number = getattr(errno, code)
    with pytest.raises(RunError) as caught, disk_errors(tmp_path / "x"):
        raise OSError(number, os.strerror(number), str(tmp_path / "x"))
    assert str(tmp_path / "x") in str(caught.value)
    assert os.strerror(number) in str(caught.value) or "full" in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert "a file or connection cannot be used" in str(disk_error(OSError("odd")))


@pytest.mark.parametrize("code", ["EIO", "EFBIG"])
def test_a_failing_disk_stops_training_with_one_line(code, tmp_path, monkeypatch):
    number = getattr(errno, code)

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "fsync", fail)
    outcome = call("train", "kuhn-tiny", *QUICK, "--run", tmp_path / "run")
    assert isinstance(outcome.exception, RunError), repr(outcome.exception)
    assert os.strerror(number) in str(outcome.exception) and str(tmp_path / "run") in str(outcome.exception)


def test_full_memory_is_one_line(monkeypatch, tmp_path):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 9.00 EiB")

    monkeypatch.setattr("sparring.api.runs.LocalEngine", full)
    outcome = call("train", "kuhn-tiny", *QUICK, "--run", tmp_path / "run")
    assert isinstance(outcome.exception, RunError) and "The memory is full (Unable to allocate 9.00 EiB)" in str(outcome.exception)


def test_an_unexpected_error_reaches_tests_as_it_is(monkeypatch):
    monkeypatch.setattr("sparring.cli.explain.explanation", lambda _: 1 / 0)
    assert isinstance(call("explain", "mars").exception, ZeroDivisionError)


@pytest.fixture
def broken(monkeypatch):
    """Let `sparring explain mars` meet a fault of ours."""
    monkeypatch.setattr("sparring.cli.explain.explanation", lambda _: {}["no such\nkey"])
    monkeypatch.setattr(sys, "argv", ["sparring", "explain", "mars"])


@pytest.mark.parametrize("debug", ["", "0", "1"])
def test_an_unexpected_error_is_one_line_and_debugging_shows_the_trace(broken, debug, monkeypatch, capfd):
    monkeypatch.setenv("SPARRING_DEBUG", debug)
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    lines = capfd.readouterr().err.splitlines()
    assert exit_.value.code == 1
    assert lines[-1].startswith("error: something unexpected failed at test_failing.py:")
    assert "KeyError" in lines[-1] and "SPARRING_DEBUG=1" in lines[-1] and "report" in lines[-1]
    assert (len(lines) == 1) == (debug != "1")
    assert ("Traceback (most recent call last):" in lines) == (debug == "1")


def test_messages_are_one_line_of_limited_length(monkeypatch):
    monkeypatch.delenv("SPARRING_DEBUG", raising=False)
    said = message_of(ConfigError("a\nb" + "x" * 10_000))
    assert said.startswith("error: a b") and "\n" not in said and len(said) < 4100


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["list", "methods"], ["explain", "mars"]])
def test_a_reader_that_goes_away_is_no_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert process.stderr == ""


@pytest.mark.slow
def test_a_limit_of_file_size_stops_training_with_one_line(tmp_path):
    limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 20; exec "$@"', "bash", *COMMAND]
    done = subprocess.run([*limited, "train", "kuhn-tiny", *QUICK, "--run", str(tmp_path / "run")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "File too large" in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
