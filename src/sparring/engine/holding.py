"""What the workers hold of weights, and which of them have refused a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from sparring.engine.published import Published
from sparring.engine.units import Unit, Weights, held_after
from sparring.errors import RunError

REFUSALS = 3  # of one worker in succession, after which something else is wrong


class Holding:
    """The weights of every worker that is there.

    Args:
        published: the files.
    """

    def __init__(self, published: Published) -> None:
        self.refusing: list[int] = []  # workers that were sent damaged weights
        self.refused = 0  # files that were written anew
        self._published = published
        self._held: dict[int, dict[str, Weights]] = {}  # by each worker that is there
        self._refusals = Counter[int]()  # of each worker, since it last answered

    def __contains__(self, worker: int) -> bool:
        """Whether a worker is there."""
        return worker in self._held

    def begin(self, worker: int) -> None:
        """Take note that a worker is started: it holds nothing."""
        self._held[worker] = {}

    def end(self, worker: int) -> None:
        """Take note that a worker is gone."""
        del self._held[worker]
        self.refusing = [one for one in self.refusing if one != worker]

    def answered(self, worker: int) -> None:
        """Take note that a worker could read what it was sent."""
        self._refusals.pop(worker, None)

    def sent(self, worker: int, units: Iterable[Unit]) -> dict[str, Path]:
        """Take note that a worker is sent units; return the files that it does not hold."""
        held, files = self._held[worker], dict[str, Path]()
        for unit in units:
            new = [one for one in unit.weights if held.get(one.player) != one]
            files |= {one.digest: Path(one.file) for one in new}
            held = held_after(held, unit.weights)
        self._held[worker] = held
        return files

    def write_again(self, worker: int, units: Iterable[Unit]) -> None:
        """Write the weights of units anew that a worker has refused.

        Raises:
            RunError: it has refused them again and again.
        """
        self._refusals[worker] += 1
        if self._refusals[worker] > REFUSALS:
            raise RunError(
                f"A worker has refused the weights in {self._published.folder} "
                f"{self._refusals[worker]} times: what it reads is not what was written. Choose a "
                "run folder on another disk, which all workers can read."
            )
        named = {(one.player, one.version) for unit in units for one in unit.weights}
        self.refused += self._published.again(tuple(sorted(named)))
        self._held[worker] = {}
