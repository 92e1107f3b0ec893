"""Writes files atomically: temporary file, fsync, rename, fsync of the folder."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import socket
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sparring.core.errors import RunError, quoted

TEMPORARY = ".tmp-"  # names of unfinished files and folders start with this


def cache_folder() -> Path:
    """Return the cache folder, for converted models and responses of endpoints."""
    return Path(os.environ.get("SPARRING_CACHE") or Path.home() / ".cache" / "sparring")


def disk_error(error: OSError, path: Path | None = None) -> RunError:
    """Turn an operating system error into a RunError that says what failed and what to do.

    Args:
        error: error of the operating system.
        path: the file that was written; None: the path in the error.
    """
    name = path or error.filename or "a file or connection"
    name_text = str(name)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunError(
            f"The disk is full: {name} could not be written. Free some space and continue with "
            "--resume."
        )
    cause = error.strerror or str(error) or type(error).__name__
    if path is not None and error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return RunError(f"{name} cannot be written: {cause}. Choose another folder with --run.")
    error_path = (
        f" ({quoted(str(error.filename))})"
        if path is not None and error.filename not in (None, str(path))
        else ""
    )
    return RunError(
        f"{name_text if len(name_text) <= 300 else quoted(name_text)} cannot "
        f"be {'written' if path is not None else 'used'}: {cause}{error_path}.{_advice(error)}"
    )


def _advice(error: OSError) -> str:
    advice = {
        errno.EIO: "The disk is failing; choose a folder on another disk.",
        errno.EFBIG: (
            "The file would exceed the size limit (ulimit -f); raise the limit or choose another "
            "file system."
        ),
        errno.ENAMETOOLONG: "Write a shorter name.",
        errno.EISDIR: "A folder is where a file should be; name a file.",
        errno.ENOTDIR: "A file is where a folder should be; name another folder.",
        errno.ENOENT: "Create its folder, or name another path.",
        errno.EMFILE: "Too many files are open (ulimit -n); raise the limit.",
        errno.ELOOP: "Symbolic links form a circle; name another path.",
    }
    return f" {advice[error.errno]}" if error.errno in advice else ""


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn operating system errors into errors with advice.

    Raises:
        RunError: ``path`` cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def check_regular_files(folder: Path, *, links: bool = False) -> None:
    """Check that a folder holds only regular files and folders.

    Reading such a folder cannot hang, and writing cannot leave it.

    Args:
        folder: the folder to check.
        links: whether links may lead out of the folder; allow this only if it is only read.

    Raises:
        RunError: the folder has a link to another place, a pipe, a socket or a device.
    """
    real_path = os.path.realpath(folder)
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *files)):
            try:
                mode = (path.stat() if links else path.lstat()).st_mode
            except FileNotFoundError:
                continue  # a training process has removed it
            if stat.S_ISLNK(mode) and not Path(os.path.realpath(path)).is_relative_to(real_path):
                raise RunError(
                    f"{path} is a link that leads out of {folder}. If you trust the folder, "
                    "replace the link by its target."
                )
            if not (stat.S_ISLNK(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise RunError(
                    f"{path} is a pipe, a socket or a device, which a run does not need. Remove it."
                )


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def machine_bytes() -> int:
    """Return the memory of this machine in bytes; a run reads no larger file."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """Write a file so that readers see either the old or the new contents.

    Raises:
        RunError: the disk is full, not writable or failing; no partial file stays.
    """
    temporary_path = _temporary_path(path, os.getpid())
    with disk_errors(path):
        # remove unfinished files of processes of this machine that have ended
        for leftover in path.parent.glob(glob.escape(_temporary_path(path, "").name[:-1]) + "*~"):
            pid = leftover.name.rpartition("-")[2][:-1]
            if pid.isdigit() and not _is_alive(int(pid)):
                leftover.unlink(missing_ok=True)
        try:
            write_synced(temporary_path, data)
            os.replace(temporary_path, path)
            sync_folder(path.parent)
        finally:
            temporary_path.unlink(missing_ok=True)


def _temporary_path(path: Path, writer: int | str) -> Path:
    """Return a temporary path, unique per writer, that patterns such as *.parquet do not match."""
    return path.with_name(
        f"{TEMPORARY}{path.name}.{zlib.crc32(socket.gethostname().encode()):08x}-{writer}~"
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def write_json_atomic(path: Path, value: Any) -> None:
    """Write a JSON file atomically, with sorted keys."""
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


def link_or_copy(source: Path, target: Path) -> bool:
    """Make ``target`` a hard link to ``source``, or a copy where links do not work.

    Returns:
        Whether ``source`` exists.
    """
    try:
        os.link(source, target)
    except FileNotFoundError:
        return False
    except OSError:  # the file system allows no further link
        shutil.copyfile(source, target)
    return True


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file as hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 digest of bytes as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
