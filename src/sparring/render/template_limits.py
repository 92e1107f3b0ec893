"""Chat templates of strangers: what they may take while they are rendered.

They are run in jinja's sandbox, which sets no limit.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sparring.errors import ModelError

SECONDS = 5.0  # that rendering a probe may take; it takes milliseconds
MEMORY = 256 << 20  # bytes that it may take
TEMPLATE = "<template>"  # name of the file that jinja gives the code of a template
LARGEST = 100_000  # whole number written in a template
MOST_CHARACTERS = 1 << 20  # of a template
_WIDE = re.compile(r"[%{][^%{}\s]{0,8}\d{5,}")  # a format that pads to so many characters


def check_template(template: str) -> None:
    """Refuse what no chat template needs and what no clock can stop.

    Powers, long repetitions, very wide formats.

    Raises:
        ModelError: the template has one of them.
    """
    if len(template) > MOST_CHARACTERS:
        raise _refused(f"it has {len(template)} characters")
    environment = ImmutableSandboxedEnvironment(extensions=[loopcontrols])
    try:
        tree = environment.parse(re.sub(r"\{%-?\+?\s*(end)?generation\s*-?%\}", "", template))
    except (TemplateError, RecursionError) as error:
        raise _refused(f"it cannot be read: {error}") from None
    for node in tree.find_all((nodes.Pow, nodes.Mul, nodes.Const)):
        if isinstance(node, nodes.Pow):
            raise _refused(f"line {node.lineno} has a power")
        if isinstance(node, nodes.Mul) and next(iter(node.find_all(nodes.Mul)), None) is not None:
            raise _refused(f"line {node.lineno} multiplies more than once")
        if isinstance(node, nodes.Const):
            _check_constant(node)


def _check_constant(node: nodes.Const) -> None:
    """Refuse a constant that makes something enormous.

    Raises:
        ModelError: it does.
    """
    value: Any = node.value
    if isinstance(value, int) and abs(value) > LARGEST:
        raise _refused(f"line {node.lineno} has a number beyond {LARGEST}")
    if isinstance(value, str) and _WIDE.search(value):
        raise _refused(f"line {node.lineno} has a very wide format")


def _refused(why: str) -> ModelError:
    """Return the error for a template that is not run."""
    return ModelError(
        f"The chat template is not run: {why}. Write renderer.template=chatml, or another template."
    )


@contextlib.contextmanager
def limited(seconds: float = SECONDS, memory: int = MEMORY) -> Iterator[None]:
    """Stop what runs inside after so many seconds, or once it has taken so much memory.

    Looked at between lines of Python.

    Raises:
        ModelError: it was stopped.
    """
    end, most, before = time.monotonic() + seconds, _resident() + memory, sys.gettrace()

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        """Look at clock and memory at every call, and at every line of a template."""
        if time.monotonic() > end:
            raise _refused(f"rendering a few words takes longer than {seconds:g} seconds")
        if _resident() > most:
            raise _refused(f"rendering a few words takes more than {memory >> 20} MiB")
        return watch if frame.f_code.co_filename == TEMPLATE else None

    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(before)


def _resident() -> int:
    """Return the bytes that this process holds in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return 0
