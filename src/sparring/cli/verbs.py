"""The commands (verbs) of `sparring`, each imported when it is called, and error messages.

`sparring --help` therefore imports no library of models or games. An error prints one line;
with SPARRING_DEBUG=1 also its traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from sparring.config.plugins.guard import CallWatch
from sparring.core.errors import DEBUG, ConfigError, RunError, SparringError

MAX_LENGTH = 4000  # largest number of characters in a message


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn errors of disk, network or memory into a RunError with a message for the user.

    Raises:
        RunError: a file or folder cannot be read or written, or the memory is full.
        GameError: a foreign environment lacks a required attribute.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has closed the pipe; this is no error
    except OSError as error:
        from sparring.core.files import disk_error

        raise disk_error(error) from error
    except AttributeError as error:
        from sparring.environments.foreign import lacking_error

        raise lacking_error(error) or error from error
    except (MemoryError, RuntimeError) as error:
        is_full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        if not is_full and "can't allocate memory" not in str(error):  # torch's text on a CPU
            raise
        advice = (
            "lower rollout.games_per_step, learner.micro_tokens or the sizes of model and games"
        )
        raise RunError(f"The memory is full ({_one_line(error, 200)}); {advice}.") from error


def message_of(error: Exception) -> str:
    """Return the line that reports an error; with SPARRING_DEBUG=1, print the traceback first."""
    if os.environ.get(DEBUG, "") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, SparringError):
        return f"error: {_one_line(error, MAX_LENGTH)}"
    frames = traceback.extract_tb(error.__traceback__)
    location = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = f"{type(error).__name__}: {_one_line(error, 400)}".rstrip(": ")
    return (
        f"error: something unexpected failed{location}: {text}. This is a fault of Sparring or of "
        f"a plug-in. {DEBUG}=1 shows the whole traceback; please report it with the command."
    )


def _one_line(error: Exception, limit: int) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def flush_output() -> None:
    """Flush the output; drop it silently if it cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # the pipe is closed, or the disk of the output is full
            null_file = os.open(os.devnull, os.O_WRONLY)  # Python flushes again at exit
            try:
                os.dup2(null_file, stream.fileno())
            finally:
                os.close(null_file)


VERBS = {  # verb -> its line in --help
    "train": "Train a language model by play.",
    "evaluate": "Measure a policy by exploitability, matches, regret, a league table or a suite.",
    "play": "Play against a policy or a bot in the terminal: ? shows the rules, Ctrl-D leaves.",
    "show": (
        "Show a stored episode: prompts and replies of each seat, legal actions, tokens, credit."
    ),
    "list": "List environments, methods, recipes, suites or metrics.",
    "explain": (
        "Explain a method, game, recipe or metric: what it does, its options and their defaults."
    ),
    "export": "Write a run's policy as a folder that AutoModelForCausalLM.from_pretrained loads.",
    "report": "Write report.html: a run on one page, to attach to a paper.",
    "view": "Look at runs in a browser: curves, replays, league and workers, live.",
    "new": "Write a small package with your own plug-in, its test and a recipe.",
    "doctor": "Check this machine: versions, threads, and a two-second round of training.",
    "replay-unit": "Play a unit of a run's step again in this process, to see its errors.",
    "reproduce": (
        "Run the experiments of a page again, on all cores; write results, tables and verdicts."
    ),
    "credit": "Measure advantage estimators against exact policy gradients.",
    "bridge": "Try the environments of other libraries.",
}
FUNCTIONS = {
    "list": "listing",
    "replay-unit": "replay_unit",
}  # verb -> name of its module and function, if it differs
GROUPS = {"bridge", "credit"}  # verbs whose module is a typer app
LEARN_TIME = "to learn how long a run takes, write: sparring train RECIPE steps=3"
REMOVED = {  # removed verb, or verb and option -> what to write instead
    "scale": f"for a run's memory, write: sparring train RECIPE --dry-run; {LEARN_TIME}.",
    "credit race": "in a clone of the repository, write: sparring reproduce credit-race.",
    "train --assume": f"{LEARN_TIME}.",
    "train --times": f"{LEARN_TIME}.",
}


class Verbs(TyperGroup):
    """The group of all verbs; see ``translate_errors`` for errors of disk, network and memory."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands.update({verb: TyperCommand(verb, help=line) for verb, line in VERBS.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the called verb; return it and its arguments."""
        refuse_removed(args)
        name, command, arguments = super().resolve_command(ctx, args)
        command = command if name is None else command_of(name)
        if name == "train":
            import_module("sparring.cli.train").refuse_dashes(arguments)
        return name, command, arguments

    def invoke(self, ctx: Any) -> Any:
        """Run a verb, and limit the time of its plug-in calls (``CallWatch``)."""
        with translate_errors(), CallWatch():
            return super().invoke(ctx)


def refuse_removed(words: Sequence[str]) -> None:
    """Refuse a verb or option that an earlier version had.

    Raises:
        ConfigError: the words name a removed verb or option.
    """
    verb, *arguments = words or [""]
    options = (f"{verb} {word.partition('=')[0]}" for word in arguments)
    for name in (verb, *options):
        if name in REMOVED:
            raise ConfigError(f"`sparring {name}` was removed in version 0.3; {REMOVED[name]}")


def command_of(verb: str) -> Any:
    """Return the command of a verb."""
    name = FUNCTIONS.get(verb, verb)
    module = import_module(f"sparring.cli.{name}")
    if verb in GROUPS:
        return get_command(module.app)
    function: Callable[..., None] = getattr(module, name)
    app = typer.Typer(add_completion=False)
    app.command(verb)(function)
    return get_command(app)
