"""The run folder: creation, opening, locking, and safe overwriting.

Layout: sparring-run.json (marker), config.yaml (resolved, current), changes.jsonl (of config.yaml),
provenance.json, metrics.jsonl, timing.jsonl, health.jsonl, league.jsonl, tensorboard/, episodes/,
credit/, checkpoints/, report.html, played/ (episodes with people), and .replaced/ while a new run
overwrites an old one.

An overwritten run folder passes through these states; one rename leads to the next:

    old run             its entries move into ``.replacing/``
    both runs           ``.replaced/`` holds the old run, and the folder holds the new run
    new run             the new run has a checkpoint, and ``.replaced/`` is deleted

The process that holds the folder's lock calls ``settle`` to leave the middle state, also after a
kill. So at any time the old run is complete on disk, or the new run has a checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sparring.config.yaml_text import parse_yaml, read_text
from sparring.core.errors import ConfigError, LockedError, RunError
from sparring.core.files import (
    TEMPORARY,
    check_regular_files,
    disk_errors,
    parse_json,
    sync_folder,
    write_bytes_atomic,
    write_json_atomic,
)
from sparring.run import checkpoint
from sparring.run.checkpoint import Checkpoint

PARTLY_REPLACED, REPLACED_RUN = ".replacing", ".replaced"
_DELETED_RUN = f"{TEMPORARY}replaced"


def is_unsettled(path: Path) -> bool:
    """Return whether a run folder holds entries of a run that is being replaced."""
    return any((path / name).exists() for name in (PARTLY_REPLACED, REPLACED_RUN, _DELETED_RUN))


def move_run_aside(path: Path, kept_names: Collection[str]) -> None:
    """Move all entries of a run folder aside for a new run, except ``kept_names``."""
    with disk_errors(path):
        (path / PARTLY_REPLACED).mkdir()
        for entry in sorted(path.iterdir()):
            if entry.name not in (*kept_names, PARTLY_REPLACED):
                os.rename(entry, path / PARTLY_REPLACED / entry.name)
        os.rename(path / PARTLY_REPLACED, path / REPLACED_RUN)
        sync_folder(path)


def settle(path: Path, kept_names: Collection[str]) -> bool:
    """Delete the run that was moved aside if the new one has a checkpoint; else move it back.

    Args:
        path: the run folder, locked by the caller.
        kept_names: names of the entries that belong to neither run.

    Returns:
        Whether the old run was moved back.
    """
    if not is_unsettled(path):
        return False
    with disk_errors(path):
        if (path / REPLACED_RUN).exists():
            if checkpoint.steps(path):
                shutil.rmtree(path / _DELETED_RUN, ignore_errors=True)
                os.rename(path / REPLACED_RUN, path / _DELETED_RUN)
            else:
                delete_entries(path, (*kept_names, REPLACED_RUN))
                os.rename(path / REPLACED_RUN, path / PARTLY_REPLACED)
            sync_folder(path)
        shutil.rmtree(path / _DELETED_RUN, ignore_errors=True)
        if not (path / PARTLY_REPLACED).exists():
            return False
        for entry in sorted((path / PARTLY_REPLACED).iterdir()):
            os.rename(entry, path / entry.name)
        (path / PARTLY_REPLACED).rmdir()
        sync_folder(path)
    return True


def delete_entries(path: Path, kept_names: Collection[str]) -> None:
    """Delete all entries of a folder except ``kept_names``."""
    for entry in sorted(path.iterdir()):
        if entry.name in kept_names:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


log = logging.getLogger(__name__)
MARKER, CONFIG, LOCK, HOLDER = "sparring-run.json", "config.yaml", ".lock", ".lock-holder"
FIGURES = "metrics.jsonl"
PLAYED_FOLDER = "played"  # episodes that people played against the run
KEPT_NAMES = (MARKER, LOCK, HOLDER)  # entries that a new run does not replace
FORMAT = 1


class RunFolder:
    """A run folder, locked while it is used as a context manager.

    Raises:
        RunError: an entry links out of the folder, or is not a file or folder.
    """

    def __init__(self, path: Path) -> None:
        check_regular_files(path)
        self.path = path
        self._lock = FileLock(str(path / LOCK))
        self._is_new = False  # whether this object created the run
        self._replacement: str | None = None  # the configuration of a run that replaces this one

    @classmethod
    def check_free(cls, path: Path, *, overwrite: bool = False) -> None:
        """Check that a new run may be made in a folder, without changing the folder.

        Raises:
            RunError: the folder holds other files, or it holds a run and ``overwrite`` is false.
        """
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; name a folder with --run.")
        if not path.exists() or _has_no_run(path):
            return
        if not (path / MARKER).is_file():
            raise RunError(
                f"{path} is not empty and is not a run folder; name another folder with --run."
            )
        if not overwrite:
            advice = (
                "resume it (--resume), start again (--overwrite), or name another folder with --run"
            )
            raise RunError(f"{path} already holds a run; {advice}.")

    @classmethod
    def create(cls, path: Path, config_yaml: str, *, overwrite: bool = False) -> RunFolder:
        """Make a new run folder.

        Args:
            path: a folder that is missing, empty, or a run folder that may be overwritten.
            config_yaml: the resolved configuration.
            overwrite: whether to replace an existing run. Entering the context moves the old run
                aside. The first checkpoint of the new run deletes the old run. If the context ends
                before, the old run is moved back.

        Raises:
            RunError: the folder holds other files, or it holds a run and ``overwrite`` is false.
            LockedError: another process uses the existing run.
        """
        cls.check_free(path, overwrite=overwrite)
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder._is_new = True
        with cls(path) as locked_folder:
            cls.check_free(path, overwrite=overwrite)  # again, now that the folder is locked
            if not _has_no_run(path):
                folder._replacement = config_yaml
            else:
                locked_folder._write_new_run(config_yaml)
        return folder

    def _write_new_run(self, config_yaml: str) -> None:
        with disk_errors(self.path):
            delete_entries(self.path, KEPT_NAMES)
        # the marker first, so that a kill leaves a recognisable run folder
        write_json_atomic(self.path / MARKER, {"format": FORMAT})
        write_bytes_atomic(self.path / CONFIG, config_yaml.encode())

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return an existing run folder.

        Raises:
            RunError: the folder is missing or not a run folder, or its format is unknown.
        """
        if not path.is_dir():
            raise RunError(
                f"There is no run folder {path}; train one with `sparring train RECIPE "
                f"--run {path}`."
            )
        if is_unsettled(path):
            with contextlib.suppress(LockedError), cls(path) as folder:  # locked while replaced
                folder.settle()
        if _has_no_run(path):
            raise RunError(
                f"{path} is not a run folder: no run has begun in it. Train one there, without "
                "--resume."
            )
        if not (path / MARKER).is_file():
            raise RunError(
                f"{path} is not a run folder: it has no {MARKER}. Name a folder that `sparring "
                "train` made."
            )
        if not (path / CONFIG).is_file():
            raise RunError(
                f"{path} cannot resume: its {CONFIG} is missing. Restore it or start anew with "
                "--overwrite."
            )
        try:
            version = parse_json((path / MARKER).read_bytes())["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{path / MARKER} is damaged: {error!r}. Restore it or start anew with --overwrite."
            ) from None
        if version != FORMAT:
            raise RunError(f"{path} has run format {version}; this version reads format {FORMAT}.")
        return cls(path)

    def config(self) -> dict[str, Any]:
        """Return the run's configuration as a plain mapping.

        Raises:
            RunError: the file is damaged.
        """
        path = self.path / CONFIG
        try:
            data = parse_yaml(read_text(path, str(path)), str(path))
        except ConfigError as error:
            raise RunError(f"{error} Restore it or start anew with --overwrite.") from None
        if not isinstance(data, dict):
            raise RunError(f"{self.path / CONFIG} is damaged: it must be a mapping.")
        return data

    def checkpoint(self, step: int | None = None) -> Checkpoint:
        """Return the checkpoint of a step, or the newest good one.

        Raises:
            RunError: there is no checkpoint yet.
            CheckpointError: the checkpoint is damaged or missing.
        """
        if step is not None:
            return checkpoint.load_step(self.path, step)
        latest = checkpoint.load_latest(self.path)
        if latest is None:
            raise RunError(
                f"{self.path} has no checkpoint yet; train it first with "
                f"`sparring train --run {self.path} --resume`."
            )
        return latest

    def __enter__(self) -> RunFolder:
        with disk_errors(self.path):
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                message = (
                    f"Another process (pid {self._read_holder()}) uses {self.path}; wait for it or "
                    "name another folder."
                )
                raise LockedError(message) from None
            try:
                (self.path / HOLDER).write_text(str(os.getpid()))
            except OSError:
                self._lock.release()
                raise
        try:
            self._replace()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _replace(self) -> None:
        if self._replacement is None:
            return
        self.settle()
        move_run_aside(self.path, KEPT_NAMES)
        write_bytes_atomic(self.path / CONFIG, self._replacement.encode())
        self._replacement = None

    def settle(self) -> bool:
        """Delete the replaced run if the new one has a checkpoint; else move it back.

        The caller holds the lock.

        Returns:
            Whether the old run was moved back.
        """
        is_moved_back = settle(self.path, KEPT_NAMES)
        if is_moved_back:
            log.warning(
                "%s holds the old run again, as the new one saved no checkpoint.", self.path
            )
        return is_moved_back

    def _read_holder(self) -> str:
        try:
            return (self.path / HOLDER).read_text() or "unknown"
        except OSError:
            return "unknown"

    def __exit__(self, *error: object) -> None:
        try:
            if not self.settle() and self._is_new and any(error) and not has_trained(self.path):
                delete_entries(self.path, KEPT_NAMES)  # so that the same command works again
        finally:
            (self.path / HOLDER).unlink(missing_ok=True)
            self._lock.release()


def load_tokenizers(path: Path) -> dict[str, Any]:
    """Return the tokenizer of each policy of a run, without its weights and without downloads.

    Raises:
        RunError: the run does not exist.
        ModelError: the model is not on this machine.
    """
    from sparring.config import resolve
    from sparring.engine.plan import TINY
    from sparring.models.pretrained import tokenizer_of
    from sparring.models.render.plain import vocabulary
    from sparring.models.tiny import tiny_tokenizer

    config = resolve(RunFolder.open(path).config())
    return {
        name: tiny_tokenizer(vocabulary(section))
        if section.model.name == TINY
        else tokenizer_of(section.model.name)
        for name, section in config.by_policy.items()
    }


def has_trained(path: Path) -> bool:
    """Return whether the run in a folder has recorded or saved a step."""
    figures = path / FIGURES
    return bool(figures.is_file() and figures.stat().st_size) or bool(checkpoint.steps(path))


def _has_no_run(path: Path) -> bool:
    """Return whether a folder is empty, or has only files of an interrupted creation."""
    return all(
        entry.name in KEPT_NAMES or entry.name.startswith(TEMPORARY) for entry in path.iterdir()
    )
