"""provenance.json: where and how a run was started, each time.

It stands in no other file: the others are functions of configuration, seed and code.

    {"starts": [{"date": "2026-11-22T04:10:11+00:00", "command": "sparring train demo",
    "after_step": 0, "commit": ..., "replies": "own bits", ...}]}

``replies`` says what holds of replies that are sampled with others beside them, in another order,
or split into other calls: "own bits", they are the same to the last bit; "within 1e-5", their ids
are the same but for rare draws, and log-probabilities are so near. ``decoding`` says what computed
them: "compiled", or "torch" and why (``models/forward_pass.py``). A run that goes on with another
of them goes on to other numbers, and a warning says so. ``measured`` says which weights evaluation
measures: "EMA weights", "live weights" or a mixture of members.
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
# of a repository, what a run depends on: its pages and published results are made by runs
CODE = ("--", ":/", ":(top,exclude)docs", ":(top,exclude)benchmarks/results", ":(top,exclude)*.md")


def note_start(
    path: Path,
    words: Sequence[str],
    *,
    after_step: int,
    invariant: bool,
    decoding: str,
    weights: str,
) -> None:
    """Add a start to a run folder's provenance; warn if replies are now computed in another way.

    What cannot be read of earlier starts is begun anew.

    Args:
        path: the run folder, held by the caller.
        words: of the command line, the program's name first.
        after_step: steps that were done before.
        invariant: whether a reply has the same bits whatever else is sampled.
        decoding: what computes replies, in words.
        weights: that evaluation measures, of ``config.checks.measured_weights``.
    """
    earlier = starts(path)
    # a start after which no checkpoint was written has left no numbers
    counted = [
        one
        for one in earlier
        if isinstance(step := one.get("after_step"), int) and step < after_step
    ]
    before = counted[-1].get("decoding") if counted else None
    if isinstance(before, str) and _ways(before) != _ways(decoding):
        log.warning(
            "%s: replies were computed by %s up to step %d, and are by %s from here on. Their last "
            "bits differ, so the run goes on to other numbers. To keep them, go on where replies "
            "are computed as before (CC names the C compiler).",
            path,
            quoted(before),
            after_step,
            quoted(decoding),
        )
    start = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join([Path(words[0]).name, *words[1:]]),
        "after_step": after_step,
        "commit": code_commit(),
        "replies": "own bits" if invariant else "within 1e-5",
        "decoding": decoding,
        "measured": weights,
        "host": socket.gethostname(),
        "machine": {
            "kind": platform.machine(),
            "system": platform.system(),
            "cores": os.cpu_count(),
        },
        "versions": {"sparring": version(), "python": platform.python_version(), **versions()},
        "plugins": outside.loaded_modules(),
    }
    write_json_atomic(path / PROVENANCE, {"starts": [*earlier, start]})


def _ways(decoding: str) -> set[str]:
    """Return what computes the replies of a run's policies, without the reasons."""
    return set(re.findall(r"(?:^|, )(compiled|torch|vllm|openai)\b", decoding))


def starts(path: Path) -> list[dict[str, Any]]:
    """Return the starts that a run folder's provenance tells of, the first first; or None."""
    try:
        return starts_in((path / PROVENANCE).read_bytes())
    except OSError:
        return []


def starts_in(data: bytes) -> list[dict[str, Any]]:
    """Return the starts that the content of provenance.json tells of; none where it is damaged."""
    try:
        found = parse_json(data)["starts"]
    except (ValueError, LookupError, TypeError):
        return []
    return [start for start in found if isinstance(start, dict)] if isinstance(found, list) else []


def versions() -> dict[str, str]:
    """Return the versions of the packages that figures depend on, of those that are installed."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    """Return them, read once: a process keeps what it has imported."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def code_commit() -> str | None:
    """Return the commit of the repository that this code is followed in, "-dirty" if a followed
    file of its code differs, or None.
    """
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=folder, check=True, capture_output=True, text=True, timeout=10
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("rev-parse", "HEAD") + (
            "-dirty" if git("status", "--porcelain", "--untracked-files=no", *CODE) else ""
        )
    except (OSError, subprocess.SubprocessError):
        return None


def this_command() -> list[str]:
    """Return the words of this process's command line."""
    return ["sparring", *sys.argv[1:]]
