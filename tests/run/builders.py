"""What tests of runs share: a run that is trained or goes on, what it leaves, and kills at the calls that touch the disk."""

import multiprocessing
import os

from sparring import cli
from sparring.config.recipe import to_yaml
from sparring.core import files
from sparring.engine.local import LocalEngine
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train

DISK_CALLS = ("replace", "rename", "fsync", "mkdir")
FORK = multiprocessing.get_context("fork")
SMALL_RUN = {
    "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}], "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "credit": {"name": "rae"}, "warmup": {"updates": 1, "games": 8}, "evaluation": {"every": 9, "exact": False}, "checkpoint": {"every": 1, "keep": 9},
    "store": {"every": 1},
}  # fmt: skip


class KillSignal(BaseException):
    """What a kill looks like from inside: nothing catches it."""


def train_in(path, config, *, resume=False, **hooks):
    """Train in a new folder, or go on in the folder of a run; return the summary."""
    with RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config)) as folder:
        return train(config, LocalEngine(config), folder, resume=resume, **hooks)


def arguments(recipe, path):
    """Return the words of a command that trains, goes on, or replaces a run whose folder is named so."""
    if path.name.startswith("over"):
        return ["train", str(recipe), "--run", str(path), "--overwrite"]
    return (
        ["train", "--run", str(path), "--resume"]
        if (path / "config.yaml").exists()
        else ["train", str(recipe), "--run", str(path)]
    )


def _live(recipe, path, prepare, options):
    log = os.open(path.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    prepare(*options)
    cli.app(arguments(recipe, path), standalone_mode=False)


def exit_code_of_life(recipe, path, prepare, *options, seconds=None):
    """Train in a process until the end, for so many seconds, or until what ``prepare`` does there ends it."""
    process = FORK.Process(target=_live, args=(recipe, path, prepare, options))
    process.start()
    if seconds is not None:
        process.join(seconds)
        process.kill()
    process.join(120)
    return process.exitcode


def fingerprint(path):
    """Return the figures of a run, and the files of its last checkpoint and of its records by name."""
    latest = {file.name: file.read_bytes() for file in checkpoint.load_latest(path).path.iterdir()}
    records = {
        f"{name}/{file.name}": file.read_bytes()
        for name in ("episodes", "credit")
        if (path / name).is_dir()
        for file in (path / name).iterdir()
    }
    return (path / "metrics.jsonl").read_bytes(), latest, records


def raise_at_call(monkeypatch, at, error=KillSignal, names=DISK_CALLS):
    """Raise at call number ``at`` of anything that changes the disk; return the counter of the calls."""
    calls = [0]

    def patched(function):
        def call(*args, **kwargs):
            calls[0] += 1
            if calls[0] == at:
                raise error
            return function(*args, **kwargs)

        return call

    for name in names:
        monkeypatch.setattr(os, name, patched(getattr(os, name)))
    monkeypatch.setattr(files, "open", patched(open), raising=False)
    return calls
