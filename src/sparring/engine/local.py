"""The engine in one process: it plays, computes values, updates weights, and saves them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from sparring.config import RunConfig
from sparring.config.parts import named_components
from sparring.config.plugins.registry import bind, required_services, sort_columns
from sparring.config.sections import FRESH
from sparring.core.errors import CheckpointError, ConfigError, ModelError, SparringError
from sparring.core.files import parse_json, write_synced
from sparring.core.records import (
    LEARNER,
    MAIN,
    Credit,
    Episode,
    FloatArray,
    PlayerRef,
    TurnTable,
    ref,
    snapshot,
)
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.engine.players import Players, PlayingPolicy
from sparring.engine.protocol import Batch, FreshRollouts, Pinned, ReplyJudges
from sparring.environments.base import Environment
from sparring.learn.gradient_step import check_output, require_finite_columns
from sparring.learn.learner import Learner
from sparring.learn.pack import (
    Pack,
    WeightedLoss,
    critic_position,
    legal_replies,
    nothing_fits,
    pack,
)
from sparring.learn.reward_model import ProcessLearner
from sparring.learn.weight_files import (
    READ_ERRORS,
    Snapshot,
    load_member,
    load_optimizer,
    load_weights,
    planned_snapshots,
    save_optimizer,
    save_weights,
    snapshots_to_save,
    update_reference,
)
from sparring.measure.exploitability import query_policy
from sparring.measure.info_states import (
    ActionScorer,
    InfoStates,
    enumerate_info_states,
    exact_values,
)
from sparring.methods.columns.base import ValuePosition, with_column
from sparring.models.language_model import LanguageModel
from sparring.play.rollout import Rollout, StartedRollout
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import ordered_turns, turn_table, with_components

if TYPE_CHECKING:
    from sparring.engine.workers.distributed import DistributedRollouts


class LearningRanks(Protocol):
    """Several learners that update the policies of a run together."""

    def learn(
        self, policy: Policy, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update a policy's weights once, as ``Policy.learn`` does with one learner."""

    def clear_sent_versions(self) -> None:
        """Let the next update send all weights and optimisers again."""


class EngineSource:
    """Computes columns of a batch with a policy's models, and adds them to ``turns``."""

    def __init__(
        self,
        policy: Policy,
        turns: TurnTable,
        episodes: Sequence[Episode],
        data: Pack,
        exact: ExactFunction,
    ) -> None:
        self.turns, self.episodes = turns, episodes
        self._policy, self._data, self._compute_exact = policy, data, exact
        self._exact_columns: Mapping[str, FloatArray] | None = None

    def add(self, name: str) -> None:
        """Compute a column.

        Raises:
            DivergedError: a value is not finite.
            PluginError: the column's function did not return a column.
        """
        column: FloatArray = bind("columns", name)(self)
        self.turns = with_column(self.turns, name, require_finite_columns({name: column})[name])

    def critic(self, at: ValuePosition) -> FloatArray:
        """Return the critic's values; see ``columns.base.ColumnSource``."""
        return self._policy.trained.turn_values(self._data, at=at)

    def logprobs(self, of: Literal["learner", "reference", "process"]) -> FloatArray:
        """Return a model's log-probabilities of the turns; see ``columns.base.ColumnSource``."""
        if of != "process":
            return self._policy.trained.turn_logprobs(self._data, of_reference=of == "reference")
        if self._policy.process is None:
            raise ConfigError(
                "A column reads the reward model, which this run lacks; write REQUIRED_SERVICES = "
                '{"process"} into its module.'
            )
        return self._policy.process.turn_logprobs(self._data)

    def exact(self) -> Mapping[str, FloatArray]:
        """Return the exact values of the turns; see ``columns.base.ColumnSource``."""
        if self._exact_columns is None:
            self._exact_columns = self._compute_exact(self)
        return self._exact_columns


ExactFunction = Callable[[EngineSource], Mapping[str, FloatArray]]


class Moments(Protocol):
    """Processes that learn, and hold the states of the optimisers."""

    def save(self, policy: str, path: Path) -> None:
        """Write the state of a policy's optimiser like ``save_optimizer``."""

    def keep(self, policy: str, path: Path) -> None:
        """Take the state of a policy's optimiser from a file that may be deleted afterwards."""

    def imitate(self, policy: Policy, episodes: Sequence[Episode]) -> float:
        """Make one supervised update; see ``Policy.imitate``."""

    def set_reference(self, policy: str) -> None:
        """Make a policy's current weights its reference."""


class Policy(PlayingPolicy):
    """A policy that plays, and its learner if it is trained.

    Args:
        name: the policy's name.
        config: configuration of a run with only this policy.
        model: the model with its weights, from ``engine.players``.
        root: the random stream of the policy.
        frozen: whether the policy is not trained; it then has no learner and no snapshots.
    """

    def __init__(
        self, name: str, config: RunConfig, model: LanguageModel, root: Stream, *, frozen: bool
    ) -> None:
        super().__init__(name, config, model, root, frozen=frozen)
        self.learner: Learner | None = None
        self.moments: Moments | None = None  # set if other processes hold the optimiser's state
        self.process: ProcessLearner | None = None
        if frozen:
            return
        credit = config.credit.bind("credit")
        self.columns = sort_columns(credit.needs)
        components = named_components(credit).values()
        self._components = [name for name in components if isinstance(name, str)]
        self._has_candidates = "candidates" in required_services(credit)
        self._process_columns = [
            name for name in self.columns if "process" in required_services(bind("columns", name))
        ]
        losses = [
            WeightedLoss(bound=loss.bind("losses"), weight=parse(loss.weight))
            for loss in config.losses
        ]
        self.replies = legal_replies(
            frozenset().union(*(loss.bound.needs for loss in losses)), self.renderer
        )
        num_snapshots = planned_snapshots(config)
        self.learner = Learner(
            model,
            config.learner,
            losses,
            temperature=config.rollout.temperature,
            with_reference=num_snapshots["reference"] > 0,
            value_at=critic_position(self.columns),
        )
        self.average = self.learner.average
        if num_snapshots["process"]:
            self.process = ProcessLearner(model, config, credit)

    @property
    def trained(self) -> Learner:
        """The learner of the policy.

        Raises:
            ModelError: the policy is frozen.
        """
        if self.learner is None:
            raise ModelError(f"The policy {self.name!r} is frozen; nothing trains it.")
        return self.learner

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """All copies of the policy's weights in memory."""
        learner_snapshots = () if self.learner is None else self.learner.snapshots
        process_snapshots = () if self.process is None else (self.process.snapshot,)
        return (*self.past.values(), *learner_snapshots, *process_snapshots)

    def batch(
        self,
        episodes: Sequence[Episode],
        *,
        progress: float,
        exact: ExactFunction,
        turns: TurnTable | None = None,
    ) -> Batch:
        """Return the batch that the policy learns from, with the columns that its estimator NEEDS.

        The reward model is trained first. If the estimator reads replies that were not played, the
        batch has a row for each.

        Args:
            episodes: episodes in which only this policy's seats are trained.
            progress: share of the run that is done.
            exact: function that computes the exact columns of a batch.
            turns: the turn table of the episodes, if it exists already.
        """
        data, turns = self.pack_episodes(episodes, turns)
        source = EngineSource(self, turns, episodes, data, exact)
        for name in self.columns:
            if name not in self._process_columns:
                source.add(name)
        metrics: Mapping[str, float] = {}
        if self.process is not None:
            metrics = self.process.fit(data, source.turns, progress=progress)
            for name in self._process_columns:
                source.add(name)
        return Batch(
            episodes=episodes, turns=source.turns, pack=data, metrics=metrics, policy=self.name
        )

    def pack_episodes(
        self, episodes: Sequence[Episode], turns: TurnTable | None = None
    ) -> tuple[Pack, TurnTable]:
        """Return the training arrays and the turn table of episodes."""
        data = pack(episodes, self.replies, candidates=self._has_candidates)
        if turns is None or self._has_candidates:
            turns = turn_table(episodes, candidates=self._has_candidates)
        return data, with_components(turns, self._components)

    def learn(
        self, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights once; see ``Learner.update``. Without turns, they do not change.

        Raises:
            ModelError: there are no turns, because all conversations exceed the model's context.
        """
        if not len(batch.turns.reward):
            if any(episode.has_outgrown_context for episode in batch.episodes):
                raise nothing_fits(self.model.context, "step")
            return {}  # no seat of the policy had a turn
        batch.pack.fitting(self.model.context, "step")
        return self.update(
            batch.pack,
            batch.advantages(credit),
            credit.value_targets,
            trained=batch.trained(credit),
            turns=batch.turns,
            step=step,
            progress=progress,
        )

    def update(
        self,
        data: Pack,
        advantages: FloatArray,
        value_targets: FloatArray | None,
        *,
        step: int,
        **options: Any,
    ) -> dict[str, float]:
        """Update the weights from arrays of a step; see ``Learner.update``."""
        stream = self.root.child("update").child(step)
        return self.trained.update(data, advantages, value_targets, stream=stream, **options)

    def imitate(self, episodes: Sequence[Episode]) -> float:
        """Make one supervised update towards the policy's recorded replies; return the loss."""
        if self.moments is not None:
            return self.moments.imitate(self, episodes)
        loss = self.trained.imitate(pack(episodes), self.config.warmup.learning_rate)
        if self.process is not None:
            self.process.follow(self.model)
        return loss

    @property
    def saved_snapshots(self) -> list[Snapshot]:
        """The learner's snapshots that a checkpoint must hold."""
        return snapshots_to_save(self.trained.snapshots, self.config)

    def file_name(self, content: str) -> str:
        """Return the policy's file name in a checkpoint for this content, such as "model"."""
        return f"{'' if self.name == MAIN else f'{self.name}-'}{content}.safetensors"

    def _snapshot_file(self, step: int) -> str:
        return f"{snapshot(step, self.name)}.safetensors"

    def save(self, folder: Path, earlier: Path | None = None) -> dict[str, Any]:
        """Write the policy into a checkpoint's folder, and return metadata for ``restore``.

        Args:
            folder: folder of the new checkpoint.
            earlier: the checkpoint that was saved or restored last; its snapshots are linked.

        Raises:
            DivergedError: a value is not finite.
            OSError: the disk is full or not writable.
        """
        if self.learner is not None:
            check_output(self.model)
            self.save_learner(folder)
        if self.process is not None:
            self.process.snapshot.save(folder / self.file_name("process"))
            save_optimizer(self.process.optimizer, folder / self.file_name("process_optimizer"))
        for step, past_snapshot in self.past.items():
            name = self._snapshot_file(step)
            past_snapshot.save(folder / name, earlier / name if earlier is not None else None)
        versions = {
            str(snapshot(step, self.name)): past_snapshot.model.version
            for step, past_snapshot in self.past.items()
        }
        meta: dict[str, Any] = {"version": self.model.version, "members": versions}
        if self.model.frozen_digest:
            meta["base"] = self.model.frozen_digest
        return meta

    def save_learner(self, folder: Path) -> None:
        """Write the learner's weights, optimiser and snapshots into a folder.

        Raises:
            ModelError: the policy is frozen.
            DivergedError: a value is not finite.
            OSError: the disk is full or not writable.
        """
        save_weights(self.model, folder / self.file_name("model"))
        if self.moments is not None:
            self.moments.save(self.name, folder / self.file_name("optimizer"))
        else:
            save_optimizer(self.trained.optimizer, folder / self.file_name("optimizer"))
        for learner_snapshot in self.saved_snapshots:
            learner_snapshot.save(folder / self.file_name(learner_snapshot.purpose))

    def restore_learner(self, folder: Path, version: int) -> None:
        """Restore what ``save_learner`` wrote.

        Args:
            folder: folder with the files.
            version: number of updates so far.

        Raises:
            CheckpointError: the optimiser's state belongs to other parameters.
            ModelError: a file is of another model.
        """
        load_weights(self.model, folder / self.file_name("model"), version)
        for learner_snapshot in self.saved_snapshots:
            learner_snapshot.restore(folder / self.file_name(learner_snapshot.purpose), version)
        path = folder / self.file_name("optimizer")
        if self.moments is not None:
            self.moments.keep(self.name, path)
        else:
            load_optimizer(self.trained.optimizer, path)

    def restore(self, folder: Path, meta: Mapping[str, Any]) -> None:
        """Restore what ``save`` wrote.

        Args:
            folder: folder of the checkpoint.
            meta: the metadata that ``save`` returned.

        Raises:
            CheckpointError: the metadata names a snapshot of another policy.
            ModelError: a file is of another model, or the frozen weights have changed.
        """
        if meta.get("base", self.model.frozen_digest) != self.model.frozen_digest:
            raise ModelError(
                f"model.name={self.config.model.name!r} is no longer the model that the "
                f"{'run played with' if self.frozen else 'adapters'} in {folder} "
                f"{'' if self.frozen else 'were trained on'}: its frozen weights have "
                f"SHA-256 {self.model.frozen_digest[:12]}, not {meta['base'][:12]}. Put the "
                "old weights back."
            )
        version = meta["version"]
        if self.learner is not None:
            self.restore_learner(folder, version)
        if self.process is not None:
            self.process.snapshot.restore(folder / self.file_name("process"), version)
            load_optimizer(self.process.optimizer, folder / self.file_name("process_optimizer"))
        self.past.clear()
        for name, updates in meta["members"].items():
            member = ref(name) if name else None
            if member is None or member.step is None or member != member.for_policy(self.name):
                raise CheckpointError(
                    f"The checkpoint {folder} names a snapshot {name!r}; names must look "
                    f"like {snapshot(40, self.name)}."
                )
            path = folder / self._snapshot_file(member.step)
            self.past[member.step] = load_member(name, self.model, path, updates)


@dataclass(frozen=True, kw_only=True, slots=True)
class _StateIndex:
    states: InfoStates
    index_of: dict[tuple[int, str], int]  # (seat, key) -> index of the information state


class ExactColumns:
    """Computes ``action_value``, ``state_value``, ``default_value`` by enumeration of small games.

    A game's values are multiplied by its entry in ``scales`` (default 1), as its payoffs are.

    Raises:
        TooLargeError: a game has more information states than ``limit``.
    """

    def __init__(
        self, games: Sequence[Environment], limit: int, scales: Mapping[str, float] | None = None
    ) -> None:
        self._scales = dict(scales or {})
        self._indices: dict[str, _StateIndex] = {}
        for game in games:
            states = enumerate_info_states(game, limit=limit)
            index_of = {(query.seat, query.key): n for n, query in enumerate(states.queries)}
            self._indices[game.name] = _StateIndex(states=states, index_of=index_of)

    def of(
        self, turns: TurnTable, episodes: Sequence[Episode], policy: ActionScorer
    ) -> dict[str, FloatArray]:
        """Return the columns, [N] each, for the policy renormalised over legal actions.

        The value of an illegal reply is the turn's reward; the value of a memory is the state's
        value. A seat that replies again after an illegal reply is in the same information state.
        """
        values = {}
        for name in {episode.game for episode in episodes}:
            states = self._indices[name].states
            values[name] = exact_values(states, query_policy(policy, states)[0])
        action_value = turns.reward.copy()
        state_value, default_value = np.zeros(len(action_value)), np.zeros(len(action_value))
        rows = ordered_turns(episodes, candidates=turns.state_group is not None)
        for row, (episode, turn) in enumerate(rows):
            state_index, game_values = self._indices[episode.game], values[episode.game]
            is_memory = turn.event == "memory"
            key = turn.state_key.removesuffix("|memory" if is_memory else "")
            index = state_index.index_of[turn.seat, key]
            scale = self._scales.get(episode.game, 1.0)
            state_value[row] = scale * game_values.state[index]
            default_value[row] = scale * game_values.action[index].mean()
            if is_memory:  # any memory leads to the same state
                action_value[row] = default_value[row] = state_value[row]
            if turn.action is not None:
                legal = state_index.states.queries[index].legal_actions
                action_value[row] = scale * game_values.action[index][legal.index(turn.action)]
        columns = {"action_value": action_value, "state_value": state_value}
        return {**columns, "default_value": default_value}


class LocalEngine(Players):
    """The policies of a run, which play and learn in this process."""

    policies: dict[str, Policy]

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config, Policy)
        self.exact = self._exact_columns([game for game, _ in self.environments])
        self.workers: DistributedRollouts | None = None  # set if workers play
        self.ranks: LearningRanks | None = None  # set if there are several learners

    def play(self, specs: Sequence[EpisodeSpec], judging: ReplyJudges | None = None) -> Rollout:
        """Play episodes in this process or on workers; see ``Players.play``."""
        return (self.workers.play if self.workers else super().play)(specs, judging)

    def begin(
        self,
        specs: Sequence[EpisodeSpec],
        judging: ReplyJudges | None = None,
        pinned: Pinned | None = None,
    ) -> StartedRollout:
        """Start to play episodes; see ``DistributedRollouts.begin``."""
        if self.workers is None:
            return StartedRollout(partial(self.play, specs, judging))
        return self.workers.begin(specs, judging, pinned)

    def pin(self, keys: Pinned | None = None) -> Pinned | None:
        """Pin the current weights, or pinned weights of a checkpoint; see ``PublishedWeights``."""
        if self.workers is None:
            return None
        published = self.workers.published
        return published.pin_all() if keys is None else published.pin_existing(keys)

    def release(self, pinned: Pinned) -> None:
        """Unpin weights."""
        if self.workers is not None:
            self.workers.published.release(pinned)

    @property
    def fresh(self) -> FreshRollouts | None:
        """The workers of a run in fresh order; None in other runs."""
        is_fresh = self.config.scale.order == FRESH and self.workers is not None
        return cast("FreshRollouts", self.workers) if is_fresh else None

    @property
    def versions(self) -> dict[str, int]:
        """The number of updates of each trained policy."""
        return {name: self.policies[name].model.version for name in self.learners}

    def timing(self) -> dict[str, float]:
        """Return measured times since the last call; see ``DistributedRollouts.timing``."""
        return self.workers.timing() if self.workers else {}

    def _exact_columns(self, games: Sequence[Environment]) -> ExactColumns | None:
        if not any(
            "tree" in required_services(self.policies[name].config.credit.bind("credit"))
            for name in self.learners
        ):
            return None
        scales = {section.display_name: section.scale for section in self.config.environments}
        return ExactColumns(games, self.config.evaluation.max_states, scales)

    @property
    def model(self) -> LanguageModel:
        """The model of the first trained policy."""
        return self.policies[self.learners[0]].model

    @property
    def learner(self) -> Learner:
        """The learner of the first trained policy."""
        return self.policies[self.learners[0]].trained

    def batch(
        self,
        episodes: Sequence[Episode],
        *,
        progress: float,
        policy: str | None = None,
        turns: TurnTable | None = None,
    ) -> Batch:
        """Return the batch that a policy learns from, with the columns that its estimator NEEDS.

        Args:
            episodes: episodes of a step; episodes that train no seat of the policy are left out.
            progress: share of the run that is done.
            policy: the policy's name; None: the first trained policy.
            turns: the turn table of the episodes, if it exists already.
        """
        owner = self.policies[self.learners[0] if policy is None else policy]
        own_episodes = self.trained_in(owner.name, episodes)
        table = turns if own_episodes is episodes else None
        return owner.batch(own_episodes, progress=progress, exact=self._exact_of, turns=table)

    def _exact_of(self, source: EngineSource) -> Mapping[str, FloatArray]:
        if self.exact is None:
            raise ConfigError(
                "A column reads exact values, which this run lacks; write REQUIRED_SERVICES = "
                '{"tree"} into its module.'
            )
        scorer: Any = self.agent(LEARNER)
        return self.exact.of(source.turns, source.episodes, scorer)

    def entropies(self, batch: Batch) -> FloatArray:
        """Return the sampling entropy at each sampled token, [M], in nats."""
        return self.policies[batch.policy].trained.entropies(batch.pack)

    def learn(
        self, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights of the batch's policy once; see ``Policy.learn``."""
        policy = self.policies[batch.policy]
        if self.ranks is not None:
            return self.ranks.learn(policy, batch, credit, step=step, progress=progress)
        return policy.learn(batch, credit, step=step, progress=progress)

    def imitate(self, episodes: Sequence[Episode]) -> float:
        """Make one supervised update of each policy towards its replies; return the mean loss."""
        pairs = [(self.policies[name], self.trained_in(name, episodes)) for name in self.learners]
        losses = [policy.imitate(own_episodes) for policy, own_episodes in pairs if own_episodes]
        return sum(losses) / max(len(losses), 1)

    def set_reference(self) -> None:
        """Make the current weights of each trained policy its reference."""
        for policy in map(self.policies.__getitem__, self.learners):
            update_reference(policy.trained.snapshots, policy.model)
            if policy.moments is not None:
                policy.moments.set_reference(policy.name)

    def take_member(self, member: PlayerRef) -> None:
        """Add copies of the weights of a snapshot's policies to the league."""
        assert member.step is not None, "a snapshot"
        for policy_snapshot in self.parts(member):
            policy = self.policies[policy_snapshot.name or MAIN]
            policy.past[member.step] = Snapshot.of(policy.model, "past")

    def restart(self, member: PlayerRef) -> None:
        """Continue the policies of a snapshot from its weights; see ``Learner.restart``."""
        assert member.step is not None, "a snapshot"
        for policy_snapshot in self.parts(member):
            policy = self.policies[policy_snapshot.name or MAIN]
            policy.trained.restart(policy.past[member.step])

    def save(self, folder: Path, earlier: Path | None = None) -> None:
        """Write everything into a checkpoint's folder, as safetensors and JSON.

        Args:
            folder: folder of the new checkpoint, empty.
            earlier: the checkpoint that this engine saved or restored last; snapshots in it are
                linked.

        Raises:
            DivergedError: a value is not finite.
            OSError: the disk is full or not writable.
        """
        metas = {name: policy.save(folder, earlier) for name, policy in self.policies.items()}
        meta = {"policies": metas} if self.config.policies else metas[MAIN]
        if self.config.scale.lag and self.workers is not None and self.fresh is None:
            meta = {**meta, "open": self.workers.published.save(folder)}
        write_synced(folder / "engine.json", json.dumps(meta).encode())

    def restore(self, folder: Path) -> None:
        """Restore what ``save`` wrote from a checkpoint's folder.

        Raises:
            CheckpointError: a file is missing or of another model.
            ModelError: the frozen weights have changed since.
        """
        if self.ranks is not None:
            self.ranks.clear_sent_versions()
        try:
            meta = parse_json((folder / "engine.json").read_bytes())
            metas = meta["policies"] if self.config.policies else {MAIN: meta}
            for member in self.members:
                self.drop_member(member)
            for name, policy in self.policies.items():
                policy.restore(folder, metas[name])
            if self.workers is not None:
                self.workers.published.restore(folder, meta.get("open", {}))
        except SparringError:
            raise
        except READ_ERRORS as error:
            raise CheckpointError(
                f"The checkpoint {folder} cannot be loaded: {error!r}."
            ) from error
