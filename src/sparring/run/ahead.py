"""The steps that are being played: the one to be learnt from next, and with ``scale.lag`` those
after it.

Step s is opened as soon as step s - lag - 1 has been learnt from, and is played with the weights,
the league, the curriculum and the payoff book of that moment. So what is played is a function of
configuration and seed, however long players and learner take. Of a step that is open a checkpoint
holds this moment and no plays: a run that goes on plays them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.config import RunConfig
from sparring.engine.base import Begun, Engine
from sparring.errors import CheckpointError, ConfigError
from sparring.league.payoffs import Payoffs
from sparring.refs import refs
from sparring.rollout.play import Rollout
from sparring.run.methods import Methods
from sparring.run.opened import Opened
from sparring.run.playing import Played, play_step
from sparring.run.state import RunState

OPEN = "open"  # the owner in a run's state of the steps that are open


class Ahead:
    """Opens steps, and gives their plays.

    Args:
        config: the run's configuration.
        engine: its models.
        methods: its plug-ins.
    """

    def __init__(self, config: RunConfig, engine: Engine, methods: Methods) -> None:
        self._parts = config, engine, methods
        self._phases: dict[int, _Phase] = {}

    def played(self, state: RunState) -> Played:
        """Return the plays of the step that comes next.

        Further steps are opened first, as far as ``scale.lag`` says.

        Args:
            state: the run's state now.

        Raises:
            ConfigError: there is a lag, and nothing keeps older weights.
            CheckpointError: what the state says of open steps cannot be read.
            RolloutError: no game could be played.
        """
        config, engine, _ = self._parts
        recorded = state.json(OPEN)
        for step in range(state.step, min(state.step + config.scale.lag + 1, config.steps)):
            if step not in self._phases:
                opened = _restored(engine, step, recorded.get(str(step))) or self._opened(
                    step, state
                )
                self._phases[step] = _Phase(opened, *self._parts)
        phase = self._phases.pop(state.step, None)
        if phase is None:  # beyond the configuration's last step
            phase = _Phase(self._opened(state.step, state), *self._parts)
        played = phase.result()
        if phase.opened.pinned is not None:
            engine.release(phase.opened.pinned)
        for other in self._phases.values():
            other.go_on()
        return played

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of the steps that are open, by owner."""
        config, *_ = self._parts
        if not config.scale.lag:
            return {}
        return {OPEN: {str(step): _record(one.opened) for step, one in self._phases.items()}}

    def _opened(self, step: int, state: RunState) -> Opened:
        """Return a step as it is opened now."""
        config, engine, _ = self._parts
        pinned = engine.pin() if config.scale.lag else None
        if config.scale.lag and pinned is None:
            raise ConfigError(
                f"scale.lag={config.scale.lag}: nothing keeps older weights here; train with "
                "`sparring train` or sparring.train, or write scale.lag: 0."
            )
        return Opened.of(engine, state, step, pinned)


class _Phase:
    """A step that is open: what asks for its games, and what waits for those it has asked for."""

    def __init__(self, opened: Opened, config: RunConfig, engine: Engine, methods: Methods) -> None:
        self.opened, self._engine = opened, engine
        self._asking = play_step(config, engine, methods, opened)
        self._played: Played | None = None
        self._waiting: Begun | None = None
        self._begin(None)

    def _begin(self, rollout: Rollout | None) -> None:
        """Give what asks the games that it has asked for; have the next ones played."""
        try:
            wanted = next(self._asking) if rollout is None else self._asking.send(rollout)
        except StopIteration as done:
            self._played, self._waiting = done.value, None
        else:
            self._waiting = self._engine.begin(wanted.specs, wanted.judging, self.opened.pinned)

    def go_on(self) -> None:
        """Ask for more games, if those that were asked for are there. Nothing is waited for."""
        while self._waiting is not None and self._waiting.there():
            self._begin(self._waiting.result())

    def result(self) -> Played:
        """Return the plays of the step, as soon as all are there."""
        while self._waiting is not None:
            self._begin(self._waiting.result())
        assert self._played is not None, "it asks for nothing more"
        return self._played


def _record(opened: Opened) -> dict[str, Any]:
    """Return a step that is open as values of JSON."""
    return {
        "learnt": opened.learnt,
        "members": [str(member) for member in opened.members],
        "curriculum": opened.curriculum,
        "payoffs": opened.payoffs.to_json(),
        "weights": [list(key) for key in opened.pinned or ()],
        **({"live": opened.live} if opened.live else {}),
    }


def _restored(engine: Engine, step: int, record: Mapping[str, Any] | None) -> Opened | None:
    """Return a step that was open when a checkpoint was saved; None where it was not.

    Raises:
        CheckpointError: the record, or the weights that it names, cannot be read.
    """
    if record is None:
        return None
    try:
        return Opened(
            step=step,
            learnt=int(record["learnt"]),
            members=refs(record["members"]),
            curriculum=record["curriculum"],
            payoffs=Payoffs.from_json(record["payoffs"]),
            pinned=engine.pin(tuple((name, version) for name, version in record["weights"])),
            live=str(record.get("live", "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"What the checkpoint says of step {step}, which was being played, cannot be read "
            f"({error!r}). Take an earlier one, or start anew with --overwrite."
        ) from error
