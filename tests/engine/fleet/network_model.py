"""How long messages take and what becomes of them, drawn from streams."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass

from sparring.core.rng import Stream

_NORMAL = statistics.NormalDist()
_HALF = 2.0**-54  # half of what a uniform draw is a multiple of: none is 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkModel:
    """What becomes of workers and messages; chances are of each message that a worker is sent."""

    mean: float = 1.0  # seconds that a unit takes, from a lognormal law
    sigma: float = 0.0  # standard deviation of their logarithm
    starting: float = 10.0  # seconds until a worker is ready, likewise
    dies: float = 0.0  # while it plays
    dies_idle: float = 0.0  # some time after it has answered
    hangs: float = 0.0  # it says nothing ever again
    lost: float = 0.0  # the message, its answer, or the word that a worker is ready
    twice: float = 0.0  # the answer comes again, later
    late: float = 0.0  # the answer comes although the worker has been ended
    rubbish: float = 0.0  # something else comes in place of the answer
    most: int = 2  # workers that may be lost over a unit; one that has ended three is given up


STORM = NetworkModel(
    mean=300.0,  # so that few workers are lost in an hour: see scale.restarts
    sigma=1.0,
    starting=20.0,
    dies=0.03,
    dies_idle=0.02,
    hangs=0.01,
    lost=0.01,
    twice=0.05,
    late=0.3,
    rubbish=0.02,
)


def lognormal(stream: Stream, counter: int, mean: float, sigma: float) -> float:
    normal = _NORMAL.inv_cdf(stream.uniform(counter) + _HALF)
    return mean * math.exp(sigma * normal - sigma**2 / 2)


def rubbish(answer: bytes, stream: Stream) -> bytes:
    empty = json.dumps({"units": []}).encode()
    cut = answer[: len(answer) * 2 // 3]
    noise = stream.generator().bytes(64)
    return (b"", b"{}", b"[]\n", empty, cut, noise, b"\n" + answer)[stream.integer(0, 7)]
