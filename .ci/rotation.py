"""Decide which cases of the dear checks come up at a commit, by the commit's hash.

`make rotation` prints them all. A case comes up at a commit if the checksum of its name and the
commit's hash add up to a multiple of the number of parts: at one commit in so many, whatever other
cases there are.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_DUE = 3  # exit status, which no error has
TOUCHES_INTEROP = (  # what the bridges to other trainers use
    "src/sparring/methods/credit/",
    "src/sparring/methods/losses/",
    "src/sparring/core/records.py",
    "src/sparring/interop/",
    "tests/interop/",
)


def is_due(name: str, rotation: str) -> bool:
    """Return whether a case comes up.

    Args:
        name: its name, which no other case has.
        rotation: HASH/PARTS, the start of a commit's hash and the number of parts; "" for all.

    Raises:
        ValueError: it is neither.
    """
    if not rotation:
        return True
    commit, _, parts = rotation.partition("/")
    try:
        return (zlib.crc32(name.encode()) + int(commit, 16)) % int(parts) == 0
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"the rotation {rotation!r} is not HASH/PARTS; write 1a2b3c4d/5") from None


def why_interop(rotation: str, changed: Iterable[str] | None) -> str:
    """Return why the bridges to other trainers are tested at a commit, or "" if they are not.

    Args:
        rotation: HASH/PARTS, or "" for everything.
        changed: the files that the commit changes; None where its parent is not here.

    Raises:
        ValueError: the rotation is neither.
    """
    due = is_due("interop", rotation)
    if not rotation:
        return "everything runs"
    if changed is None:
        return "the parent of the commit is not here"
    for file in changed:
        if file.startswith(TOUCHES_INTEROP):
            return f"the commit changes {file}"
    return "it is its turn" if due else ""


def changed_files(commit: str, root: Path = ROOT) -> list[str] | None:
    """Return the files that a commit changes, or None where the commit or its parent is not here.

    What is not committed yet counts as part of the newest commit.
    """
    heads = {_git(root, "rev-parse", "--verify", "--quiet", name) for name in ("HEAD", commit)}
    ends = [f"{commit}^"] if len(heads) == 1 else [f"{commit}^", commit]
    output = _git(root, "diff", "--name-only", *ends, "--")
    return None if output is None else output.splitlines()


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, or None if it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    except OSError:
        return None
    return None if done.returncode else done.stdout


def main() -> None:
    """Print whether the bridges are tested at a commit, and why; exit with `NOT_DUE` if not.

    With names behind the rotation, print those of them that come up.
    """
    rotation, *names = sys.argv[1:]
    if names:
        print(*(name for name in names if is_due(name, rotation)))
        return
    try:
        reason = why_interop(rotation, changed_files(rotation.partition("/")[0]))
    except ValueError as error:
        sys.exit(str(error))
    print(f"interop runs: {reason}" if reason else "interop does not run: it is not its turn")
    sys.exit(0 if reason else NOT_DUE)


if __name__ == "__main__":
    main()
