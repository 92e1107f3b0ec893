"""Text of others is printed as plain text: escape codes and markup have no effect in the terminal."""

import io
import logging
import sys
from pathlib import Path

import pytest
from rich.table import Table
from typer.testing import CliRunner

import sparring
from sparring import cli
from sparring.cli.text import PlainFormatter, escape_controls, say, wrap_to_terminal
from sparring.config import resolve
from sparring.config.recipe import load_recipe
from sparring.core.foreign_text import in_words
from sparring.engine.local import LocalEngine
from sparring.play.players.base import Reply
from sparring.report.progress import ProgressLine
from sparring.report.terminal import PlainConsole

TITLE = "\x1b]0;owned\x07"  # an escape code that sets the window's title
TINY = [
    "steps=1",
    "rollout.games_per_step=8",
    "model.hidden_size=16",
    "model.layers=1",
    "threads=1",
    "evaluation.exact=false",
]


@pytest.mark.parametrize(
    "code", ["\x1b[31m", TITLE, "\x9b31m", "\r", "\b", "\x00", "\x7f", "\u202e", "\u2066", "\u2028", "\ud800"]
)
def test_control_codes_are_printed_as_escapes(code):
    text = escape_controls(f"a{code}b")
    assert text.isprintable() and text.startswith("a\\") and text.endswith("b")


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "Größe 大小", "می‌خواهم", "👩‍🚀"])
def test_ordinary_text_is_not_changed(text):
    assert escape_controls(text) == text


def test_the_console_prints_long_errors_and_codes(monkeypatch):
    assert escape_controls("a\nb\t", lines=False) == "a\\nb\\t"
    folder = Path(sparring.__file__).parent
    files = [path for path in folder.rglob("*.py") if path.name != "terminal.py"]
    assert not [path.name for path in files if "rich.console import Console" in path.read_text(encoding="utf-8")]

    class Stream(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "40")
    names = ", ".join(f"mars/ablations/name-{index}" for index in range(20))
    lines = wrap_to_terminal(f"error: Known: {names}", Stream()).splitlines()
    assert max(map(len, lines)) < 40 and " ".join(lines) == f"error: Known: {names}"
    assert wrap_to_terminal(names, io.StringIO()) == names


def test_a_table_prints_markup_as_text():
    output = io.StringIO()
    console = PlainConsole(file=output, width=100)
    table = Table("[bold]head", title=f"[/b]{TITLE}")
    table.add_row(f"[red]cell[/] :smile: {TITLE}")
    console.print(table)
    console.print(f"[link=http://127.0.0.1]line {TITLE}")
    text = output.getvalue()
    for expected_text in (
        "[bold]head",
        "[/b]\\x1b]0;owned",
        "[red]cell[/] :smile: \\x1b]0;owned",
        "[link=http://127.0.0.1]line \\x1b",
    ):
        assert expected_text in text, text
    assert "\x1b" not in text and "\x07" not in text


@pytest.mark.parametrize("terminal", [True, False])
def test_the_first_line_of_a_run_prints_markup_in_its_path_as_text(terminal):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    stream = Stream()
    with ProgressLine(resolve(load_recipe("kuhn-tiny")), Path(f"[/b]x{TITLE}"), stream=stream):
        pass
    assert "[/b]x\\x1b]0;owned" in stream.getvalue() and TITLE not in stream.getvalue()


def test_errors_and_logs_print_codes_as_text(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sparring", "report", f"nowhere{TITLE}"])
    with pytest.raises(SystemExit):
        cli.main()
    error = capsys.readouterr().err
    assert "nowhere\\x1b]0;owned\\x07" in error and "\x1b" not in error
    record = logging.LogRecord("x", logging.WARNING, "x", 1, "said %s", (TITLE,), None)
    assert PlainFormatter("%(levelname)s: %(message)s").format(record) == "WARNING: said \\x1b]0;owned\\x07"
    say(TITLE, file=sys.stderr)
    assert capsys.readouterr().err == "\\x1b]0;owned\\x07\n"


def test_play_prints_codes_in_replies_as_text(tmp_path, monkeypatch):
    call = CliRunner().invoke
    run = str(tmp_path / "run")
    assert call(cli.app, ["train", "kuhn-tiny", *TINY, "--run", run]).exit_code == 0

    class PlayerWithCodes:
        name, renderer = "rogue", None

        def act(self, turns):
            return [Reply(text=TITLE) for _ in turns]

    monkeypatch.setattr(LocalEngine, "agent", lambda self, name: PlayerWithCodes())
    outcome = call(cli.app, ["play", run, "--seat", "1"], input="pass\n" * 9)
    assert outcome.exit_code == 0, outcome.output
    assert "owned" in outcome.output and "\x1b" not in outcome.output and "\x07" not in outcome.output


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0.2, "12 seconds"), (1.0, "1 minute"), (1.6, "2 minutes"), (200, "3.3 hours"), (66000, "1,100 hours")],
)
def test_durations_in_words(minutes, words):
    assert in_words(minutes) == words
