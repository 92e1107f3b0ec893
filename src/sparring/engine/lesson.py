"""What a further learner is sent: the state of a policy's learner, and what it learns from.

A message begins with a line of JSON, ``take`` or ``learn``. After ``learn`` come the arrays that
are named there, in float64, and the plays in the store's columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparring.engine.policy import Policy
from sparring.learn.weights import load_optimizer, load_weights, save_optimizer, save_weights
from sparring.rollout.store import from_stream, to_stream
from sparring.types import Episode, FloatArray

ARRAYS = ("advantages", "value_targets")


class Lesson(NamedTuple):
    """What a policy learns from in a step."""

    policy: str
    step: int
    progress: float
    arrays: Mapping[str, FloatArray]  # those of ``ARRAYS`` that there are
    episodes: list[Episode]

    def to_bytes(self) -> bytes:
        """Return it as it travels."""
        sizes = {name: len(self.arrays[name]) for name in ARRAYS if name in self.arrays}
        head = {"learn": [self.policy, self.step, self.progress, sizes]}
        arrays = (np.asarray(self.arrays[name], np.float64).tobytes() for name in sizes)
        spoken = [(self.step, episode) for episode in self.episodes if episode.turns]
        return b"".join([json.dumps(head).encode(), b"\n", *arrays, to_stream(spoken)])

    @classmethod
    def from_bytes(cls, said: Any, rest: bytes) -> Lesson:
        """Return what ``to_bytes`` was given, but for plays in which nobody was asked."""
        policy, step, progress, sizes = said
        arrays: dict[str, FloatArray] = {}
        begin = 0
        for name, size in sizes.items():
            arrays[name] = np.frombuffer(rest, np.float64, size, begin)
            begin += 8 * size
        episodes = [episode for _, episode in from_stream(rest[begin:])]
        return cls(policy, step, progress, arrays, episodes)


def write_state(own: Policy, folder: Path) -> None:
    """Write what a learner of a policy holds into a folder that is there."""
    save_weights(own.model, folder / "model.safetensors")
    save_optimizer(own.trained.optimizer, folder / "optimizer.safetensors")
    if own.trained.average is not None:
        own.trained.average.save(folder / "average.safetensors")


def read_state(own: Policy, folder: Path, version: int) -> None:
    """Take what ``write_state`` wrote.

    Args:
        own: the policy.
        folder: where it was written.
        version: updates that the weights have seen.
    """
    load_weights(own.model, folder / "model.safetensors", version)
    if own.trained.average is not None:
        own.trained.average.restore(folder / "average.safetensors", version)
    own.trained.optimizer.state.clear()
    load_optimizer(own.trained.optimizer, folder / "optimizer.safetensors")
