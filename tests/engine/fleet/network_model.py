"""A random model of the durations and faults of messages, for simulated workers."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass

from sparring.core.rng import Stream

_STANDARD_NORMAL = statistics.NormalDist()
_HALF_STEP = 2.0**-54  # uniform draws are multiples of 2**-53; half a step more is never 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkModel:
    """Durations and faults of simulated workers; probabilities are per message sent to a worker."""

    mean: float = 1.0  # mean seconds of a unit, lognormal
    sigma: float = 0.0  # standard deviation of the logarithm of the seconds
    starting: float = 10.0  # mean seconds until a started worker is ready, lognormal
    dies: float = 0.0  # the worker dies while it plays
    dies_idle: float = 0.0  # the worker dies some time after its answer
    hangs: float = 0.0  # the worker never answers again
    lost: float = 0.0  # the network loses the message, its answer, or the message "ready"
    twice: float = 0.0  # the answer arrives again later
    late: float = 0.0  # the answer arrives after the worker has been ended
    rubbish: float = 0.0  # other bytes arrive instead of the answer
    most: int = 2  # largest number of workers lost with one unit; a run gives up a unit after five


MANY_RARE_FAULTS = NetworkModel(
    mean=300.0,  # long units, so that few workers are lost per hour (scale.restarts)
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
    normal = _STANDARD_NORMAL.inv_cdf(stream.uniform(counter) + _HALF_STEP)
    return mean * math.exp(sigma * normal - sigma**2 / 2)


def other_bytes(answer: bytes, stream: Stream) -> bytes:
    empty_answer = json.dumps({"units": []}).encode()
    truncated = answer[: len(answer) * 2 // 3]
    noise = stream.generator().bytes(64)
    return (b"", b"{}", b"[]\n", empty_answer, truncated, noise, b"\n" + answer)[stream.integer(0, 7)]
