"""The run that another one is to replace: set aside, and back in its place unless the new one has
saved itself.

States of a run folder that is overwritten; each is one rename away from the next:

    the old run         ``.replacing/`` is there while the old run's entries move into it
    old run aside       ``.replaced/`` holds all of them; what lies beside it is the new run's
    the new run         it has a checkpoint; ``.replaced/`` is gone

Whoever holds the folder's lock brings it out of the states between by ``settle``, also after a
kill. So at every instant either the old run is whole on the disk or the new one has a checkpoint.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from sparring.run import checkpoint
from sparring.system.files import TEMPORARY, disk_errors, sync_folder

MOVING, ASIDE = ".replacing", ".replaced"
_GONE = f"{TEMPORARY}replaced"


def is_unsettled(path: Path) -> bool:
    """Return whether a run folder holds anything of a run that is being replaced."""
    return any((path / name).exists() for name in (MOVING, ASIDE, _GONE))


def put_aside(path: Path, staying: Collection[str]) -> None:
    """Move everything in a run folder out of the way of a new run, but for the entries named in
    ``staying``.
    """
    with disk_errors(path):
        (path / MOVING).mkdir()
        for entry in sorted(path.iterdir()):
            if entry.name not in (*staying, MOVING):
                os.rename(entry, path / MOVING / entry.name)
        os.rename(path / MOVING, path / ASIDE)
        sync_folder(path)


def settle(path: Path, staying: Collection[str]) -> bool:
    """Delete the run that is set aside if the new one has a checkpoint; else put it back.

    Return whether it was put back.

    Args:
        path: the run folder, locked by the caller.
        staying: names of the entries that belong to neither run.
    """
    if not is_unsettled(path):
        return False
    with disk_errors(path):
        if (path / ASIDE).exists():
            if checkpoint.steps(path):
                shutil.rmtree(path / _GONE, ignore_errors=True)
                os.rename(path / ASIDE, path / _GONE)
            else:
                clear(path, (*staying, ASIDE))
                os.rename(path / ASIDE, path / MOVING)
            sync_folder(path)
        shutil.rmtree(path / _GONE, ignore_errors=True)
        if not (path / MOVING).exists():
            return False
        for entry in sorted((path / MOVING).iterdir()):
            os.rename(entry, path / entry.name)
        (path / MOVING).rmdir()
        sync_folder(path)
    return True


def clear(path: Path, staying: Collection[str]) -> None:
    """Delete everything in a folder but the entries named in ``staying``."""
    for entry in sorted(path.iterdir()):
        if entry.name in staying:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
