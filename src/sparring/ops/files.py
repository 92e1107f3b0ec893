"""Files that are either whole or absent: temporary file, fsync, rename, fsync of the folder."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sparring.errors import RunError

TEMPORARY = ".tmp-"  # names of unfinished files and folders start with this


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full or unwritable disk into an error that says what to do.

    Raises:
        RunError: there is no space, quota or permission to write ``path``.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = f"The disk is full: {path} could not be written. Free some space and go on with --resume."
            raise RunError(message) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise RunError(f"{path} cannot be written: {error.strerror}. Choose another folder with --run.") from error
        raise


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old contents or the new, whatever happens in between.

    Raises:
        RunError: the disk is full or not writable; nothing is left behind.
    """
    temporary = path.with_name(f"{TEMPORARY}{path.name}~")  # no pattern for whole files, such as *.parquet, may match it
    with disk_errors(path):
        try:
            write_synced(temporary, data)
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_json_atomic(path: Path, value: Any) -> None:
    """Write a JSON file atomically, keys sorted."""
    write_bytes_atomic(path, json.dumps(value, sort_keys=True, indent=2).encode())


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and flush it to the disk."""
    with open(path, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_files(paths: Iterable[Path]) -> None:
    """Flush files that were appended to, so that their contents survive a power cut."""
    for path in paths:
        with open(path, "rb") as stream:
            os.fsync(stream.fileno())


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 digest of bytes as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
