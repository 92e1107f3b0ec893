"""Helpers of tests of runs: train or resume a run, compare its files, and raise or kill at calls that change the disk."""

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
    """Stands for a kill: not an Exception, so that no code catches it."""


def train_in(path, config, *, resume=False, **hooks):
    """Train in a new folder or resume a run; return the summary."""
    with RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config)) as folder:
        return train(config, LocalEngine(config), folder, resume=resume, **hooks)


def arguments(recipe, path):
    """Return the arguments of a command that trains, resumes or replaces a run, by the name of its folder."""
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
    """Train in a process until its end, for ``seconds``, or until ``prepare`` ends it; return the exit code."""
    process = FORK.Process(target=_live, args=(recipe, path, prepare, options))
    process.start()
    if seconds is not None:
        process.join(seconds)
        process.kill()
    process.join(120)
    return process.exitcode


def fingerprint(path):
    """Return the metrics of a run and the files of its last checkpoint and of its records, by name."""
    latest = {file.name: file.read_bytes() for file in checkpoint.load_latest(path).path.iterdir()}
    records = {
        f"{name}/{file.name}": file.read_bytes()
        for name in ("episodes", "credit")
        if (path / name).is_dir()
        for file in (path / name).iterdir()
    }
    return (path / "metrics.jsonl").read_bytes(), latest, records


def raise_at_call(monkeypatch, at, error=KillSignal, names=DISK_CALLS):
    """Raise at the ``at``-th call of a function that changes the disk; return the counter of calls."""
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
