"""Files of a run folder as the viewer opens them: regular ones, and none that lead out of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

Signature = tuple[
    int, int, int
]  # of a file: size, time of its last change (ns), number on the disk


def signature(path: Path) -> Signature | None:
    """Return what changes when a file or folder does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def read_from(path: Path, offset: int) -> tuple[bytes, int]:
    """Return the bytes of a file from an offset on, and the file's number on the disk.

    Raises:
        OSError: there is no such file, or it is a link, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path.name} is no file")
        stream.seek(offset)
        return stream.read(), found.st_ino


def is_own(folder: Path, path: Path) -> bool:
    """Return whether a path, links resolved, is inside a folder."""
    return path.resolve().is_relative_to(folder.resolve())
