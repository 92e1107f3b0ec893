"""The model of ``scale_model`` for fresh order: a step learns from the units that came first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sparring.engine.admission import Account, Admission
from sparring.engine.commands import Send
from sparring.experiments.scale_model import Model, Outcome, Setting


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshOutcome:
    """How a run in fresh order went.

    Args:
        outcome: as in pinned order.
        account: what became of its units.
        lag: updates that the weights of a unit were behind when it was learnt from, mean.
        lag_max: the same, the most.
    """

    outcome: Outcome
    account: Account
    lag: float
    lag_max: int


def simulate_fresh(setting: Setting) -> FreshOutcome:
    """Return how a run of a setting goes in fresh order.

    Raises:
        RolloutError: the scheduler gives up.
    """
    model = _FreshModel(setting)
    outcome = model.run()
    return FreshOutcome(
        outcome=outcome,
        account=model.admission.account,
        lag=sum(model.lags) / max(len(model.lags), 1),
        lag_max=max(model.lags, default=0),
    )


class _FreshModel(Model):
    """A run in virtual time whose units are groups of one play, for the account."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.admission = Admission(games=setting.units, lag=setting.lag, steps=setting.steps)
        self.lags: list[int] = []
        self._numbers = itertools.count()
        self._versions: dict[int, int] = {}  # of the weights that each unit was sent with
        self._taken = 0

    def _open(self) -> None:
        """Issue units as far as there is room; take those that came, and learn from a step."""
        own, setting = self._learning, self.setting
        while not own.busy and own.next < setting.steps:
            for unit in self.admission.came[: setting.units - self._taken]:
                lag = own.next - self._versions.pop(unit)
                old = lag > setting.lag
                self.admission.take(unit, old=old)
                self._taken += not old
                self.lags += [] if old else [lag]
            issued = [next(self._numbers) for _ in range(self.admission.room)]
            for unit in issued:
                self.admission.issue(unit, {unit: 1})
            if self._taken == setting.units:
                own.busy, own.left[own.next] = True, 0
                self._at(self.now + setting.learner, self._learnt)
            if issued:
                self._do(self.scheduler.issued(issued, self.now))
            if not self.admission.came:
                return

    def _learnt(self) -> None:
        """Take note that a step was learnt from."""
        self._taken = 0
        self.admission.begin(self._learning.next + 1)
        super()._learnt()

    def _version_of(self, command: Send) -> int:
        """Return the version of the weights that units are sent with: the newest."""
        for unit in command.units:
            if unit in self._versions:  # it was lost
                self.admission.again(unit)
            self._versions[unit] = self._learning.next
        return self._learning.next

    def _came(self, units: Sequence[int]) -> None:
        """Take note of units that have come."""
        for unit in units:
            self.admission.answer(unit, {unit: 1})
