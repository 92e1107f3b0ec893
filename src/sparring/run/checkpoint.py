"""Checkpoints: a folder per step, its manifest of digests written last, renamed into place as a whole.

Layout: ``checkpoints/step_000040/`` holds the engine's files, ``state.json`` and ``manifest.json``. What has no manifest,
or files that differ from it, is not a checkpoint; the one before is used then, and a note says so.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.errors import CheckpointError
from sparring.ops.files import TEMPORARY, disk_errors, sha256_hex, sync_folder, write_synced

log = logging.getLogger(__name__)
FORMAT = 1
_NAME = re.compile(r"step_(\d{6,})$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A checkpoint whose files have been verified, and notes about damaged ones that were passed over."""

    step: int
    path: Path
    state: dict[str, Any]
    notes: tuple[str, ...] = ()


def save(folder: Path, step: int, files: Mapping[str, bytes], state: Mapping[str, Any], *, keep: int) -> Path:
    """Write a checkpoint and remove all but the ``keep`` newest.

    Args:
        folder: the run folder.
        step: steps done.
        files: contents by file name.
        state: JSON-serialisable state of everything that is not in ``files``.
        keep: how many to keep, at least 1.

    Returns:
        The checkpoint's folder.

    Raises:
        RunError: the disk is full or not writable; earlier checkpoints are untouched.
    """
    root = folder / "checkpoints"
    final, temporary = root / f"step_{step:06d}", root / f"{TEMPORARY}step_{step:06d}"
    contents = {**files, "state.json": json.dumps(state, sort_keys=True).encode()}
    manifest = {"format": FORMAT, "step": step, "files": {name: [len(data), sha256_hex(data)] for name, data in contents.items()}}
    with disk_errors(final):
        root.mkdir(exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir()
            for name, data in contents.items():
                write_synced(temporary / name, data)
            write_synced(temporary / "manifest.json", json.dumps(manifest, sort_keys=True).encode())
            sync_folder(temporary)
            if final.exists():
                os.rename(final, root / f"{TEMPORARY}replaced")
            os.rename(temporary, final)
            sync_folder(root)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.rmtree(root / f"{TEMPORARY}replaced", ignore_errors=True)
    for _, old in _found(root)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def load_latest(folder: Path) -> Checkpoint | None:
    """Return the newest good checkpoint of a run folder, or None if there has never been one.

    Raises:
        CheckpointError: there are checkpoints, but every one of them is damaged.
    """
    root = folder / "checkpoints"
    for leftover in root.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    notes: list[str] = []
    for step, path in reversed(_found(root)):
        damage = _damage(path)
        if damage is None:
            return Checkpoint(step=step, path=path, state=json.loads((path / "state.json").read_bytes()), notes=tuple(notes))
        notes.append(f"Checkpoint {path.name} is damaged ({damage}); going back to the one before.")
        log.warning("%s", notes[-1])
    if notes:
        raise CheckpointError(f"No checkpoint in {root} can be read: {' '.join(notes)} Start anew with --overwrite.")
    return None


def load_step(folder: Path, step: int) -> Checkpoint:
    """Return the checkpoint of a step.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    root = folder / "checkpoints"
    path = root / f"step_{step:06d}"
    damage = _damage(path) if path.is_dir() else "it does not exist"
    if damage is not None:
        steps = ", ".join(str(number) for number, _ in _found(root)) or "none"
        raise CheckpointError(f"Checkpoint {path} cannot be used: {damage}. Steps to be had: {steps}.")
    return Checkpoint(step=step, path=path, state=json.loads((path / "state.json").read_bytes()))


def steps(folder: Path) -> list[int]:
    """Return the steps of all checkpoints of a run folder, in order, damaged ones included."""
    return [step for step, _ in _found(folder / "checkpoints")]


def _found(root: Path) -> list[tuple[int, Path]]:
    """Return (step, folder) of everything that is named like a checkpoint, oldest first."""
    entries = root.iterdir() if root.is_dir() else ()
    return sorted((int(match[1]), path) for path in entries if (match := _NAME.match(path.name)))


def _damage(path: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None."""
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
        if manifest["format"] != FORMAT:
            return f"its format is {manifest['format']}, not {FORMAT}"
        for name, (size, digest) in manifest["files"].items():
            data = (path / name).read_bytes()
            if len(data) != size or sha256_hex(data) != digest:
                return f"{name} has changed"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its manifest cannot be read: {error!r}"
    return None
