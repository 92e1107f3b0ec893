"""What a further learner is sent to learn from.

The message begins with a line of JSON, ``learn``. After it come the arrays that are named there, in
float64, and the plays in the store's columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sparring.rollout.store import from_stream, to_stream
from sparring.types import Episode, FloatArray

ARRAYS = ("advantages", "value_targets", "trained")


class Lesson(NamedTuple):
    """What a policy learns from in a step."""

    policy: str
    step: int
    progress: float
    arrays: Mapping[str, FloatArray]  # those of ``ARRAYS`` that there are
    episodes: list[Episode]

    def to_bytes(self, what: str = "learn") -> bytes:
        """Return it as it travels.

        Args:
            what: is to be done with it, "learn" or "imitate".
        """
        sizes = {name: len(self.arrays[name]) for name in ARRAYS if name in self.arrays}
        head = {what: [self.policy, self.step, self.progress, sizes]}
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
