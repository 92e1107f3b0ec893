"""Everything that touches the models, in one process: sampling, values, updates, saving."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sparring.config import RunConfig
from sparring.config.plugins.registry import asks
from sparring.config.scale import FRESH
from sparring.core.errors import CheckpointError, ConfigError, SparringError
from sparring.core.files import parse_json, write_synced
from sparring.core.records import Credit, Episode, FloatArray, TurnTable
from sparring.core.refs import LEARNER, MAIN, PlayerRef
from sparring.engine.players import Players
from sparring.engine.policy import EngineSource, Policy
from sparring.engine.protocol import Batch
from sparring.engine.reply_judges import Judging
from sparring.environments.base import Environment
from sparring.learn.learner import Learner
from sparring.learn.snapshots import Snapshot, refer
from sparring.learn.weights import UNREADABLE
from sparring.measure.exploitability import ask
from sparring.measure.info_states import InfoStates, enumerate_info_states, exact_values
from sparring.measure.policies import ActionScorer
from sparring.models.language_model import LanguageModel
from sparring.play.rollout import Begun, Rollout
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import ordered_turns

if TYPE_CHECKING:
    from sparring.engine.ranks.data_parallel import Ranks
    from sparring.engine.workers.distributed import Distributed
    from sparring.engine.workers.fresh_episodes import FreshWorkers
    from sparring.engine.workers.published_weights import Pinned


@dataclass(frozen=True, kw_only=True, slots=True)
class _Book:
    """The information states of a game, their numbers, and the values of one policy on them."""

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
        self.ranks: Ranks | None = None  # who learns together, where there are several

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
        """Keep the weights of now, or those that a checkpoint has kept; see ``Published``."""
        if self.elsewhere is None:
            return None
        published = self.elsewhere.published
        return published.every() if keys is None else published.keep(keys)

    def release(self, pinned: Pinned) -> None:
        """Let weights go that were pinned."""
        if self.elsewhere is not None:
            self.elsewhere.published.release(pinned)

    @property
    def fresh(self) -> FreshWorkers | None:
        """The workers of a run in fresh order; None where there are none."""
        in_fresh_order = self.config.scale.order == FRESH and self.elsewhere is not None
        return cast("FreshWorkers", self.elsewhere) if in_fresh_order else None

    @property
    def versions(self) -> dict[str, int]:
        """The number of updates that the weights of each policy that is trained have seen."""
        return {name: self.policies[name].model.version for name in self.learners}

    def timing(self) -> dict[str, float]:
        """Return figures of the time since they were last asked for; see ``Distributed.timing``."""
        return self.elsewhere.timing() if self.elsewhere else {}

    def _exact_columns(self, games: Sequence[Environment]) -> ExactColumns | None:
        """Return what enumerates the games, if an estimator asks for exact values."""
        if not any(
            "tree" in asks(self.policies[name].config.credit.bind("credit"))
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
        """Take one supervised step of each policy towards these games' moves.

        Return the mean loss.
        """
        own = [(self.policies[name], self.trained_in(name, episodes)) for name in self.learners]
        losses = [policy.imitate(plays) for policy, plays in own if plays]
        return sum(losses) / max(len(losses), 1)

    def refer(self) -> None:
        """Take what each policy has learnt so far as its reference."""
        for own in map(self.policies.__getitem__, self.learners):
            refer(own.trained.snapshots, own.model)
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
