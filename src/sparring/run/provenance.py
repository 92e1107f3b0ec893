"""provenance.json: where and how each start of a run happened.

Only this file depends on the machine and the date. Configuration, seed and code determine the rest.

    {"starts": [{"date": "2026-11-22T04:10:11+00:00", "command": "sparring train demo",
    "after_step": 0, "commit": ..., "replies": "own bits", ...}]}

``replies`` says how much a reply depends on the other prompts in its batch. "own bits": not at all;
a reply is the same in any batch. "within 1e-5": log-probabilities differ by up to 1e-5, ids rarely.
``decoding`` names the code that sampled replies: "compiled", or "torch" with the reason
(``models/forward_pass.py``). A resumed run that samples with other code gets other last
digits, and prints a warning. ``measured`` names the weights that evaluation measures: "EMA
weights", "live weights" or a mixture of members.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from sparring.config.plugins import outside
from sparring.core import version
from sparring.core.errors import quoted
from sparring.core.files import parse_json, write_json_atomic
from sparring.environments.openspiel import OPENSPIEL

log = logging.getLogger(__name__)
PROVENANCE = "provenance.json"
PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    OPENSPIEL,
    "numpy",
    "safetensors",
    "pyarrow",
    "peft",
)
# git arguments that select code, without pages and results
CODE_PATHSPECS = (
    "--",
    ":/",
    ":(top,exclude)docs",
    ":(top,exclude)benchmarks/results",
    ":(top,exclude)*.md",
)


def add_start(
    path: Path,
    command: Sequence[str],
    *,
    after_step: int,
    invariant: bool,
    decoding: str,
    measured_weights: str,
) -> None:
    """Add a start to provenance.json, and warn if other code than before computes the replies.

    Unreadable entries of earlier starts are removed.

    Args:
        path: the run folder, locked by the caller.
        command: words of the command line, the program's name first.
        after_step: number of steps finished before this start.
        invariant: whether a reply has exactly the same numbers in any batch.
        decoding: the code that computes replies, in words.
        measured_weights: the weights that evaluation measures, from
            ``config.checks.measured_weights``.
    """
    earlier_starts = starts(path)
    # the earlier starts that finished a step
    starts_with_steps = [
        entry
        for entry in earlier_starts
        if isinstance(step := entry.get("after_step"), int) and step < after_step
    ]
    earlier_decoding = starts_with_steps[-1].get("decoding") if starts_with_steps else None
    if isinstance(earlier_decoding, str) and _decoders(earlier_decoding) != _decoders(decoding):
        log.warning(
            "%s: replies were computed by %s up to step %d, and by %s from here on. Their last "
            "digits differ, so the run's numbers change. To keep them, resume where replies "
            "are computed as before (CC names the C compiler).",
            path,
            quoted(earlier_decoding),
            after_step,
            quoted(decoding),
        )
    start = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join([Path(command[0]).name, *command[1:]]),
        "after_step": after_step,
        "commit": code_commit(),
        "replies": "own bits" if invariant else "within 1e-5",
        "decoding": decoding,
        "measured": measured_weights,
        "host": socket.gethostname(),
        "machine": {
            "kind": platform.machine(),
            "system": platform.system(),
            "cores": os.cpu_count(),
        },
        "versions": {"sparring": version(), "python": platform.python_version(), **versions()},
        "plugins": outside.loaded_modules(),
    }
    write_json_atomic(path / PROVENANCE, {"starts": [*earlier_starts, start]})


def _decoders(decoding: str) -> set[str]:
    return set(re.findall(r"(?:^|, )(compiled|torch|vllm|openai)\b", decoding))


def starts(path: Path) -> list[dict[str, Any]]:
    """Return the starts in a run folder's provenance, oldest first; empty without the file."""
    try:
        return starts_in((path / PROVENANCE).read_bytes())
    except OSError:
        return []


def starts_in(data: bytes) -> list[dict[str, Any]]:
    """Return the starts in the content of provenance.json; empty if it is damaged."""
    try:
        items = parse_json(data)["starts"]
    except (ValueError, LookupError, TypeError):
        return []
    return [start for start in items if isinstance(start, dict)] if isinstance(items, list) else []


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that affect figures."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    versions_by_package = {}
    for name in PACKAGES:
        try:
            versions_by_package[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions_by_package


def code_commit() -> str | None:
    """Return the git commit of this code, plus "-dirty" if files changed; None without git."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        process = subprocess.run(
            ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=10
        )
        return process.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("rev-parse", "HEAD") + (
            "-dirty"
            if git("status", "--porcelain", "--untracked-files=no", *CODE_PATHSPECS)
            else ""
        )
    except (OSError, subprocess.SubprocessError):
        return None


def this_command() -> list[str]:
    """Return the words of this process's command line."""
    return ["sparring", *sys.argv[1:]]
