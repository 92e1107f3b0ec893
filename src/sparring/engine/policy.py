"""A policy of a run: weights with a purpose, how they are asked, and what trains them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from sparring.config import RunConfig
from sparring.config.parts import named_components
from sparring.config.plugins.registry import asks, bind, ordered
from sparring.core.errors import CheckpointError, ConfigError, ModelError
from sparring.core.records import Credit, Episode, FloatArray, TurnTable
from sparring.core.refs import MAIN, ref, snapshot
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.engine.players import PlayingPolicy
from sparring.engine.protocol import Batch
from sparring.learn.finite import check_output, finite_columns
from sparring.learn.learner import Learner
from sparring.learn.pack import Pack, legal_replies, nothing_fits, pack
from sparring.learn.reader import fitted_at
from sparring.learn.reward_model import ProcessLearner
from sparring.learn.snapshots import Snapshot, lasting, member_of, planned
from sparring.learn.targets import WeightedLoss
from sparring.learn.weights import load_optimizer, load_weights, save_optimizer, save_weights
from sparring.methods.columns.base import Place, with_column
from sparring.models.language_model import LanguageModel
from sparring.play.turn_table import turn_table, with_components


class EngineSource:
    """The models of a policy, asked about the turns of a batch.

    ``turns`` grows by each column that is computed.
    """

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
        ...

    def keep(self, policy: str, path: Path) -> None:
        """Take the state of a policy's optimiser from a file that may go."""
        ...

    def imitate(self, policy: Policy, episodes: Sequence[Episode]) -> float:
        """Take one supervised step; see ``Policy.imitate``."""
        ...

    def refer(self, policy: str) -> None:
        """Take what a policy has learnt so far as its reference."""
        ...


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
        self._all_replies = "candidates" in asks(credit)
        self._after_process = [
            name for name in self.columns if "process" in asks(bind("columns", name))
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
        return lasting(self.trained.snapshots, self.config)

    def file(self, what: str) -> str:
        """Return the name of one of its files in a checkpoint."""
        return f"{'' if self.name == MAIN else f'{self.name}-'}{what}.safetensors"

    def _past_file(self, step: int) -> str:
        """Return the name of the file of one of its past selves."""
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
