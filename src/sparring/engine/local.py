"""Everything that touches the model, in one process: sampling, values, updates, saving."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sparring.config import RunConfig
from sparring.engine.base import Batch
from sparring.engine.build import build_model
from sparring.engine.exact_columns import ExactColumns
from sparring.engine.source import EngineSource
from sparring.environments.catalogue import configured_game
from sparring.environments.openspiel.base import Game
from sparring.errors import CheckpointError, ModelError, SparringError, UnknownNameError
from sparring.learn.critic import fitted_at
from sparring.learn.finite import check_output
from sparring.learn.learner import Learner
from sparring.learn.legal import legal_replies
from sparring.learn.pack import pack
from sparring.learn.process import ProcessLearner
from sparring.learn.snapshots import Snapshot, planned
from sparring.learn.targets import WeightedLoss
from sparring.learn.weights import (
    UNREADABLE,
    load_optimizer,
    load_weights,
    save_optimizer,
    save_weights,
)
from sparring.models.language_model import LanguageModel
from sparring.players.base import Agent
from sparring.players.demonstrator import demonstrator
from sparring.players.policy import PolicyAgent, policy
from sparring.refs import DEMONSTRATOR, LEARNER, PlayerRef, ref
from sparring.registry import asks, bind, ordered
from sparring.rng import Stream
from sparring.rollout.candidates import Candidates
from sparring.rollout.play import Judge, Rollout, rollout
from sparring.rollout.spec import EpisodeSpec
from sparring.rollout.table import turn_table
from sparring.schedule import parse
from sparring.system.files import parse_json, write_synced
from sparring.types import Credit, Episode, FloatArray, SamplingParams


class LocalEngine:
    """The model of a run, and its players (``agents``, by the text forms of references)."""

    def __init__(self, config: RunConfig) -> None:
        torch.set_num_threads(config.threads or max(torch.get_num_threads(), 1))
        self.config = config
        self.root = Stream.from_seed(config.seed)
        self.environments: list[tuple[Game, float]] = [
            (configured_game(section), section.weight) for section in config.environments
        ]
        losses = [
            WeightedLoss(bound=loss.bind("losses"), weight=parse(loss.weight))
            for loss in config.losses
        ]
        credit = config.credit.bind("credit")
        self.columns = ordered(credit.needs)
        self._all_replies = "candidates" in asks(credit)
        self._after_process = [
            name for name in self.columns if "process" in asks(bind("columns", name))
        ]
        asked = frozenset().union(*(loss.bound.plugin.needs for loss in losses))
        with_values = "critic" in asks(credit) or "values" in asked
        self.model = build_model(
            config, [game for game, _ in self.environments], self.root, with_values=with_values
        )
        self.renderer = config.renderer.bind("render")(self.model.tokenizer)
        section = config.rollout
        self.params = SamplingParams(
            max_new_tokens=section.max_new_tokens,
            temperature=section.temperature,
            top_p=section.top_p,
            top_k=section.top_k,
        )
        self.replies = legal_replies(asked, self.renderer)
        self.learner = Learner(
            self.model,
            config.learner,
            losses,
            temperature=section.temperature,
            with_reference=planned(config)["reference"] > 0,
            value_at=fitted_at(self.columns),
        )
        self.process = (
            ProcessLearner(self.model, config, credit) if "process" in asks(credit) else None
        )
        scales = {section.known_as: section.scale for section in config.environments}
        limit, exact = config.evaluation.max_states, "tree" in asks(credit)
        self.exact = (
            ExactColumns([game for game, _ in self.environments], limit, scales) if exact else None
        )
        self.agents: dict[str, Agent] = {
            str(LEARNER): self._sit(LEARNER, self.model),
            str(DEMONSTRATOR): demonstrator(renderer=self.renderer),
        }
        self._past: dict[PlayerRef, Snapshot] = {}

    def _sit(self, player: PlayerRef, model: LanguageModel) -> PolicyAgent:
        """Return an agent that plays with this model."""
        return policy(
            sampler=self.config.sampler.bind("samplers")(model),
            renderer=self.renderer,
            params=self.params,
            name=str(player),
        )

    @property
    def members(self) -> tuple[PlayerRef, ...]:
        """The snapshots, oldest first."""
        return tuple(self._past)

    def agent(self, player: PlayerRef | str) -> Agent:
        """Return who a reference means: the learner, the published policy, a snapshot, or a bot.

        Raises:
            UnknownNameError: there is no such snapshot or bot.
        """
        who = ref(player)
        if str(who) not in self.agents:
            self.agents[str(who)] = self._made(who)
        return self.agents[str(who)]

    def _made(self, who: PlayerRef) -> Agent:
        """Return a player who has not sat in any seat yet."""
        if who.kind == "policy":
            return self._sit(who, self.learner.policy)
        if who.kind not in ("bot", "named"):
            raise UnknownNameError("player of this run", str(who), self.agents)
        given = self.config.bots.get(who.name)
        made: Agent = (given.bind("players") if given else bind("players", who.name))()
        return made

    def play(
        self,
        specs: Sequence[EpisodeSpec],
        judges: Mapping[str, Judge] | None = None,
        candidates: Candidates | None = None,
    ) -> Rollout:
        """Play these games; see ``rollout.play.rollout``."""
        seated = {str(player): player for spec in specs for player in spec.players}
        agents = {name: self.agent(seated[name]) for name in sorted(seated)}
        section = self.config.rollout
        return rollout(
            specs,
            agents,
            in_flight=section.in_flight,
            retries=section.retries,
            judges=judges,
            candidates=candidates,
        )

    def batch(self, episodes: Sequence[Episode], *, progress: float) -> Batch:
        """Return what a step learns from, with the columns that the estimator NEEDS.

        The reward model is trained first. Replies that were not played are in it if it reads them.
        """
        every = self._all_replies
        data = pack(episodes, self.replies, candidates=every)
        source = EngineSource(self, turn_table(episodes, candidates=every), episodes, data)
        for name in self.columns:
            if name not in self._after_process:
                source.add(name)
        if self.process is None:
            return Batch(episodes=episodes, turns=source.turns, pack=data)
        metrics = self.process.fit(data, source.turns, progress=progress)
        for name in self._after_process:
            source.add(name)
        return Batch(episodes=episodes, turns=source.turns, pack=data, metrics=metrics)

    def entropies(self, batch: Batch) -> FloatArray:
        """Return the entropy of the distribution of each sampled token, [M], nats."""
        return self.learner.entropies(batch.pack)

    def learn(
        self, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights once; see ``Learner.update``.

        Raises:
            ModelError: nobody has said anything, as all conversations outgrew the model.
        """
        if not len(batch.pack.turn_of):
            raise ModelError(
                f"No conversation of this step fits into the context of {self.model.context} "
                "tokens with a whole reply after it. Raise model.context, lower "
                "rollout.max_new_tokens, or give the games a shorter wording."
            )
        return self.learner.update(
            batch.pack,
            batch.advantages(credit),
            credit.value_targets,
            turns=batch.turns,
            progress=progress,
            stream=self.root.child("update").child(step),
        )

    def imitate(self, episodes: Sequence[Episode]) -> float:
        """Take one supervised step towards these games' moves; return the loss."""
        loss = self.learner.imitate(pack(episodes), self.config.warmup.learning_rate)
        if self.process is not None:
            self.process.follow(self.model)
        return loss

    def take_member(self, member: PlayerRef) -> None:
        """Add a copy of the learner to the league, as this snapshot."""
        self._add_member(member, Snapshot.of(self.model, "past"))

    def drop_member(self, member: PlayerRef) -> None:
        """Let a snapshot leave the league."""
        del self._past[member], self.agents[str(member)]

    def _add_member(self, member: PlayerRef, copied: Snapshot) -> None:
        """Seat a snapshot."""
        self._past[member] = copied
        self.agents[str(member)] = self._sit(member, copied.model)

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
        check_output(self.model)
        save_weights(self.model, folder / "model.safetensors")
        save_optimizer(self.learner.optimizer, folder / "optimizer.safetensors")
        if self.learner.average is not None:
            self.learner.average.save(folder / "average.safetensors")
        if self.process is not None:
            self.process.snapshot.save(folder / "process.safetensors")
            save_optimizer(self.process.optimizer, folder / "process_optimizer.safetensors")
        for member, copied in self._past.items():
            name = f"{member}.safetensors"
            copied.save(folder / name, earlier / name if earlier is not None else None)
        versions = {str(member): copied.model.version for member, copied in self._past.items()}
        meta: dict[str, Any] = {"version": self.model.version, "members": versions}
        if self.model.frozen_digest:
            meta["base"] = self.model.frozen_digest
        write_synced(folder / "engine.json", json.dumps(meta).encode())

    def restore(self, folder: Path) -> None:
        """Take back what ``save`` wrote, from a checkpoint folder.

        Raises:
            CheckpointError: a file is missing or of another model.
            ModelError: the frozen weights under the adapters are not those that they were trained
                on.
        """
        try:
            meta = parse_json((folder / "engine.json").read_bytes())
            if meta.get("base", self.model.frozen_digest) != self.model.frozen_digest:
                raise ModelError(
                    f"model.name={self.config.model.name!r} is no longer the model that the "
                    f"adapters in {folder} were trained on: its frozen weights have "
                    f"SHA-256 {self.model.frozen_digest[:12]}, not {meta['base'][:12]}. Put the "
                    "old weights back."
                )
            load_weights(self.model, folder / "model.safetensors", meta["version"])
            if self.learner.average is not None:
                self.learner.average.restore(folder / "average.safetensors", meta["version"])
            load_optimizer(self.learner.optimizer, folder / "optimizer.safetensors")
            if self.process is not None:
                self.process.snapshot.restore(folder / "process.safetensors", meta["version"])
                load_optimizer(self.process.optimizer, folder / "process_optimizer.safetensors")
            for member in self.members:
                self.drop_member(member)
            for name, version in meta["members"].items():
                member = ref(name) if name else LEARNER
                if member.kind != "snapshot":
                    raise CheckpointError(
                        f"The checkpoint {folder} names a snapshot {name!r}; its names look "
                        "like past-000040."
                    )
                self._add_member(member, Snapshot.of(self.model, "past"))
                self._past[member].restore(folder / f"{member}.safetensors", version)
        except SparringError:
            raise
        except UNREADABLE as error:
            raise CheckpointError(
                f"The checkpoint {folder} cannot be loaded: {error!r}."
            ) from error
