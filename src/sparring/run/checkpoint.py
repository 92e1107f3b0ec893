"""Checkpoints: a folder per step, its manifest of digests written last, renamed into place as a whole.

Layout: ``checkpoints/step_000040/`` holds the engine's files, ``state.json`` and ``manifest.json``. What has no manifest,
or files that differ from it, is not a checkpoint; the one before is used then, and a note says so. Only saving changes
anything on the disk, so a run folder may be read while its trainer, which holds the lock, writes into it.
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
from sparring.ops.files import TEMPORARY, disk_errors, sha256_hex, sync_files, sync_folder, write_synced

log = logging.getLogger(__name__)
FORMAT = 1
STATE, MANIFEST = "state.json", "manifest.json"
_ASIDE = ".old"  # ending of a checkpoint that gives way to another of the same step; readable until that one is in its place
_NAME = re.compile(rf"step_([0-9]{{6,}})({re.escape(_ASIDE)})?")


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
    contents = {**files, STATE: json.dumps(state, sort_keys=True).encode()}
    manifest = {"format": FORMAT, "step": step, "files": {name: [len(data), sha256_hex(data)] for name, data in contents.items()}}
    with disk_errors(final):
        root.mkdir(exist_ok=True)
        for leftover in root.glob(f"{TEMPORARY}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            temporary.mkdir()
            for name, data in contents.items():
                write_synced(temporary / name, data)
            write_synced(temporary / MANIFEST, json.dumps(manifest, sort_keys=True).encode())
            sync_folder(temporary)
            sync_files(folder.glob("*.jsonl"))  # the figures that this checkpoint vouches for
            _put_in_place(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    _prune(root, step, keep)
    return final


def _put_in_place(temporary: Path, final: Path) -> None:
    """Rename a whole checkpoint to its name; one that is there steps aside, where it can still be read."""
    if final.exists():
        aside = final.with_name(final.name + _ASIDE)
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(final, aside)
    os.rename(temporary, final)
    sync_folder(final.parent)


def _prune(root: Path, step: int, keep: int) -> None:
    """Remove all but the ``keep`` newest checkpoints up to the step just saved.

    Later ones were passed over as damaged when the run went on from an earlier step, and are removed as well.
    """
    found = _found(root)
    kept = [path for number, path in found if number <= step and not path.name.endswith(_ASIDE)][-keep:]
    for _, path in found:
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def load_latest(folder: Path) -> Checkpoint | None:
    """Return the newest good checkpoint of a run folder, or None if there has never been one.

    Raises:
        CheckpointError: there are checkpoints, but every one of them is damaged.
    """
    root = folder / "checkpoints"
    notes: list[str] = []
    for step, path in reversed(_found(root)):
        damage = _damage(path)
        if damage is None:
            return Checkpoint(step=step, path=path, state=json.loads((path / STATE).read_bytes()), notes=tuple(notes))
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
        known = ", ".join(map(str, steps(folder))) or "none"
        raise CheckpointError(f"Checkpoint {path} cannot be used: {damage}. Steps to be had: {known}.")
    return Checkpoint(step=step, path=path, state=json.loads((path / STATE).read_bytes()))


def steps(folder: Path) -> list[int]:
    """Return the steps of all checkpoints of a run folder, in order, damaged ones included."""
    return sorted({step for step, _ in _found(folder / "checkpoints")})


def _found(root: Path) -> list[tuple[int, Path]]:
    """Return (step, folder) of everything that is named like a checkpoint, oldest first, one set aside before its heir."""
    entries = root.iterdir() if root.is_dir() else ()
    found = [(int(match[1]), match[2] is None, path) for path in entries if (match := _NAME.fullmatch(path.name))]
    return [(step, path) for step, _, path in sorted(found)]


def _damage(path: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            return f"its format is {manifest['format']}, not {FORMAT}"
        if f"step_{manifest['step']:06d}" != path.name.removesuffix(_ASIDE):
            return f"its manifest is of step {manifest['step']}"
        for name, (size, digest) in {STATE: manifest["files"][STATE], **manifest["files"]}.items():
            data = (path / name).read_bytes()
            if len(data) != size or sha256_hex(data) != digest:
                return f"{name} has changed"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be read: {error!r}"
    return None
