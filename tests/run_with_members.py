"""Runs of leagues: one with three members whose payoffs are known, made without training; and trained ones."""

import types

import torch

from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.records import snapshot
from sparring.engine.local import LocalEngine
from sparring.engine.run_processes import run_workers
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.run.state import RunState

MEMBERS = [snapshot(step) for step in (0, 1, 2)]
BASE = {
    "name": "members",
    "steps": 2,
    "threads": 1,
    "environments": [{"name": "kuhn_poker"}],
    "rollout": {"games_per_step": 8, "temperature": 0.9},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "league": {"every": 1, "start": True, "plays": 6},
    "warmup": {"updates": 0},
    "evaluation": {"exact": False},
}


def book_of(pairs, environment="kuhn_poker"):
    """Return a book in which the first of each pair has won ten plays against the second."""
    rows = {}
    for winner, loser in pairs:
        for seat in (0, 1):
            rows[RowKey(environment, seat, winner, loser)] = Results(games=10, wins=10, returns=10.0)
            rows[RowKey(environment, seat, loser, winner)] = Results(games=10, losses=10, returns=-10.0)
    return Payoffs(rows)


CYCLE = book_of([(MEMBERS[0], MEMBERS[1]), (MEMBERS[1], MEMBERS[2]), (MEMBERS[2], MEMBERS[0])])


def engine_of(config):
    """Return an engine with three members, each of other weights, as are the learner's."""
    engine, generator = LocalEngine(config), torch.Generator().manual_seed(0)

    def change():
        for name in engine.learners:
            for parameter in engine.policies[name].model.parameters():
                parameter.data.add_(torch.empty(parameter.shape).normal_(0.0, 0.5, generator=generator))
            engine.policies[name].model.version += 1

    for member in MEMBERS:
        change()
        engine.take_member(member)
    change()
    return engine


def run_of(path, book=CYCLE, **changes):
    """Write a run with one checkpoint; return its folder and its engine."""
    config = resolve({**BASE, **changes})
    with RunFolder.create(path, to_yaml(config)):
        engine = engine_of(config)

        def write(folder):
            engine.save(folder)
            RunState(step=2).with_owners(payoffs=book.to_json()).save(folder)

        checkpoint.save(path, 2, write, keep=2)
    return path, engine


def run(path, config, *, resume=False, until=None):
    """Train, or go on, to a step; return the engine."""
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    engine, stop = LocalEngine(config), types.SimpleNamespace(requested=False)

    def watch(report):
        stop.requested = report.step == until

    with folder, run_workers(engine, path):
        train(config, engine, folder, resume=resume, stop=stop, watch=watch)
    return engine


def last(path):
    """Return the bytes of a run's last checkpoint, its state, and its metrics."""
    folder = checkpoint.load_latest(path).path
    tensors = {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}
    return tensors, (folder / "state.json").read_bytes(), (path / "metrics.jsonl").read_bytes()
