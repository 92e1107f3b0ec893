"""Plays on workers in fresh order: played with the newest weights, and given as they come.

A unit takes the newest weights when it is sent. Those that are published while it is played it
takes between two calls of the sampler or two tokens of a reply, where the fleet can tell a worker
that plays: what was said before stands, and every sampled run names its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sparring.core.files import disk_errors, write_json_atomic
from sparring.core.records import ref
from sparring.engine.players import Players
from sparring.engine.protocol import Pinned
from sparring.engine.workers.distributed import DistributedRollouts
from sparring.engine.workers.episode_budget import ISSUED
from sparring.engine.workers.fleet.base import Fleet
from sparring.engine.workers.units import WeightsFile, WorkUnit, news_bytes
from sparring.play.rollout import Rollout
from sparring.play.spec import EpisodeSpec


class UnitOutcomes(NamedTuple):
    """What has become of units since it was last asked.

    Args:
        lost: units whose worker was lost with them, once for each; they are played again.
        found: units that were answered, in the order in which they were. What was lost of one was
            lost before.
    """

    lost: list[int]
    found: list[tuple[int, Rollout]]


class FreshWorkers(DistributedRollouts):
    """Plays on workers, given as they come.

    All but ``_unit_to_send`` and ``_record_loss`` is called by the thread that learns: weights do not change
    while they are written.

    Args:
        players: as ``DistributedRollouts``.
        fleet: as there.
        folder: as there; it is in the run's.
    """

    def __init__(self, players: Players, fleet: Fleet, folder: Path) -> None:
        self.run, self._issued = folder.parent, 0
        self._newest: tuple[WeightsFile, ...] = ()
        self._pins: list[Pinned] = []  # of the newest weights, and of older ones that units name
        self._snapshots_of: dict[int, Pinned] = {}  # the snapshots of each fresh unit's seats
        self._lost_units: list[int] = []
        super().__init__(players, fleet, folder)

    def issued_before(self, issued: int) -> None:
        """Take note of how many plays were issued before, in all."""
        with self._changed:
            self._issued = issued

    def renew(self) -> None:
        """Publish the weights of now, if they are not: units that are sent from now on take them,
        and those that are played on their way.

        Raises:
            RunError: the disk is full or not writable.
        """
        pinned = self.published.pin_newest()
        with self._changed:
            before, self._newest = self._newest, self.published.files(pinned)
            units = [unit for unit in self._open.values() if unit.fresh]
        named = {(weights.player, weights.version) for unit in units for weights in unit.weights}
        for older in self._pins:
            if not named & set(older):
                self.published.release(older)
        self._pins = [older for older in self._pins if named & set(older)] + [pinned]
        if before != self._newest:
            self._fleet.tell(news_bytes(self._newest))

    def issue(
        self, parts: Sequence[Sequence[EpisodeSpec]], progress: float, past: Pinned
    ) -> list[int]:
        """Have units of plays played; return their numbers.

        Args:
            parts: the plays of each unit.
            progress: share of the run that is done.
            past: the snapshots that may sit in their seats, from ``published``.

        Raises:
            SparringError: the workers cannot go on.
        """
        snapshots = self.published.files(past)
        with self._changed:
            self._check()
            self._record_issued(sum(map(len, parts)))
            numbers = [next(self._numbers) for _ in parts]
            for number, specs in zip(numbers, parts, strict=True):
                seated = tuple(self.seated(specs))
                self._open[number] = WorkUnit(seated, snapshots, progress, fresh=True)
                self._snapshots_of[number] = self.published.keep(past)
            self._execute(self._scheduler.issued(numbers, self._fleet.now()))
        return numbers

    def poll_units(self, *, wait: bool) -> UnitOutcomes:
        """Return what has become of fresh units.

        Args:
            wait: for one of them, if nothing has.

        Raises:
            SparringError: the workers cannot go on.
        """
        with self._changed:
            while wait and not (self._lost_units or self._answered_units()):
                self._wait_for_change()
            self._check()
            lost, self._lost_units = self._lost_units, []
            answered = [(number, self._rollouts.pop(number)) for number in self._answered_units()]
        for number, _ in answered:
            self.published.release(self._snapshots_of.pop(number))
        return UnitOutcomes(lost, answered)

    def seated(self, specs: Sequence[EpisodeSpec]) -> Sequence[EpisodeSpec]:
        """Return plays in which every policy is named; see ``Players.seated``."""
        return self._players.seated(specs)

    def _answered_units(self) -> list[int]:
        """Return the fresh units that were answered, in the order in which they were."""
        return [number for number in self._rollouts if number in self._snapshots_of]

    def _unit_to_send(self, number: int) -> WorkUnit:
        """Return a unit as it is sent: a fresh one with the newest weights."""
        unit = self._open[number]
        if not unit.fresh:
            return unit
        past = (weights for weights in unit.weights if ref(weights.player).step is not None)
        self._open[number] = updated = unit._replace(weights=(*self._newest, *past))
        return updated

    def _record_loss(self, units: Sequence[int]) -> None:
        lost = [unit for unit in units if unit in self._open and unit in self._snapshots_of]
        if lost:
            self._record_issued(sum(len(self._open[unit].specs) for unit in lost))
        self._lost_units += lost

    def _record_issued(self, plays: int) -> None:
        """Write down how many plays were issued, for whoever goes on after a kill."""
        self._issued += plays
        with disk_errors(self.run):
            write_json_atomic(self.run / ISSUED, {"issued": self._issued})
