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
    """An exception that stands for a kill; no code catches it, as it is not an Exception."""


def train_in(path, config, *, resume=False, **hooks):
    """Train in a new folder or resume a run; return the summary."""
    with RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config)) as folder:
        return train(config, LocalEngine(config), folder, resume=resume, **hooks)


def cli_arguments(recipe, path):
    """Return the command that replaces the run if its folder's name begins with "over", else resumes or trains it."""
    if path.name.startswith("over"):
        return ["train", str(recipe), "--run", str(path), "--overwrite"]
    return (
        ["train", "--run", str(path), "--resume"]
        if (path / "config.yaml").exists()
        else ["train", str(recipe), "--run", str(path)]
    )


def run_command(recipe, path, prepare, options):
    log = os.open(path.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    prepare(*options)
    cli.app(cli_arguments(recipe, path), standalone_mode=False)


def exit_code_of_life(recipe, path, prepare, *options, seconds=None):
    """Run the command of ``cli_arguments`` in a child process; return its exit code.

    ``prepare`` is called first and may make the process end early; after ``seconds`` the process is killed.
    """
    process = FORK.Process(target=run_command, args=(recipe, path, prepare, options))
    process.start()
    if seconds is not None:
        process.join(seconds)
        process.kill()
    process.join(120)
    return process.exitcode


def fingerprint(path):
    """Return the metrics of a run and the files of its last checkpoint and of its records, by name."""
    checkpoint_files = {file.name: file.read_bytes() for file in checkpoint.load_latest(path).path.iterdir()}
    records = {
        f"{name}/{file.name}": file.read_bytes()
        for name in ("episodes", "credit")
        if (path / name).is_dir()
        for file in (path / name).iterdir()
    }
    return (path / "metrics.jsonl").read_bytes(), checkpoint_files, records


def raise_at_call(monkeypatch, call_number, error=KillSignal, names=DISK_CALLS):
    """Raise at the call number ``call_number`` of a function that changes the disk; return the counter of calls."""
    calls = [0]

    def raise_at_number(function):
        def counted_call(*args, **kwargs):
            calls[0] += 1
            if calls[0] == call_number:
                raise error
            return function(*args, **kwargs)

        return counted_call

    for name in names:
        monkeypatch.setattr(os, name, raise_at_number(getattr(os, name)))
    monkeypatch.setattr(files, "open", raise_at_number(open), raising=False)
    return calls
