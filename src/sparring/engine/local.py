"""Everything that touches the models, in one process: sampling, values, updates, saving."""

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
from sparring.config.plugins.registry import bind, ordered, required_services
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
from sparring.engine.protocol import Batch, FreshRollouts, Judging, Pinned
from sparring.environments.base import Environment
from sparring.learn.gradient_step import check_output, finite_columns
from sparring.learn.learner import Learner
from sparring.learn.pack import Pack, WeightedLoss, fitted_at, legal_replies, nothing_fits, pack
from sparring.learn.reward_model import ProcessLearner
from sparring.learn.weight_files import (
    UNREADABLE,
    Snapshot,
    load_optimizer,
    load_weights,
    member_of,
    planned,
    save_optimizer,
    save_weights,
    snapshots_to_save,
    update_reference,
)
from sparring.measure.exploitability import ask
from sparring.measure.info_states import (
    ActionScorer,
    InfoStates,
    enumerate_info_states,
    exact_values,
)
from sparring.methods.columns.base import Place, with_column
from sparring.models.language_model import LanguageModel
from sparring.play.rollout import Begun, Rollout
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import ordered_turns, turn_table, with_components

if TYPE_CHECKING:
    from sparring.engine.workers.distributed import Distributed


class LearningRanks(Protocol):
    """Several learners of a run that update its policies together."""

    def learn(
        self, own: Policy, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update a policy's weights once, as ``Policy.learn`` does alone."""

    def forget(self) -> None:
        """Send what the learners hold anew before they learn again."""


class EngineSource:
    """The models of a policy, asked about the turns of a batch; ``turns`` grows by each column."""

    def __init__(
        self,
        policy: Policy,
        turns: TurnTable,
        episodes: Sequence[Episode],
        data: Pack,
        exact: Exact,
    ) -> None:
        self.turns, self.episodes = turns, episodes
        self._policy, self._data, self._ask = policy, data, exact
        self._exact: Mapping[str, FloatArray] | None = None

    def add(self, name: str) -> None:
        """Compute a column.

        Raises:
            DivergedError: it is not finite.
            PluginError: its function gave something else.
        """
        column: FloatArray = bind("columns", name)(self)
        self.turns = with_column(self.turns, name, finite_columns({name: column})[name])

    def critic(self, at: Place) -> FloatArray:
        """Return the critic's values; see ``columns.base.Source``."""
        return self._policy.trained.turn_values(self._data, at=at)

    def logprobs(self, of: Literal["learner", "reference", "process"]) -> FloatArray:
        """Return a model's log-probabilities of the turns; see ``columns.base.Source``."""
        if of != "process":
            return self._policy.trained.turn_logprobs(self._data, of_reference=of == "reference")
        if self._policy.process is None:
            raise ConfigError(
                "A column reads the reward model, which this run has not; write ASKS = "
                '{"process"} into its module.'
            )
        return self._policy.process.turn_logprobs(self._data)

    def exact(self) -> Mapping[str, FloatArray]:
        """Return the exact values of the turns; see ``columns.base.Source``."""
        if self._exact is None:
            self._exact = self._ask(self)
        return self._exact


Exact = Callable[[EngineSource], Mapping[str, FloatArray]]


class Moments(Protocol):
    """Who holds the state of optimisers that are not in this process, and learns with them."""

    def save(self, policy: str, path: Path) -> None:
        """Write the state of a policy's optimiser, as ``save_optimizer`` would."""

    def keep(self, policy: str, path: Path) -> None:
        """Take the state of a policy's optimiser from a file that may go."""

    def imitate(self, policy: Policy, episodes: Sequence[Episode]) -> float:
        """Take one supervised step; see ``Policy.imitate``."""

    def refer(self, policy: str) -> None:
        """Take what a policy has learnt so far as its reference."""


class Policy(PlayingPolicy):
    """A policy that plays, and its learner, if it is trained.

    Args:
        name: of the policy.
        config: of a run that has this policy alone.
        model: gives its weights; from ``engine.players``.
        root: all that is drawn for it derives from here.
        frozen: whether it is not trained: it has no learner, and no snapshots but itself.
    """

    def __init__(
        self, name: str, config: RunConfig, model: LanguageModel, root: Stream, *, frozen: bool
    ) -> None:
        super().__init__(name, config, model, root, frozen=frozen)
        self.learner: Learner | None = None
        self.moments: Moments | None = None  # who holds the optimiser's state, where others do
        self.process: ProcessLearner | None = None
        if frozen:
            return
        credit = config.credit.bind("credit")
        self.columns = ordered(credit.needs)
        named = named_components(credit).values()
        self._components = [name for name in named if isinstance(name, str)]
        self._all_replies = "candidates" in required_services(credit)
        self._after_process = [
            name for name in self.columns if "process" in required_services(bind("columns", name))
        ]
        losses = [
            WeightedLoss(bound=loss.bind("losses"), weight=parse(loss.weight))
            for loss in config.losses
        ]
        self.replies = legal_replies(
            frozenset().union(*(loss.bound.needs for loss in losses)), self.renderer
        )
        kept = planned(config)
        self.learner = Learner(
            model,
            config.learner,
            losses,
            temperature=config.rollout.temperature,
            with_reference=kept["reference"] > 0,
            value_at=fitted_at(self.columns),
        )
        self.average = self.learner.average
        if kept["process"]:
            self.process = ProcessLearner(model, config, credit)

    @property
    def trained(self) -> Learner:
        """What trains it.

        Raises:
            ModelError: it is frozen.
        """
        if self.learner is None:
            raise ModelError(f"The policy {self.name!r} is frozen; nothing trains it.")
        return self.learner

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """All copies of its weights that are held now."""
        kept = () if self.learner is None else self.learner.snapshots
        process = () if self.process is None else (self.process.snapshot,)
        return (*self.past.values(), *kept, *process)

    def batch(
        self,
        episodes: Sequence[Episode],
        *,
        progress: float,
        exact: Exact,
        turns: TurnTable | None = None,
    ) -> Batch:
        """Return what it learns from in these plays, with the columns that its estimator NEEDS.

        The reward model is trained first. Replies that were not played are in it if it reads them.

        Args:
            episodes: plays, in which its seats alone are trained.
            progress: share of the run that is done.
            exact: gives the exact columns of a batch.
            turns: the turn table of the plays, where it has been made before.
        """
        data, turns = self.packed(episodes, turns)
        source = EngineSource(self, turns, episodes, data, exact)
        for name in self.columns:
            if name not in self._after_process:
                source.add(name)
        metrics: Mapping[str, float] = {}
        if self.process is not None:
            metrics = self.process.fit(data, source.turns, progress=progress)
            for name in self._after_process:
                source.add(name)
        return Batch(
            episodes=episodes, turns=source.turns, pack=data, metrics=metrics, policy=self.name
        )

    def packed(
        self, episodes: Sequence[Episode], turns: TurnTable | None = None
    ) -> tuple[Pack, TurnTable]:
        """Return the training arrays of plays, and their turn table, where it is not given."""
        every = self._all_replies
        data = pack(episodes, self.replies, candidates=every)
        if turns is None or every:
            turns = turn_table(episodes, candidates=every)
        return data, with_components(turns, self._components)

    def learn(
        self, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights once; see ``Learner.update``. Without a turn nothing changes.

        Raises:
            ModelError: nobody has said anything, as all conversations outgrew the model.
        """
        if not len(batch.turns.reward):
            if any(episode.has_outgrown_context for episode in batch.episodes):
                raise nothing_fits(self.model.context, "step")
            return {}  # its seats were never due: others ended the plays before
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
        **given: Any,
    ) -> dict[str, float]:
        """Update the weights with what a step is trained towards; see ``Learner.update``."""
        stream = self.root.child("update").child(step)
        return self.trained.update(data, advantages, value_targets, stream=stream, **given)

    def imitate(self, episodes: Sequence[Episode]) -> float:
        """Take one supervised step towards its seats' moves in these plays; return the loss."""
        if self.moments is not None:
            return self.moments.imitate(self, episodes)
        loss = self.trained.imitate(pack(episodes), self.config.warmup.learning_rate)
        if self.process is not None:
            self.process.follow(self.model)
        return loss

    @property
    def kept(self) -> list[Snapshot]:
        """The copies that its learner holds and a checkpoint keeps."""
        return snapshots_to_save(self.trained.snapshots, self.config)

    def file(self, what: str) -> str:
        """Return the name of one of its files in a checkpoint."""
        return f"{'' if self.name == MAIN else f'{self.name}-'}{what}.safetensors"

    def _past_file(self, step: int) -> str:
        return f"{snapshot(step, self.name)}.safetensors"

    def save(self, folder: Path, earlier: Path | None = None) -> dict[str, Any]:
        """Write everything that must be saved into a checkpoint's folder; return what names it.

        Args:
            folder: of the checkpoint that is being written.
            earlier: the checkpoint saved or restored last; a snapshot that it holds is linked.

        Raises:
            DivergedError: something of it is not finite.
            OSError: the disk is full or not writable.
        """
        if self.learner is not None:
            check_output(self.model)
            self.save_learner(folder)
        if self.process is not None:
            self.process.snapshot.save(folder / self.file("process"))
            save_optimizer(self.process.optimizer, folder / self.file("process_optimizer"))
        for step, copied in self.past.items():
            name = self._past_file(step)
            copied.save(folder / name, earlier / name if earlier is not None else None)
        versions = {
            str(snapshot(step, self.name)): copied.model.version
            for step, copied in self.past.items()
        }
        meta: dict[str, Any] = {"version": self.model.version, "members": versions}
        if self.model.frozen_digest:
            meta["base"] = self.model.frozen_digest
        return meta

    def save_learner(self, folder: Path) -> None:
        """Write what its learner holds into a folder.

        Raises:
            ModelError: it is frozen.
            DivergedError: something of it is not finite.
            OSError: the disk is full or not writable.
        """
        save_weights(self.model, folder / self.file("model"))
        if self.moments is not None:
            self.moments.save(self.name, folder / self.file("optimizer"))
        else:
            save_optimizer(self.trained.optimizer, folder / self.file("optimizer"))
        for one in self.kept:
            one.save(folder / self.file(one.purpose))

    def restore_learner(self, folder: Path, version: int) -> None:
        """Take back what ``save_learner`` wrote.

        Args:
            folder: where it was written.
            version: updates that the weights have seen.

        Raises:
            CheckpointError: the optimiser's state is of other parameters.
            ModelError: a file is of another model.
        """
        load_weights(self.model, folder / self.file("model"), version)
        for one in self.kept:
            one.restore(folder / self.file(one.purpose), version)
        path = folder / self.file("optimizer")
        if self.moments is not None:
            self.moments.keep(self.name, path)
        else:
            load_optimizer(self.trained.optimizer, path)

    def restore(self, folder: Path, meta: Mapping[str, Any]) -> None:
        """Take back what ``save`` wrote.

        Args:
            folder: of the checkpoint.
            meta: what ``save`` returned.

        Raises:
            CheckpointError: it names what is no snapshot of this policy.
            ModelError: a file is of another model, or weights that are not saved have changed.
        """
        if meta.get("base", self.model.frozen_digest) != self.model.frozen_digest:
            raise ModelError(
                f"model.name={self.config.model.name!r} is no longer the model that the "
                f"{'run has played with' if self.frozen else 'adapters'} in {folder} "
                f"{'' if self.frozen else 'were trained on'}: its frozen weights have "
                f"SHA-256 {self.model.frozen_digest[:12]}, not {meta['base'][:12]}. Put the "
                "old weights back."
            )
        version = meta["version"]
        if self.learner is not None:
            self.restore_learner(folder, version)
        if self.process is not None:
            self.process.snapshot.restore(folder / self.file("process"), version)
            load_optimizer(self.process.optimizer, folder / self.file("process_optimizer"))
        self.past.clear()
        for name, updates in meta["members"].items():
            member = ref(name) if name else None
            if member is None or member.step is None or member != member.of(self.name):
                raise CheckpointError(
                    f"The checkpoint {folder} names a snapshot {name!r}; its names look "
                    f"like {snapshot(40, self.name)}."
                )
            path = folder / self._past_file(member.step)
            self.past[member.step] = member_of(name, self.model, path, updates)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Book:
    states: InfoStates
    number: dict[tuple[int, str], int]


class ExactColumns:
    """Fills ``action_value``, ``state_value`` and ``default_value`` by enumeration, for games small
    enough.

    ``scales`` multiplies a game's values, as its payoffs are multiplied in what credit sees; 1
    where a game is missing.

    Raises:
        TooLargeError: a game has more information states than ``limit``.
    """

    def __init__(
        self, games: Sequence[Environment], limit: int, scales: Mapping[str, float] | None = None
    ) -> None:
        self._scales = dict(scales or {})
        self._books: dict[str, _Book] = {}
        for game in games:
            states = enumerate_info_states(game, limit=limit)
            number = {(query.seat, query.key): index for index, query in enumerate(states.queries)}
            self._books[game.name] = _Book(states=states, number=number)

    def of(
        self, turns: TurnTable, episodes: Sequence[Episode], policy: ActionScorer
    ) -> dict[str, FloatArray]:
        """Return the columns, [N] each, of the policy renormalised over legal actions in every
        seat.

        A reply that was no legal action is worth what its turn was paid, and a memory what the
        state is worth in which it is written. A seat that is asked again
        after an illegal reply stands in the same information state.
        """
        values = {}
        for name in {episode.game for episode in episodes}:
            states = self._books[name].states
            values[name] = exact_values(states, ask(policy, states)[0])
        action, state, default = (
            turns.reward.copy(),
            np.zeros(len(turns.reward)),
            np.zeros(len(turns.reward)),
        )
        rows = ordered_turns(episodes, candidates=turns.state_group is not None)
        for row, (episode, turn) in enumerate(rows):
            book, own = self._books[episode.game], values[episode.game]
            memory = turn.event == "memory"
            index = book.number[turn.seat, turn.state_key.removesuffix("|memory" if memory else "")]
            scale = self._scales.get(episode.game, 1.0)
            state[row], default[row] = scale * own.state[index], scale * own.action[index].mean()
            if memory:  # which leads to the same state, whatever is written
                action[row] = default[row] = state[row]
            if turn.action is not None:
                action[row] = (
                    scale
                    * own.action[index][book.states.queries[index].legal_actions.index(turn.action)]
                )
        return {"action_value": action, "state_value": state, "default_value": default}


class LocalEngine(Players):
    """The policies of a run, who play and are trained."""

    policies: dict[str, Policy]

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config, Policy)
        self.exact = self._exact_columns([game for game, _ in self.environments])
        self.elsewhere: Distributed | None = None  # who plays, where this process does not
        self.ranks: LearningRanks | None = None  # who learns together, where there are several

    def play(self, specs: Sequence[EpisodeSpec], judging: Judging | None = None) -> Rollout:
        """Play these games, here or on workers; see ``Players.play``."""
        return (self.elsewhere.play if self.elsewhere else super().play)(specs, judging)

    def begin(
        self,
        specs: Sequence[EpisodeSpec],
        judging: Judging | None = None,
        pinned: Pinned | None = None,
    ) -> Begun:
        """Have these games played; see ``Distributed.begin``."""
        if self.elsewhere is None:
            return Begun(partial(self.play, specs, judging))
        return self.elsewhere.begin(specs, judging, pinned)

    def pin(self, keys: Pinned | None = None) -> Pinned | None:
        """Keep the weights of now, or those a checkpoint has kept; see ``PublishedWeights``."""
        if self.elsewhere is None:
            return None
        published = self.elsewhere.published
        return published.every() if keys is None else published.keep(keys)

    def release(self, pinned: Pinned) -> None:
        """Let weights go that were pinned."""
        if self.elsewhere is not None:
            self.elsewhere.published.release(pinned)

    @property
    def fresh(self) -> FreshRollouts | None:
        """The workers of a run in fresh order; None where there are none."""
        in_fresh_order = self.config.scale.order == FRESH and self.elsewhere is not None
        return cast("FreshRollouts", self.elsewhere) if in_fresh_order else None

    @property
    def versions(self) -> dict[str, int]:
        """The number of updates that the weights of each policy that is trained have seen."""
        return {name: self.policies[name].model.version for name in self.learners}

    def timing(self) -> dict[str, float]:
        """Return figures of the time since they were last asked for; see ``Distributed.timing``."""
        return self.elsewhere.timing() if self.elsewhere else {}

    def _exact_columns(self, games: Sequence[Environment]) -> ExactColumns | None:
        if not any(
            "tree" in required_services(self.policies[name].config.credit.bind("credit"))
            for name in self.learners
        ):
            return None
        scales = {section.known_as: section.scale for section in self.config.environments}
        return ExactColumns(games, self.config.evaluation.max_states, scales)

    @property
    def model(self) -> LanguageModel:
        """The model of the first policy that is trained."""
        return self.policies[self.learners[0]].model

    @property
    def learner(self) -> Learner:
        """The learner of the first policy that is trained."""
        return self.policies[self.learners[0]].trained

    def batch(
        self,
        episodes: Sequence[Episode],
        *,
        progress: float,
        policy: str | None = None,
        turns: TurnTable | None = None,
    ) -> Batch:
        """Return what a policy learns from, with the columns that its estimator NEEDS.

        Args:
            episodes: the plays of a step; those that hold no trained seat of it are left out.
            progress: share of the run that is done.
            policy: its name; None: the first one that is trained.
            turns: the turn table of the plays, where it has been made before.
        """
        own = self.policies[self.learners[0] if policy is None else policy]
        found = self.trained_in(own.name, episodes)
        known = turns if found is episodes else None
        return own.batch(found, progress=progress, exact=self._exact_of, turns=known)

    def _exact_of(self, source: EngineSource) -> Mapping[str, FloatArray]:
        """Return the exact columns of a batch; see ``columns.base.Source``."""
        if self.exact is None:
            raise ConfigError(
                'A column reads exact values, which this run has not; write ASKS = {"tree"} into '
                "its module."
            )
        scorer: Any = self.agent(LEARNER)
        return self.exact.of(source.turns, source.episodes, scorer)

    def entropies(self, batch: Batch) -> FloatArray:
        """Return the entropy of the distribution of each sampled token, [M], nats."""
        return self.policies[batch.policy].trained.entropies(batch.pack)

    def learn(
        self, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights of the batch's policy once; see ``Policy.learn``."""
        own = self.policies[batch.policy]
        if self.ranks is not None:
            return self.ranks.learn(own, batch, credit, step=step, progress=progress)
        return own.learn(batch, credit, step=step, progress=progress)

    def imitate(self, episodes: Sequence[Episode]) -> float:
        """Take one supervised step of each policy towards the games' moves; return mean loss."""
        own = [(self.policies[name], self.trained_in(name, episodes)) for name in self.learners]
        losses = [policy.imitate(plays) for policy, plays in own if plays]
        return sum(losses) / max(len(losses), 1)

    def refer(self) -> None:
        """Take what each policy has learnt so far as its reference."""
        for own in map(self.policies.__getitem__, self.learners):
            update_reference(own.trained.snapshots, own.model)
            if own.moments is not None:
                own.moments.refer(own.name)

    def take_member(self, member: PlayerRef) -> None:
        """Add copies of the policies that a snapshot is of to the league."""
        assert member.step is not None, "a snapshot"
        for one in self.parts(member):
            own = self.policies[one.name or MAIN]
            own.past[member.step] = Snapshot.of(own.model, "past")

    def restart(self, member: PlayerRef) -> None:
        """Let the policies that a snapshot is of go on from it; see ``Learner.restart``."""
        assert member.step is not None, "a snapshot"
        for one in self.parts(member):
            own = self.policies[one.name or MAIN]
            own.trained.restart(own.past[member.step])

    def save(self, folder: Path, earlier: Path | None = None) -> None:
        """Write everything that must be saved into a folder (safetensors and JSON only).

        Args:
            folder: empty; of the checkpoint that is being written.
            earlier: the checkpoint that this engine saved or restored last. A snapshot that it
                holds is linked, not written.

        Raises:
            DivergedError: something of it is not finite.
            OSError: the disk is full or not writable.
        """
        metas = {name: own.save(folder, earlier) for name, own in self.policies.items()}
        meta = {"policies": metas} if self.config.policies else metas[MAIN]
        if self.config.scale.lag and self.elsewhere is not None and self.fresh is None:
            meta = {**meta, "open": self.elsewhere.published.save(folder)}
        write_synced(folder / "engine.json", json.dumps(meta).encode())

    def restore(self, folder: Path) -> None:
        """Take back what ``save`` wrote, from a checkpoint folder.

        Raises:
            CheckpointError: a file is missing or of another model.
            ModelError: frozen weights are not those that were there when it was saved.
        """
        if self.ranks is not None:
            self.ranks.forget()
        try:
            found = parse_json((folder / "engine.json").read_bytes())
            metas = found["policies"] if self.config.policies else {MAIN: found}
            for member in self.members:
                self.drop_member(member)
            for name, own in self.policies.items():
                own.restore(folder, metas[name])
            if self.elsewhere is not None:
                self.elsewhere.published.restore(folder, found.get("open", {}))
        except SparringError:
            raise
        except UNREADABLE as error:
            raise CheckpointError(
                f"The checkpoint {folder} cannot be loaded: {error!r}."
            ) from error
