"""Steps played ahead of the learner (``scale.lag``), as of the moment they were opened.

Step s is opened as soon as step s - lag - 1 has been learnt from, and is played with the weights,
the league, the curriculum and the payoff book of that moment. So what is played is a function of
configuration and seed, however long players and learner take. Of a step that is open a checkpoint
holds this moment and no plays: a run that goes on plays them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.config import RunConfig
from sparring.core.errors import CheckpointError, ConfigError
from sparring.core.refs import refs
from sparring.engine.protocol import Engine
from sparring.league.payoffs import Payoffs
from sparring.play.rollout import Begun, Rollout
from sparring.run.state import RunState
from sparring.run.step import Methods, StepEpisodes, StepInputs, request_plays

OPEN = "open"  # the owner in a run's state of the steps that are open


class Prefetch:
    """Opens steps, and gives their episodes.

    Args:
        config: the run's configuration, with a lag.
        engine: its models.
        methods: its plug-ins.
    """

    def __init__(self, config: RunConfig, engine: Engine, methods: Methods) -> None:
        self._parts = config, engine, methods
        self._open: dict[int, _OpenStep] = {}

    def episodes_of(self, state: RunState) -> StepEpisodes:
        """Return the episodes of the step that comes next.

        Further steps are opened first, as far as ``scale.lag`` says.

        Args:
            state: the run's state now.

        Raises:
            ConfigError: nothing keeps older weights.
            CheckpointError: what the state says of open steps cannot be read.
            RolloutError: no game could be played.
        """
        config, engine, _ = self._parts
        recorded = state.json(OPEN)
        last = max(min(state.step + config.scale.lag + 1, config.steps), state.step + 1)
        for step in range(state.step, last):
            if step not in self._open:
                inputs = _restored(engine, step, recorded.get(str(step)))
                self._open[step] = _OpenStep(inputs or self._inputs(step, state), *self._parts)
        current = self._open.pop(state.step)
        episodes = current.result()
        if current.inputs.pinned is not None:
            engine.release(current.inputs.pinned)
        for other in self._open.values():
            other.go_on()
        return episodes

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of the steps that are open, by owner."""
        return {OPEN: {str(step): _record(one.inputs) for step, one in self._open.items()}}

    def _inputs(self, step: int, state: RunState) -> StepInputs:
        config, engine, _ = self._parts
        pinned = engine.pin()
        if pinned is None:
            raise ConfigError(
                f"scale.lag={config.scale.lag}: nothing keeps older weights here; train with "
                "`sparring train` or sparring.train, or write scale.lag: 0."
            )
        return StepInputs.of(engine, state, step, pinned)


class _OpenStep:
    def __init__(
        self, inputs: StepInputs, config: RunConfig, engine: Engine, methods: Methods
    ) -> None:
        self.inputs, self._engine = inputs, engine
        self._requests = request_plays(config, engine, methods, inputs)
        self._episodes: StepEpisodes | None = None
        self._waiting: Begun | None = None
        self._begin(None)

    def _begin(self, rollout: Rollout | None) -> None:
        try:
            request = next(self._requests) if rollout is None else self._requests.send(rollout)
        except StopIteration as done:
            self._episodes, self._waiting = done.value, None
        else:
            self._waiting = self._engine.begin(request.specs, request.judging, self.inputs.pinned)

    def go_on(self) -> None:
        """Request more games, if those requested are there, without waiting."""
        while self._waiting is not None and self._waiting.there():
            self._begin(self._waiting.result())

    def result(self) -> StepEpisodes:
        while self._waiting is not None:
            self._begin(self._waiting.result())
        assert self._episodes is not None, "it requests nothing more"
        return self._episodes


def _record(inputs: StepInputs) -> dict[str, Any]:
    return {
        "learnt": inputs.learnt,
        "members": [str(member) for member in inputs.members],
        "curriculum": inputs.curriculum,
        "payoffs": inputs.payoffs.to_json(),
        "weights": [list(key) for key in inputs.pinned or ()],
        **({"live": inputs.live} if inputs.live else {}),
    }


def _restored(engine: Engine, step: int, record: Mapping[str, Any] | None) -> StepInputs | None:
    """Return a step that was open when a checkpoint was saved; None where it was not."""
    if record is None:
        return None
    try:
        return StepInputs(
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
