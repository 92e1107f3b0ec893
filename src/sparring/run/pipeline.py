"""Steps played ahead of the learner: pinned to a moment (``scale.lag``), or in fresh order.

Pinned order. Step s is opened as soon as step s - lag - 1 has been learnt from, and is played with
the weights, the league, the curriculum and the payoff book of that moment. So what is played is a
function of configuration and seed, however long players and learner take. Of a step that is open a
checkpoint holds this moment and no plays: a run that goes on plays them again.

Fresh order. A step learns from the plays that came first, whenever they were issued.
As many plays are open as ``scale.lag`` + 1 steps of them. What comes while the learner learns waits
for the next step; what takes longer than its step is learnt from in a later one. A group of which
some turn is older than ``scale.lag`` when a step takes it is withheld: it is recorded, and seen by
the payoff book and the curriculum, and no loss sees it.

A checkpoint holds the groups that had come. What was being played when the process ended is lost,
and counted: ``issued.json`` in the run folder says how many plays were issued, whatever has become
of the process.

Metrics, of all plays since the run began:
    issued_games            plays that were issued to workers, each time that they were
    learned_games           plays that a step took to learn from
    withheld_games          plays that were too old when a step took them
    lost_games              plays that were lost with a worker, with their group, or with the
                            training process
    open_games              plays that are under way, or that no step has taken yet
and of the step, beside lag:
    lag_max                 updates that the weights of a trained turn were behind, the most; at
                            most scale.lag, as groups of older turns are withheld
    withheld_share          plays that were too old, among those that the step took
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparring.config import RunConfig
from sparring.core.errors import CheckpointError, ConfigError
from sparring.core.files import parse_json
from sparring.core.records import MAIN, OWN, Episode, Turn, refs
from sparring.engine.protocol import Engine, FreshRollouts, Pinned
from sparring.engine.workers.episode_budget import ISSUED, Admission
from sparring.league.payoffs import Payoffs
from sparring.play.rollout import Begun, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec
from sparring.run.state import FRESH, FreshGroup, FreshRecord, RunState
from sparring.run.step import (
    Methods,
    StepEpisodes,
    StepInputs,
    book_of,
    request_plays,
    shape_episodes,
    specs_of,
)

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
            other.advance()
        return episodes

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of the steps that are open, by owner."""
        return {
            OPEN: {str(step): _record(open_step.inputs) for step, open_step in self._open.items()}
        }

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

    def advance(self) -> None:
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


class FreshSteps:
    """Issues plays, and gives each step those that came first.

    Args:
        config: the run's configuration.
        engine: its models.
        methods: its plug-ins.
    """

    def __init__(self, config: RunConfig, engine: Engine, methods: Methods) -> None:
        self._config, self._engine, self._methods = config, engine, methods
        self._admission: Admission | None = None  # from the first step on
        self._draws = 0
        self._unissued: deque[list[EpisodeSpec]] = deque()  # groups that are not issued yet
        self._snapshot_pins: list[
            Pinned
        ] = []  # snapshots that plays of a draw may meet, of each draw
        self._arms: dict[int, str] = {}  # of the groups that are drawn and not learnt from
        self._arrived: dict[int, tuple[Episode, ...]] = {}
        self._counts = RolloutCounts()  # of what has come since the step before

    def episodes_of(self, state: RunState) -> StepEpisodes:
        """Return the plays of the step that comes next, as soon as they have come.

        Args:
            state: the run's state now.

        Raises:
            ConfigError: there are no workers.
            CheckpointError: what was recorded of plays cannot be read.
            RolloutError: plays cannot be had.
        """
        admission = self._admission or self._begin(state)
        admission.begin(state.step)
        self._workers.renew()
        games, lag = self._config.rollout.games_per_step, self._config.scale.lag
        fresh, stale = list[FreshGroup](), list[FreshGroup]()
        while sum(len(group.episodes) for group in fresh) < games:
            self._issue(state, admission)
            if not admission.arrived_groups:
                self._listen(admission, wait=True)
                continue
            number = admission.arrived_groups[0]
            group = FreshGroup(number, self._arms.pop(number), self._arrived.pop(number))
            is_old = max(self._staleness(group.episodes), default=0) > lag
            admission.take(number, old=is_old)
            (stale if is_old else fresh).append(group)
        return self._step(state, admission, fresh, stale)

    def state(self) -> dict[str, Any]:
        """Publish what was learnt; return what a checkpoint holds of plays, by owner."""
        admission = self._admission
        assert admission is not None, "a step was played"
        self._workers.renew()
        self._listen(admission, wait=False)
        groups = [
            FreshGroup(number, self._arms[number], self._arrived[number])
            for number in admission.arrived_groups
        ]
        return {FRESH: FreshRecord(admission.account, self._draws, groups)}

    @property
    def _workers(self) -> FreshRollouts:
        workers = self._engine.fresh
        if workers is None:
            raise ConfigError(
                "scale.order=fresh: no workers play here; train with `sparring train` or "
                "sparring.train, or write scale.order: pinned."
            )
        return workers

    def _begin(self, state: RunState) -> Admission:
        """Take up what a checkpoint holds: what was open there, or was issued since, is lost."""
        record, config = state.fresh, self._config
        account = record.account.gone(_read_issued(self._workers.run / ISSUED))
        self._workers.issued_before(account.issued)
        self._draws = record.draws
        self._admission = admission = Admission(
            games=config.rollout.games_per_step,
            lag=config.scale.lag,
            steps=config.steps,
            account=account,
        )
        admission.restore_groups({group.number: len(group.episodes) for group in record.groups})
        self._arms = {group.number: group.arm for group in record.groups}
        self._arrived = {group.number: group.episodes for group in record.groups}
        return admission

    def _issue(self, state: RunState, admission: Admission) -> None:
        parts: list[list[EpisodeSpec]] = []
        room = admission.num_issuable
        while room > 0:
            part: list[EpisodeSpec] = []
            while len(part) < min(self._config.scale.unit_games, room):
                part += self._next(state)
            parts.append(part)
            room -= len(part)
        if not parts:
            return
        progress = state.step / self._config.steps
        past = tuple(sorted({key for pinned in self._snapshot_pins for key in pinned}))
        units = self._workers.issue(parts, progress, past)
        for unit, part in zip(units, parts, strict=True):
            admission.issue(unit, Counter(spec.group_id for spec in part))
        while len(self._snapshot_pins) > 1:  # what is left to be issued is of the last draw
            self._workers.published.release(self._snapshot_pins.pop(0))

    def _next(self, state: RunState) -> list[EpisodeSpec]:
        """Return the next group of plays; more are drawn if none is left."""
        if not self._unissued:
            self._draw(state)
        return self._unissued.popleft()

    def _draw(self, state: RunState) -> None:
        config, published = self._config, self._workers.published
        inputs = StepInputs.of(self._engine, state, self._draws)
        specs = specs_of(
            config,
            self._engine,
            self._methods,
            inputs,
            book=book_of(config, self._engine, inputs),
            progress=state.step / config.steps,
        )
        seated = {player for spec in self._workers.seated(specs) for player in spec.players}
        self._snapshot_pins.append(published.pin(each for each in seated if each.step is not None))
        groups: dict[int, list[EpisodeSpec]] = {}
        for spec in specs:  # those of one fixed start need not lie together
            groups.setdefault(spec.group_id, []).append(spec)
            self._arms[spec.group_id] = spec.arm
        self._unissued.extend(groups.values())
        self._draws += 1

    def _listen(self, admission: Admission, *, wait: bool) -> None:
        """Take what has come; ``wait`` for something."""
        lost, answered = self._workers.poll_units(wait=wait)
        for unit in lost:
            admission.reissue(unit)
        for unit, rollout in answered:
            self._counts += rollout.counts
            episodes: dict[int, list[Episode]] = {}
            for episode in rollout.episodes:
                episodes.setdefault(episode.group_id, []).append(episode)
            admission.answer(unit, {group: len(plays) for group, plays in episodes.items()})
            self._arrived |= {group: tuple(plays) for group, plays in episodes.items()}
            for group in rollout.counts.dropped_groups:
                self._arms.pop(group, None)

    def _staleness(self, episodes: tuple[Episode, ...]) -> list[int]:
        """Return of each trained turn how many updates its weights are behind, its oldest ones."""
        versions = self._engine.versions
        return [
            versions[player.name or MAIN] - _oldest_version(turn)
            for episode in episodes
            for turn in episode.turns
            if episode.trained[turn.seat] and (player := episode.players[turn.seat]).kind in OWN
        ]

    def _step(
        self,
        state: RunState,
        admission: Admission,
        fresh: list[FreshGroup],
        stale: list[FreshGroup],
    ) -> StepEpisodes:
        """Return the plays of a step: shaped, and without those that selection leaves out."""
        lags = [lag for group in fresh for lag in self._staleness(group.episodes)]
        played = shape_episodes(
            self._config,
            self._engine,
            self._methods,
            [episode for group in (*fresh, *stale) for episode in group.episodes],
            step=state.step,
            withheld=frozenset(each.episode_id for group in stale for each in group.episodes),
        )
        played.arm_of = {group.number: group.arm for group in (*fresh, *stale)}
        played.observed = [(table, played.arm_of) for table, _ in played.observed]
        played.counts, self._counts = self._counts, RolloutCounts()
        played.lag = sum(lags) / max(len(lags), 1)
        played.metrics["lag_max"] = float(max(lags, default=0))
        taken = [sum(len(group.episodes) for group in groups) for groups in (stale, fresh)]
        played.metrics["withheld_share"] = taken[0] / max(sum(taken), 1)
        account = asdict(admission.account)
        played.metrics |= {f"{name}_games": float(number) for name, number in account.items()}
        return played


def _oldest_version(turn: Turn) -> int:
    """Return the version of the oldest weights that a reply was sampled with."""
    runs = [part for part in turn.segments if part.kind == "sampled" and part.ids]
    return min((part.weights_version for part in runs), default=turn.weights_version)


def _read_issued(path: Path) -> int:
    """Return how many plays a run folder says were issued; 0 where it says nothing."""
    try:
        return int(parse_json(path.read_bytes())["issued"])
    except FileNotFoundError:
        return 0
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} should say how many plays were issued, and cannot be read ({error!r}). Remove "
            "it to count from the checkpoint, or start anew with --overwrite."
        ) from error
