"""Everything that touches the models, in one process: sampling, values, updates, saving."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sparring.config import RunConfig
from sparring.config_parts import bound_agent
from sparring.engine.base import Batch
from sparring.engine.build import build_models
from sparring.engine.exact_columns import ExactColumns
from sparring.engine.policy import Policy
from sparring.engine.roles import Roles
from sparring.engine.source import EngineSource
from sparring.environments.catalogue import configured_game
from sparring.environments.openspiel.base import Game
from sparring.errors import CheckpointError, ConfigError, SparringError, UnknownNameError
from sparring.learn.learner import Learner
from sparring.learn.snapshots import Snapshot
from sparring.learn.weights import UNREADABLE
from sparring.models.language_model import LanguageModel
from sparring.players.base import Agent
from sparring.refs import LEARNER, MAIN, OWN, PlayerRef, ref, snapshot
from sparring.registry import asks
from sparring.rng import Stream
from sparring.rollout.candidates import Candidates
from sparring.rollout.context_check import check_context
from sparring.rollout.play import Judge, Rollout, rollout
from sparring.rollout.spec import EpisodeSpec
from sparring.rollout.team import Team
from sparring.system.files import parse_json, write_synced
from sparring.types import Credit, Episode, FloatArray, TurnTable


class LocalEngine:
    """The policies of a run, and its players (``agents``, by the text forms of references)."""

    def __init__(self, config: RunConfig) -> None:
        torch.set_num_threads(config.threads or max(torch.get_num_threads(), 1))
        self.config = config
        self.root = Stream.from_seed(config.seed)
        self.environments: list[tuple[Game, float]] = [
            (configured_game(section), section.weight) for section in config.environments
        ]
        games = [game for game, _ in self.environments]
        self.roles = Roles(config, games)
        self.policies = {
            name: Policy(name, own, model, root, frozen=config.is_frozen(name))
            for name, (own, model, root) in build_models(config, games, self.root).items()
        }
        for own in self.policies.values():
            check_context(own.context, games, own.renderer)
        self.exact = self._exact_columns(games)
        self.agents: dict[str, Agent] = {}

    def _exact_columns(self, games: Sequence[Game]) -> ExactColumns | None:
        """Return what enumerates the games, if an estimator asks for exact values."""
        if not any(
            "tree" in asks(self.policies[name].config.credit.bind("credit"))
            for name in self.learners
        ):
            return None
        scales = {section.known_as: section.scale for section in self.config.environments}
        return ExactColumns(games, self.config.evaluation.max_states, scales)

    @property
    def learners(self) -> tuple[str, ...]:
        """The policies that are trained, in the order of the configuration."""
        return tuple(name for name, own in self.policies.items() if not own.frozen)

    def seats(self, game: Game) -> tuple[tuple[str, bool], ...]:
        """Return the policy of each seat of an environment, and whether it is trained."""
        return tuple((name, not self.policies[name].frozen) for name in self.roles.of(game))

    @property
    def model(self) -> LanguageModel:
        """The model of the first policy that is trained."""
        return self.policies[self.learners[0]].model

    @property
    def learner(self) -> Learner:
        """The learner of the first policy that is trained."""
        return self.policies[self.learners[0]].trained

    @property
    def members(self) -> tuple[PlayerRef, ...]:
        """The snapshots, oldest first: each is of every policy that is trained."""
        return tuple(map(snapshot, self.policies[self.learners[0]].past))

    def agent(self, player: PlayerRef | str) -> Agent:
        """Return who a reference means: the learner, the published policy, a snapshot, or a bot.

        Where there are several policies, a reference that names none means a team: in each seat the
        policy of the seat's role.

        Raises:
            UnknownNameError: there is no such snapshot or bot.
        """
        who = ref(player)
        if len(self.policies) == 1 or who.kind not in OWN or who.name:
            return self._one(who)

        def at(game: Game, seat: int) -> Agent:
            return self._one(who.of(self.roles.of(game)[seat]))

        if who.kind == "snapshot" and who not in self.members:
            raise self._unknown(who)
        games = [game for game, _ in self.environments]
        return Team(str(who), at, games, self.config.rollout.in_flight)

    def _one(self, who: PlayerRef) -> Agent:
        """Return a player who is one agent; without a name it is of the policy ``main``."""
        if str(who) not in self.agents:
            self.agents[str(who)] = self._made(who)
        agent = self.agents[str(who)]
        if who.kind in OWN:
            self.policies[who.name or MAIN].publish(agent, who)
        return agent

    def _made(self, who: PlayerRef) -> Agent:
        """Return a player who has not sat in any seat yet."""
        if who.kind in OWN:
            name = who.name or (MAIN if MAIN in self.policies else "")
            found = None if name not in self.policies else self.policies[name].agent(who)
            if found is None:
                raise self._unknown(who)
            return found
        if who.kind not in ("bot", "named"):
            raise self._unknown(who)
        given = self.config.bots.get(who.name)
        made: Agent = (given.bind("players") if given else bound_agent(who.name))()
        return made

    def _unknown(self, who: PlayerRef) -> UnknownNameError:
        """Return the error of a player that this run has not."""
        own = [str(LEARNER.of(name)) for name in self.policies]
        there = [str(one.of(name)) for one in self.members for name in self.policies]
        return UnknownNameError("player of this run", str(who), {*self.agents, *own, *there})

    def play(
        self,
        specs: Sequence[EpisodeSpec],
        judges: Mapping[str, Judge] | None = None,
        candidates: Candidates | None = None,
    ) -> Rollout:
        """Play these games; see ``rollout.play.rollout``.

        Where there are several policies, a player of the run who names none is the one of the
        seat's role; and a seat is trained only where its policy is.
        """
        if self.config.policies:
            specs = [self._seated(spec) for spec in specs]
        seated = {str(player): player for spec in specs for player in spec.players}
        agents = {name: self._one(seated[name]) for name in sorted(seated)}
        section = self.config.rollout
        return rollout(
            specs,
            agents,
            in_flight=section.in_flight,
            retries=section.retries,
            judges=judges,
            candidates=candidates,
        )

    def _seated(self, spec: EpisodeSpec) -> EpisodeSpec:
        """Return a spec in which every policy is named."""
        policies = self.roles.of(spec.game)
        seats = tuple(
            player if player.name else player.of(name)
            for player, name in zip(spec.players, policies, strict=True)
        )
        trained = tuple(
            asked and not (player.kind in OWN and self.policies[player.name or MAIN].frozen)
            for asked, player in zip(spec.trained, seats, strict=True)
        )
        return replace(spec, seats=seats, trained=trained)

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
        found = self._of(own, episodes)
        known = turns if found is episodes else None
        return own.batch(found, progress=progress, exact=self._exact_of, turns=known)

    def _of(self, policy: Policy, episodes: Sequence[Episode]) -> Sequence[Episode]:
        """Return the plays in which seats of a policy are trained, and those seats alone."""
        if not self.config.policies:
            return episodes
        name, found = "" if policy.name == MAIN else policy.name, []
        for episode in episodes:
            trained = tuple(
                asked and player.kind in OWN and player.name == name
                for asked, player in zip(episode.trained, episode.players, strict=True)
            )
            if any(trained):
                found.append(replace(episode, trained=trained))
        return found

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
        return self.policies[batch.policy].learn(batch, credit, step=step, progress=progress)

    def imitate(self, episodes: Sequence[Episode]) -> float:
        """Take one supervised step of each policy towards these games' moves.

        Return the mean loss.
        """
        own = [
            (self.policies[name], self._of(self.policies[name], episodes)) for name in self.learners
        ]
        losses = [policy.imitate(plays) for policy, plays in own if plays]
        return sum(losses) / max(len(losses), 1)

    def take_member(self, member: PlayerRef) -> None:
        """Add a copy of every policy that is trained to the league, as this snapshot."""
        assert member.step is not None, "a snapshot"
        for name in self.learners:
            own = self.policies[name]
            own.past[member.step] = Snapshot.of(own.model, "past")

    def drop_member(self, member: PlayerRef) -> None:
        """Let a snapshot of all policies leave the league."""
        assert member.step is not None, "a snapshot"
        for name, own in self.policies.items():
            own.past.pop(member.step, None)
            self.agents.pop(str(member.of(name)), None)

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
        write_synced(folder / "engine.json", json.dumps(meta).encode())

    def restore(self, folder: Path) -> None:
        """Take back what ``save`` wrote, from a checkpoint folder.

        Raises:
            CheckpointError: a file is missing or of another model.
            ModelError: frozen weights are not those that were there when it was saved.
        """
        try:
            found = parse_json((folder / "engine.json").read_bytes())
            metas = found["policies"] if self.config.policies else {MAIN: found}
            for member in self.members:
                self.drop_member(member)
            for name, own in self.policies.items():
                own.restore(folder, metas[name])
        except SparringError:
            raise
        except UNREADABLE as error:
            raise CheckpointError(
                f"The checkpoint {folder} cannot be loaded: {error!r}."
            ) from error
