"""How a verb ends when something fails: one line, whatever it was.

SPARRING_DEBUG=1 shows where it came from.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparring.errors import DEBUG, RunError, SparringError

LONGEST = 4000  # characters of a message


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the disk, the network or the memory refuses into an error of the run.

    Raises:
        RunError: a file or folder cannot be read or written, or the memory is full.
        GameError: an environment of one's own lacks what is asked of it.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read our output has gone: no error
    except OSError as error:
        from sparring.system.files import disk_error

        raise disk_error(error) from error
    except AttributeError as error:
        from sparring.environments.own import lacking_error

        raise lacking_error(error) or error from error
    except (MemoryError, RuntimeError) as error:
        if not _is_full(error):
            raise
        advice = (
            "lower rollout.games_per_step, learner.micro_tokens or the sizes of model and games"
        )
        raise RunError(f"The memory is full ({_line(error, 200)}); {advice}.") from error


def _is_full(error: Exception) -> bool:
    """Return whether an error says that there is no memory left.

    Python's, numpy's, or torch's of a CPU or GPU.
    """
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def message_of(error: Exception) -> str:
    """Return the line that tells a user of an error.

    With SPARRING_DEBUG=1 the trace comes before it, on the error stream.
    """
    if os.environ.get(DEBUG, "") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, SparringError):
        return f"error: {_line(error, LONGEST)}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    said = f"{type(error).__name__}: {_line(error, 400)}".rstrip(": ")
    return (
        f"error: something unexpected failed{where}: {said}. This is a fault of Sparring or of a "
        f"plug-in. {DEBUG}=1 shows the whole trace; please report it with the command."
    )


def _line(error: Exception, limit: int) -> str:
    """Return what an error says on one line of limited length."""
    text = " ".join(str(error).split())
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def let_go() -> None:
    """Write out what was printed; where nobody reads it any more, drop it without a word."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # a closed pipe, or a full disk that the output goes to
            _drop(stream)


def _drop(stream: Any) -> None:
    """Let what is left of a stream go nowhere.

    The end of the program does not stumble over it then.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
