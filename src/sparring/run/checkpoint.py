"""Checkpoints: a folder per step, completed by a manifest of digests, and renamed into place.

Layout: ``checkpoints/step_000040/`` holds the engine's files, ``state.json``, further files of the
run's state, and ``manifest.json``. A snapshot is written once: later checkpoints link to its file,
or copy it where the file system has no hard links. A folder is damaged if its manifest is missing
or its files differ from the manifest. Then the previous checkpoint is used, with a note. Only
``save`` and ``tidy`` change files, and their caller holds the folder's lock. So other processes may
read a run folder at any time. A checkpoint is renamed before its removal, so a kill never leaves
half a checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.core.errors import CheckpointError
from sparring.core.files import (
    TEMPORARY,
    disk_errors,
    file_digest,
    machine_bytes,
    parse_json,
    sync_files,
    sync_folder,
    write_synced,
)
from sparring.core.foreign_text import check_file_name
from sparring.run.state import STATE

log = logging.getLogger(__name__)
FORMAT = 1
MANIFEST = "manifest.json"
# suffix of a checkpoint while a new one of the same step replaces it; still readable
_REPLACED = ".old"
_NAME = re.compile(rf"step_([0-9]{{6,}})({re.escape(_REPLACED)})?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A verified checkpoint, and notes about the damaged ones that were skipped."""

    step: int
    path: Path
    state: dict[str, Any]
    notes: tuple[str, ...] = ()


def save(
    folder: Path,
    step: int,
    write: Callable[[Path], None],
    *,
    keep: int,
    earlier: Path | None = None,
) -> Path:
    """Write a checkpoint and remove all but the ``keep`` newest.

    Args:
        folder: the run folder.
        step: number of finished steps.
        write: writes all files into the given folder; one is ``state.json``, which holds a mapping.
        keep: number of checkpoints to keep, at least 1.
        earlier: a checkpoint's folder. Files that ``write`` has linked from it are not read again.

    Returns:
        The checkpoint's folder.

    Raises:
        RunError: the disk is full or not writable; earlier checkpoints are untouched.
    """
    root = folder / "checkpoints"
    final_path, new_path = root / f"step_{step:06d}", root / f"{TEMPORARY}step_{step:06d}"
    with disk_errors(final_path):
        root.mkdir(exist_ok=True)
        _remove_leftovers(root)
        try:
            new_path.mkdir()
            write(new_path)
            manifest = {"format": FORMAT, "step": step, "files": _file_entries(new_path, earlier)}
            write_synced(new_path / MANIFEST, json.dumps(manifest, sort_keys=True).encode())
            sync_folder(new_path)
            sync_files(folder.glob("*.jsonl"))  # metrics up to this checkpoint
            _rename_into_place(new_path, final_path)
        finally:
            shutil.rmtree(new_path, ignore_errors=True)
    _prune(root, step, keep)
    return final_path


def _file_entries(folder: Path, earlier: Path | None) -> dict[str, list[Any]]:
    """Return [bytes, digest] of every file of a folder by name, after flushing it to the disk."""
    entry_of: dict[tuple[str, int], list[Any]] = {}  # entries by name and inode of the file
    if earlier is not None:
        with contextlib.suppress(
            OSError, ValueError, KeyError, TypeError
        ):  # then all files are read
            files = parse_json((earlier / MANIFEST).read_bytes())["files"]
            entry_of = {(name, (earlier / name).stat().st_ino): files[name] for name in files}
    entries = {}
    for path in sorted(folder.iterdir()):
        entry = entry_of.get((path.name, path.stat().st_ino))
        if entry is None:
            sync_files([path])
            entry = [path.stat().st_size, file_digest(path)]
        entries[check_file_name(path.name)] = entry
    return entries


def _rename_into_place(new_path: Path, final_path: Path) -> None:
    """Rename a new checkpoint to its final name; until then the older one stays readable."""
    if final_path.exists():
        replaced_path = final_path.with_name(final_path.name + _REPLACED)
        if replaced_path.exists():
            _remove(replaced_path)
        os.rename(final_path, replaced_path)
    os.rename(new_path, final_path)
    sync_folder(final_path.parent)


def _prune(root: Path, step: int, keep: int) -> None:
    """Remove all but the ``keep`` newest checkpoints up to the step that was just saved.

    Later checkpoints are damaged, as the run resumed from an earlier step; they are removed too.
    """
    checkpoints = _checkpoints_in(root)
    newest_paths = [
        path
        for path_step, path in checkpoints
        if path_step <= step and not path.name.endswith(_REPLACED)
    ][-keep:]
    for _, path in checkpoints:
        if path not in newest_paths:
            _remove(path)


def _remove(path: Path) -> None:
    renamed_path = path.with_name(f"{TEMPORARY}{path.name}")
    shutil.rmtree(renamed_path, ignore_errors=True)
    with contextlib.suppress(OSError):  # then the next checkpoint removes it
        os.rename(path, renamed_path)
    shutil.rmtree(renamed_path, ignore_errors=True)


def _remove_leftovers(root: Path) -> None:
    for leftover in root.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def tidy(folder: Path, latest: Checkpoint | None, keep: int) -> None:
    """Finish interrupted removals, so that a resumed run has the files of an uninterrupted run.

    Only the holder of the folder's lock may call this.

    Args:
        folder: the run folder.
        latest: the checkpoint that the run resumes from. Later checkpoints are damaged, and stay
            until they are replaced.
        keep: number of checkpoints to keep.
    """
    root = folder / "checkpoints"
    _remove_leftovers(root)
    if latest is not None:
        checkpoints = [(step, path) for step, path in _checkpoints_in(root) if step <= latest.step]
        newest_steps = sorted({step for step, _ in checkpoints})[-keep:]
        for step, path in checkpoints:
            successor = path.with_name(path.name.removesuffix(_REPLACED))
            if path != latest.path and (
                step not in newest_steps or (successor != path and successor.exists())
            ):
                _remove(path)


def load_latest(folder: Path) -> Checkpoint | None:
    """Return the newest good checkpoint of a run folder, or None if the folder has no checkpoint.

    Raises:
        CheckpointError: every checkpoint is damaged.
    """
    root = folder / "checkpoints"
    while True:
        notes: list[str] = []
        entries = _checkpoints_in(root)
        for step, path in reversed(entries):
            try:
                latest = Checkpoint(
                    step=step, path=path, state=_read_state(path), notes=tuple(notes)
                )
            except CheckpointError as error:
                notes.append(
                    f"Checkpoint {path.name} is damaged ({error}); using the checkpoint before it."
                )
            else:
                for note in notes:
                    log.warning("%s", note)
                return latest
        if not notes:
            return None
        if _checkpoints_in(root) == entries:  # no process has saved a checkpoint meanwhile
            raise CheckpointError(
                f"No checkpoint in {root} can be read: {' '.join(notes)} Start anew with "
                "--overwrite."
            )


def describe_latest(folder: Path) -> str:
    """Describe the newest good checkpoint in a sentence."""
    latest = load_latest(folder)
    return (
        f"The checkpoint of step {latest.step} is good: {latest.path}."
        if latest is not None
        else "No checkpoint had been saved."
    )


def load_step(folder: Path, step: int) -> Checkpoint:
    """Return the checkpoint of a step.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
    """
    root = folder / "checkpoints"
    path = root / f"step_{step:06d}"
    try:
        if not path.is_dir():
            raise CheckpointError("it does not exist")
        return Checkpoint(step=step, path=path, state=_read_state(path))
    except CheckpointError as error:
        available = ", ".join(map(str, steps(folder))) or "none"
        raise CheckpointError(
            f"Checkpoint {path} cannot be used: {error}. Available steps: {available}."
        ) from None


def steps(folder: Path) -> list[int]:
    """Return the steps of all checkpoints of a run folder in order, damaged ones included."""
    return sorted({step for step, _ in _checkpoints_in(folder / "checkpoints")})


def _checkpoints_in(root: Path) -> list[tuple[int, Path]]:
    """Return (step, folder) of all checkpoints by step, a replaced one before its successor."""
    entries = root.iterdir() if root.is_dir() else ()
    checkpoints = [
        (int(match[1]), match[2] is None, path)
        for path in entries
        if (match := _NAME.fullmatch(path.name))
    ]
    return [(step, path) for step, _, path in sorted(checkpoints)]


def _read_state(path: Path) -> dict[str, Any]:
    try:
        manifest = parse_json((path / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise CheckpointError(f"its format is {manifest['format']}, not {FORMAT}")
        if f"step_{manifest['step']:06d}" != path.name.removesuffix(_REPLACED):
            raise CheckpointError(f"its manifest is of step {manifest['step']}")
        for name, (size, digest) in {**manifest["files"], STATE: manifest["files"][STATE]}.items():
            file = path / check_file_name(name)
            if file.stat().st_size != size or size > machine_bytes():  # checked before reading
                raise CheckpointError(
                    f"{name} has changed, or is larger than this machine's memory"
                )
            if file_digest(file) != digest:
                raise CheckpointError(f"{name} has changed")
        state: dict[str, Any] = dict(parse_json((path / STATE).read_bytes()))
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"{Path(error.filename).name} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"its manifest cannot be read: {error!r}") from None
    return state
