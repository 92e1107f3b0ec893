"""Helpers that run commands of `sparring` in this process and check their outcomes."""

from typer.testing import CliRunner

from sparring import cli
from sparring.core.errors import SparringError


def call(*arguments, text=None):
    """Return the outcome of a command; its exception is a SparringError that main() would print as one line."""
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input=text)


def succeed(*arguments, text=None):
    outcome = call(*arguments, text=text)
    assert outcome.exit_code == 0, outcome.output + repr(outcome.exception)
    return outcome


def assert_refused(outcome, message):
    assert isinstance(outcome.exception, SparringError), outcome.output
    assert message in str(outcome.exception) and "\n" not in str(outcome.exception)
