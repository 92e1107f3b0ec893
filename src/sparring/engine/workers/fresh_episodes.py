"""Rollouts on workers in fresh order: units have the newest weights, and return as they finish.

A unit gets the newest weights when it is sent. If newer weights are published while it is played,
its worker loads them between two calls of the sampler or two tokens of a reply, if the fleet can
reach a playing worker. Earlier tokens stay in the reply, and every sampled segment names its
weights.
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
from sparring.engine.workers.episode_budget import ISSUED_FILE
from sparring.engine.workers.fleet.base import Fleet
from sparring.engine.workers.units import WeightsFile, WorkUnit, weights_message
from sparring.play.rollout import Rollout
from sparring.play.spec import EpisodeSpec


class UnitOutcomes(NamedTuple):
    """The outcomes of units since the last call.

    Args:
        lost: units whose worker was lost, once for each loss; they are played again.
        answered: finished units with their rollouts, in order of arrival. The losses of a unit are
            reported before its answer.
    """

    lost: list[int]
    answered: list[tuple[int, Rollout]]


class FreshWorkers(DistributedRollouts):
    """Workers of a run in fresh order.

    The thread that learns calls all methods except ``_unit_to_send`` and ``_record_loss``, so the
    weights do not change while they are written.

    Args:
        players: as for ``DistributedRollouts``.
        fleet: as for ``DistributedRollouts``.
        folder: as for ``DistributedRollouts``; a subfolder of the run folder.
    """

    def __init__(self, players: Players, fleet: Fleet, folder: Path) -> None:
        self.run, self._issued = folder.parent, 0
        self._newest_files: tuple[WeightsFile, ...] = ()
        self._pins: list[Pinned] = []  # the newest weights, and older weights in use
        self._snapshots_of: dict[int, Pinned] = {}  # pinned snapshots of each fresh unit
        self._lost_units: list[int] = []
        super().__init__(players, fleet, folder)

    def set_num_issued(self, issued: int) -> None:
        """Set the number of episodes that were issued before the run was resumed."""
        with self._changed:
            self._issued = issued

    def publish_weights(self) -> None:
        """Publish the current weights, for units that are sent later or are being played.

        Raises:
            RunError: the disk is full or not writable.
        """
        pinned = self.published.pin_newest()
        with self._changed:
            previous, self._newest_files = self._newest_files, self.published.files(pinned)
            units = [unit for unit in self._open.values() if unit.is_fresh]
        used_keys = {(file.player, file.version) for unit in units for file in unit.weights}
        for pin in self._pins:
            if not used_keys & set(pin):
                self.published.release(pin)
        self._pins = [pin for pin in self._pins if used_keys & set(pin)] + [pinned]
        if previous != self._newest_files:
            self._fleet.tell(weights_message(self._newest_files))

    def issue(
        self, specs_of_units: Sequence[Sequence[EpisodeSpec]], progress: float, past: Pinned
    ) -> list[int]:
        """Issue units of episodes, and return their numbers.

        Args:
            specs_of_units: the episodes of each unit.
            progress: share of the run that is done.
            past: the snapshots that may play in them, from ``published``.

        Raises:
            SparringError: the workers cannot go on.
        """
        snapshots = self.published.files(past)
        with self._changed:
            self._raise_error()
            self._record_issued(sum(map(len, specs_of_units)))
            numbers = [next(self._numbers) for _ in specs_of_units]
            for number, specs in zip(numbers, specs_of_units, strict=True):
                named_specs = tuple(self.with_named_policies(specs))
                self._open[number] = WorkUnit(named_specs, snapshots, progress, is_fresh=True)
                self._snapshots_of[number] = self.published.pin_existing(past)
            self._execute(self._scheduler.issued(numbers, self._fleet.now()))
        return numbers

    def poll_units(self, *, wait: bool) -> UnitOutcomes:
        """Return the outcomes of units since the last call.

        Args:
            wait: whether to wait for at least one unit.

        Raises:
            SparringError: the workers cannot go on.
        """
        with self._changed:
            while wait and not (self._lost_units or self._answered_units()):
                self._wait_for_change()
            self._raise_error()
            lost_units, self._lost_units = self._lost_units, []
            answered = [(number, self._rollouts.pop(number)) for number in self._answered_units()]
        for number, _ in answered:
            self.published.release(self._snapshots_of.pop(number))
        return UnitOutcomes(lost_units, answered)

    def with_named_policies(self, specs: Sequence[EpisodeSpec]) -> Sequence[EpisodeSpec]:
        """Return specs with named policies; see ``Players.with_named_policies``."""
        return self._players.with_named_policies(specs)

    def _answered_units(self) -> list[int]:
        return [number for number in self._rollouts if number in self._snapshots_of]

    def _unit_to_send(self, number: int) -> WorkUnit:
        """Return a unit for sending; in fresh order it has the newest weights."""
        unit = self._open[number]
        if not unit.is_fresh:
            return unit
        snapshots = (file for file in unit.weights if ref(file.player).step is not None)
        self._open[number] = unit._replace(weights=(*self._newest_files, *snapshots))
        return self._open[number]

    def _record_loss(self, units: Sequence[int]) -> None:
        lost_units = [unit for unit in units if unit in self._open and unit in self._snapshots_of]
        if lost_units:
            self._record_issued(sum(len(self._open[unit].specs) for unit in lost_units))
        self._lost_units += lost_units

    def _record_issued(self, num_episodes: int) -> None:
        """Count issued episodes, also in a file that survives a kill."""
        self._issued += num_episodes
        with disk_errors(self.run):
            write_json_atomic(self.run / ISSUED_FILE, {"issued": self._issued})
