"""Weighted means, maxima and tails of a step's metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from sparring.core.records import FloatArray
from sparring.methods.losses.base import LOG_RATIO_LIMIT


class Means:
    """Weighted means of metrics over the parts of a step."""

    def __init__(self) -> None:
        self.parts: list[Means] = []  # counted when asked for the result, in this order
        self._sums: dict[str, float] = {}
        self._weights: dict[str, float] = {}
        self._maxima: dict[str, float] = {}
        self.log_ratios: list[FloatArray] = []  # absolute values, [M] in parts

    def part(self) -> Means:
        """Return a new part, which is counted as one."""
        self.parts.append(Means())
        return self.parts[-1]

    def add(self, values: Mapping[str, float], weight: float) -> None:
        """Count these values with this weight."""
        for name, value in values.items():
            self.add_once(name, value, weight)

    def add_once(self, name: str, value: float, weight: float) -> None:
        """Count one value with this weight."""
        self._sums[name] = self._sums.get(name, 0.0) + value * weight
        self._weights[name] = self._weights.get(name, 0.0) + weight

    def maximum(self, name: str, value: float) -> None:
        """Keep the largest of these values."""
        self._maxima[name] = max(value, self._maxima.get(name, value))

    def ratios(self, ours: Tensor, sampler: Tensor, share: float, *, first: bool) -> None:
        """Count how far log-probabilities are from the sampler's.

        Args:
            ours: of the learner, [M].
            sampler: of the sampler, [M].
            share: of the minibatch that they are.
            first: whether both are of equal weights.
        """
        difference = (ours.detach() - sampler).abs()
        self.log_ratios.append(difference.double().cpu().numpy())
        if first:
            self.add_once("logprob_difference_mean", float(difference.mean()), share)
            self.maximum("logprob_difference_max", float(difference.max()))

    def mean(self, name: str) -> float:
        """Return the mean of a metric so far, parts left out."""
        return self._sums[name] / self._weights[name]

    def to_bytes(self) -> bytes:
        """Return what was counted, parts left out, for a process that reads it at once."""
        sizes = [len(found) for found in self.log_ratios]
        head = [self._sums, self._weights, self._maxima, sizes]
        arrays = (found.tobytes() for found in self.log_ratios)
        return json.dumps(head).encode() + b"\n" + b"".join(arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Means:
        """Return what ``to_bytes`` was given."""
        head, _, rest = data.partition(b"\n")
        found = cls()
        found._sums, found._weights, found._maxima, sizes = json.loads(head)
        begin = 0
        for size in sizes:
            found.log_ratios.append(np.frombuffer(rest, np.float64, size, begin))
            begin += 8 * size
        return found

    def _count_parts(self) -> None:
        """Count the parts, in their order."""
        for part in self.parts:
            for name, total in part._sums.items():
                self._sums[name] = self._sums.get(name, 0.0) + total
                self._weights[name] = self._weights.get(name, 0.0) + part._weights[name]
            for name, value in part._maxima.items():
                self.maximum(name, value)
            self.log_ratios += part.log_ratios
        self.parts = []

    def result(self) -> dict[str, float]:
        """Return the means, the maxima and the tails of the ratios."""
        self._count_parts()
        tails = ratio_tails(np.concatenate(self.log_ratios)) if self.log_ratios else {}
        return {
            **{name: total / self._weights[name] for name, total in self._sums.items()},
            **self._maxima,
            **tails,
        }


def ratio_tails(log_ratios: FloatArray) -> dict[str, float]:
    """Return ``ratio_tail`` and ``ratio_p99`` of a non-empty array of absolute log-ratios, [M]."""
    largest = min(float(np.quantile(log_ratios, 0.99)), LOG_RATIO_LIMIT)
    return {
        "ratio_tail": float((log_ratios > math.log(2.0)).mean()),
        "ratio_p99": math.exp(largest),
    }
