"""Steps played ahead of the learner: with fixed staleness (``scale.lag``), or in fresh order.

Pinned order. The episodes of step s begin once the learner has finished step s - lag - 1; they use
the weights, the league, the curriculum and the payoff book of that moment. So configuration and
seed determine the episodes, however long workers and learner take. A step is open from its
beginning until the learner takes it. A checkpoint holds the inputs of open steps; a resumed run
plays them again.

Fresh order. A step learns from the episodes that arrive first, whenever they were issued. The
unfinished episodes fill ``scale.lag`` + 1 steps. Episodes that arrive during an update wait for the
next step. A group is withheld if a turn is staler than ``scale.lag`` when a step takes it. Withheld
groups are recorded, and update payoff book and curriculum, but are not trained on.

A checkpoint holds the groups that have arrived. Unfinished episodes are lost when the process ends,
and count as lost: ``issued.json`` in the run folder has the number of issued episodes.

Metrics of all episodes since the run began:
    issued_games            episodes issued to workers, counted at each issue
    learned_games           episodes that a step took to learn from
    withheld_games          episodes that were too stale when a step took them
    lost_games              episodes lost with a worker, with their group, or with the training
                            process
    open_games              episodes that are being played, or not yet used by a step
Metrics of the step, beside lag:
    lag_max                 largest staleness of a trained turn, in updates; at most scale.lag, as
                            groups with staler turns are withheld
    withheld_share          share of too stale episodes among the episodes that the step took
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
from sparring.core.records import MAIN, POLICY_KINDS, Episode, Turn, refs
from sparring.engine.protocol import Engine, FreshRollouts, Pinned
from sparring.engine.workers.episode_budget import ISSUED_FILE, Admission
from sparring.league.payoffs import Payoffs
from sparring.play.rollout import Rollout, RolloutCounts, StartedRollout
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

OPEN = "open"  # key of the open steps in a run's state


class Prefetch:
    """Opens steps ahead of the learner, and returns their episodes.

    Args:
        config: the run's configuration, with ``scale.lag`` above 0.
        engine: the run's models.
        methods: the run's plug-ins.
    """

    def __init__(self, config: RunConfig, engine: Engine, methods: Methods) -> None:
        self._step_arguments = config, engine, methods
        self._open: dict[int, _OpenStep] = {}

    def episodes_of(self, state: RunState) -> StepEpisodes:
        """Return the episodes of the next step, after opening steps up to ``scale.lag`` ahead.

        Args:
            state: the current state of the run.

        Raises:
            ConfigError: the engine keeps no older weights.
            CheckpointError: the state of open steps cannot be read.
            RolloutError: no episode could be played.
        """
        config, engine, _ = self._step_arguments
        records = state.json(OPEN)
        end = max(min(state.step + config.scale.lag + 1, config.steps), state.step + 1)
        for step in range(state.step, end):
            if step not in self._open:
                inputs = _restore_inputs(engine, step, records.get(str(step)))
                self._open[step] = _OpenStep(
                    inputs or self._pin_inputs(step, state), *self._step_arguments
                )
        current_step = self._open.pop(state.step)
        episodes = current_step.result()
        if current_step.inputs.pinned is not None:
            engine.release(current_step.inputs.pinned)
        for open_step in self._open.values():
            open_step.advance()
        return episodes

    def state(self) -> dict[str, Any]:
        """Return the state of open steps for a checkpoint."""
        return {
            OPEN: {
                str(step): _record_inputs(open_step.inputs)
                for step, open_step in self._open.items()
            }
        }

    def _pin_inputs(self, step: int, state: RunState) -> StepInputs:
        config, engine, _ = self._step_arguments
        pinned = engine.pin()
        if pinned is None:
            raise ConfigError(
                f"scale.lag={config.scale.lag}: this engine keeps no older weights; train with "
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
        self._rollout: StartedRollout | None = None
        self._begin(None)

    def _begin(self, rollout: Rollout | None) -> None:
        try:
            request = next(self._requests) if rollout is None else self._requests.send(rollout)
        except StopIteration as stop:
            self._episodes, self._rollout = stop.value, None
        else:
            self._rollout = self._engine.begin(request.specs, request.judges, self.inputs.pinned)

    def advance(self) -> None:
        """Request more episodes, if the requested ones have arrived, without waiting."""
        while self._rollout is not None and self._rollout.is_ready():
            self._begin(self._rollout.result())

    def result(self) -> StepEpisodes:
        while self._rollout is not None:
            self._begin(self._rollout.result())
        assert self._episodes is not None, "no request is left"
        return self._episodes


def _record_inputs(inputs: StepInputs) -> dict[str, Any]:
    return {
        "learnt": inputs.num_learned_steps,
        "members": [str(member) for member in inputs.members],
        "curriculum": inputs.curriculum,
        "payoffs": inputs.payoffs.to_json(),
        "weights": [list(key) for key in inputs.pinned or ()],
        **({"live": inputs.only_policy} if inputs.only_policy else {}),
    }


def _restore_inputs(
    engine: Engine, step: int, record: Mapping[str, Any] | None
) -> StepInputs | None:
    if record is None:
        return None
    try:
        return StepInputs(
            step=step,
            num_learned_steps=int(record["learnt"]),
            members=refs(record["members"]),
            curriculum=record["curriculum"],
            payoffs=Payoffs.from_json(record["payoffs"]),
            pinned=engine.pin(tuple((name, version) for name, version in record["weights"])),
            only_policy=str(record.get("live", "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"The checkpoint's record of step {step}, which was unfinished, cannot be read "
            f"({error!r}). Take an earlier checkpoint, or start anew with --overwrite."
        ) from error


class FreshSteps:
    """Issues episodes, and returns for each step those that arrive first.

    Args:
        config: the run's configuration.
        engine: the run's models.
        methods: the run's plug-ins.
    """

    def __init__(self, config: RunConfig, engine: Engine, methods: Methods) -> None:
        self._config, self._engine, self._methods = config, engine, methods
        self._admission: Admission | None = None  # None before the first step
        self._num_draws = 0  # draws of specs so far
        self._unissued_groups: deque[list[EpisodeSpec]] = deque()  # groups not issued yet
        self._snapshot_pins: list[Pinned] = []  # for each draw, the snapshots that its specs use
        self._arms: dict[int, str] = {}  # arm of each group that no step has taken
        self._arrived_episodes: dict[int, tuple[Episode, ...]] = {}
        self._counts = RolloutCounts()  # counts of arrivals since the last step

    def episodes_of(self, state: RunState) -> StepEpisodes:
        """Return the episodes of the next step, once enough have arrived.

        Args:
            state: the current state of the run.

        Raises:
            ConfigError: there are no workers.
            CheckpointError: the number of issued episodes cannot be read.
            RolloutError: episodes cannot be played.
        """
        admission = self._admission or self._begin(state)
        admission.begin_step(state.step)
        self._workers.publish_weights()
        num_games, lag = self._config.rollout.games_per_step, self._config.scale.lag
        fresh, stale = list[FreshGroup](), list[FreshGroup]()
        while sum(len(group.episodes) for group in fresh) < num_games:
            self._issue(state, admission)
            if not admission.arrived_groups:
                self._listen(admission, wait=True)
                continue
            number = admission.arrived_groups[0]
            group = FreshGroup(number, self._arms.pop(number), self._arrived_episodes.pop(number))
            is_stale = max(self._staleness(group.episodes), default=0) > lag
            admission.take_group(number, is_too_stale=is_stale)
            (stale if is_stale else fresh).append(group)
        return self._build_step(state, admission, fresh, stale)

    def state(self) -> dict[str, Any]:
        """Publish the current weights, and return the state of arrived groups for a checkpoint."""
        admission = self._admission
        assert admission is not None, "a step was played"
        self._workers.publish_weights()
        self._listen(admission, wait=False)
        groups = [
            FreshGroup(number, self._arms[number], self._arrived_episodes[number])
            for number in admission.arrived_groups
        ]
        return {FRESH: FreshRecord(admission.budget, self._num_draws, groups)}

    @property
    def _workers(self) -> FreshRollouts:
        workers = self._engine.fresh
        if workers is None:
            raise ConfigError(
                "scale.order=fresh: this engine has no workers; train with `sparring train` or "
                "sparring.train, or write scale.order: pinned."
            )
        return workers

    def _begin(self, state: RunState) -> Admission:
        """Restore a checkpoint; episodes unfinished there, or issued later, count as lost."""
        record, config = state.fresh, self._config
        budget = record.budget.after_kill(_read_issued(self._workers.run / ISSUED_FILE))
        self._workers.set_num_issued(budget.issued)
        self._num_draws = record.num_draws
        self._admission = admission = Admission(
            games_per_step=config.rollout.games_per_step,
            lag=config.scale.lag,
            steps=config.steps,
            budget=budget,
        )
        admission.restore_groups({group.number: len(group.episodes) for group in record.groups})
        self._arms = {group.number: group.arm for group in record.groups}
        self._arrived_episodes = {group.number: group.episodes for group in record.groups}
        return admission

    def _issue(self, state: RunState, admission: Admission) -> None:
        specs_by_unit: list[list[EpisodeSpec]] = []
        num_open_slots = admission.num_issuable
        while num_open_slots > 0:
            unit_specs: list[EpisodeSpec] = []
            while len(unit_specs) < min(self._config.scale.unit_games, num_open_slots):
                unit_specs += self._next_group(state)
            specs_by_unit.append(unit_specs)
            num_open_slots -= len(unit_specs)
        if not specs_by_unit:
            return
        progress = state.step / self._config.steps
        pinned_keys = tuple(sorted({key for pinned in self._snapshot_pins for key in pinned}))
        units = self._workers.issue(specs_by_unit, progress, pinned_keys)
        for unit, unit_specs in zip(units, specs_by_unit, strict=True):
            admission.issue(unit, Counter(spec.group_id for spec in unit_specs))
        while len(self._snapshot_pins) > 1:  # all unissued groups are of the last draw
            self._workers.published.release(self._snapshot_pins.pop(0))

    def _next_group(self, state: RunState) -> list[EpisodeSpec]:
        if not self._unissued_groups:
            self._draw_specs(state)
        return self._unissued_groups.popleft()

    def _draw_specs(self, state: RunState) -> None:
        config, published = self._config, self._workers.published
        inputs = StepInputs.of(self._engine, state, self._num_draws)
        specs = specs_of(
            config,
            self._engine,
            self._methods,
            inputs,
            book=book_of(config, self._engine, inputs),
            progress=state.step / config.steps,
        )
        players = {
            player for spec in self._workers.with_named_policies(specs) for player in spec.players
        }
        self._snapshot_pins.append(
            published.pin(player for player in players if player.step is not None)
        )
        groups: dict[int, list[EpisodeSpec]] = {}
        for spec in specs:  # specs of one group need not be adjacent
            groups.setdefault(spec.group_id, []).append(spec)
            self._arms[spec.group_id] = spec.arm
        self._unissued_groups.extend(groups.values())
        self._num_draws += 1

    def _listen(self, admission: Admission, *, wait: bool) -> None:
        lost_units, finished_units = self._workers.poll_units(wait=wait)
        for unit in lost_units:
            admission.reissue(unit)
        for unit, rollout in finished_units:
            self._counts += rollout.counts
            groups: dict[int, list[Episode]] = {}
            for episode in rollout.episodes:
                groups.setdefault(episode.group_id, []).append(episode)
            admission.record_arrival(
                unit, {number: len(episodes) for number, episodes in groups.items()}
            )
            self._arrived_episodes |= {
                number: tuple(episodes) for number, episodes in groups.items()
            }
            for group in rollout.counts.dropped_groups:
                self._arms.pop(group, None)

    def _staleness(self, episodes: tuple[Episode, ...]) -> list[int]:
        """Return each trained turn's staleness: updates since its oldest sampling weights."""
        versions = self._engine.versions
        return [
            versions[player.name or MAIN] - _oldest_version(turn)
            for episode in episodes
            for turn in episode.turns
            if episode.trained[turn.seat]
            and (player := episode.players[turn.seat]).kind in POLICY_KINDS
        ]

    def _build_step(
        self,
        state: RunState,
        admission: Admission,
        fresh_groups: list[FreshGroup],
        stale_groups: list[FreshGroup],
    ) -> StepEpisodes:
        lags = [lag for group in fresh_groups for lag in self._staleness(group.episodes)]
        result = shape_episodes(
            self._config,
            self._engine,
            self._methods,
            [episode for group in (*fresh_groups, *stale_groups) for episode in group.episodes],
            step=state.step,
            stale_ids=frozenset(
                episode.episode_id for group in stale_groups for episode in group.episodes
            ),
        )
        result.arm_of = {group.number: group.arm for group in (*fresh_groups, *stale_groups)}
        result.observed = [(table, result.arm_of) for table, _ in result.observed]
        result.counts, self._counts = self._counts, RolloutCounts()
        result.lag = sum(lags) / max(len(lags), 1)
        result.metrics["lag_max"] = float(max(lags, default=0))
        num_stale, num_fresh = (
            sum(len(group.episodes) for group in groups) for groups in (stale_groups, fresh_groups)
        )
        result.metrics["withheld_share"] = num_stale / max(num_stale + num_fresh, 1)
        budget = asdict(admission.budget)
        result.metrics |= {f"{name}_games": float(number) for name, number in budget.items()}
        return result


def _oldest_version(turn: Turn) -> int:
    segments = [segment for segment in turn.segments if segment.kind == "sampled" and segment.ids]
    return min((segment.weights_version for segment in segments), default=turn.weights_version)


def _read_issued(path: Path) -> int:
    try:
        return int(parse_json(path.read_bytes())["issued"])
    except FileNotFoundError:
        return 0
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} should hold the number of issued episodes, but cannot be read ({error!r}). "
            "Remove it to count from the checkpoint, or start anew with --overwrite."
        ) from error
