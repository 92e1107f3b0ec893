"""A policy as it plays: its model, its renderer, its sampler settings, and its snapshots."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from sparring.config import RunConfig
from sparring.learn.snapshots import Snapshot
from sparring.models.language_model import LanguageModel
from sparring.players.base import Agent, TextAgent
from sparring.players.demonstrator import demonstrator, imitated
from sparring.players.policy import PolicyAgent, check_room, policy
from sparring.refs import LEARNER, PlayerRef
from sparring.rng import Stream
from sparring.types import SamplingParams


class Speaker:
    """A model, its renderer and sampler settings, and the copies of its weights that play.

    Args:
        name: of the policy.
        config: of a run that has this policy alone.
        model: gives its weights; from ``engine.build``.
        root: all that is drawn for it derives from here.
        frozen: whether it is not trained: it has no snapshots but itself.

    Raises:
        ConfigError: replies are as long as the model's context.
        ModelError: the model says of no longest conversation.
    """

    def __init__(
        self, name: str, config: RunConfig, model: LanguageModel, root: Stream, *, frozen: bool
    ) -> None:
        self.name, self.config, self.model, self.root = name, config, model, root
        self.frozen = frozen
        self.renderer = config.renderer.bind("render")(model.tokenizer)
        self.context = config.context.bind("context")
        rollout = config.rollout
        check_room(f"Policy {name!r}: rollout.", rollout.max_new_tokens, model.context)
        self.params = SamplingParams(
            max_new_tokens=rollout.max_new_tokens,
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            top_k=rollout.top_k,
        )
        self.past: dict[int, Snapshot] = {}  # by the step that each was taken at
        self.average: Snapshot | None = None  # of the weights, where they are averaged
        if frozen:
            for parameter in model.parameters():
                parameter.requires_grad_(False)

    @property
    def published(self) -> LanguageModel:
        """The model to evaluate and export: the average of the weights if there is one."""
        return self.model if self.average is None else self.average.model

    def agent(self, who: PlayerRef) -> Agent | None:
        """Return the agent of one of its players; None where there is no such player.

        Args:
            who: a learner, policy, demonstrator or snapshot.
        """
        if who.kind == "demonstrator":
            return demonstrator(
                renderer=self.renderer,
                name=str(who),
                context=self.context,
                player=self.imitated,
            )
        model = self.model_of(who)
        return None if model is None else self._sit(who, model)

    @cached_property
    def imitated(self) -> TextAgent | None:
        """The player that the warm-up imitates; None: random legal play."""
        player = self.config.warmup.player
        return imitated(None if player is None else player.bind("players"))

    def publish(self, agent: Agent, who: PlayerRef) -> None:
        """Give the sampler of one of its players the weights of now, if it has older ones."""
        model, sampler = self.model_of(who), getattr(agent, "sampler", None)
        if model is not None and sampler is not None and sampler.version != model.version:
            sampler.publish(model.tensors(), model.version)

    def model_of(self, who: PlayerRef) -> LanguageModel | None:
        """Return the model that one of its players speaks with; None where there is none."""
        if who.kind == "snapshot" and not self.frozen:
            return self.past[who.step].model if who.step in self.past else None
        return self.published if who.kind == "policy" else self.model

    def take(self, who: PlayerRef, tensors: dict[str, Tensor], version: int) -> None:
        """Take the weights of one of its players.

        Args:
            who: a learner, policy or snapshot.
            tensors: as ``save_weights`` wrote them.
            version: number of updates that they have seen.

        Raises:
            ModelError: they are of another model.
        """
        model = self.model
        if who.kind == "policy":
            self.average = self.average or Snapshot.of(self.model, "average")
            model = self.average.model
        elif who.step is not None:
            if who.step not in self.past:
                self.past[who.step] = Snapshot.of(self.model, "past")
            model = self.past[who.step].model
        model.load_tensors(tensors)
        model.version = version

    @property
    def invariant(self) -> bool:
        """Whether a reply of its has the same bits whatever else is sampled; see ``Sampler``."""
        return self._sit(LEARNER, self.model).sampler.invariant

    @property
    def decoding(self) -> str:
        """What computes its replies, in words: its sampler's, or its model's."""
        sampler = self._sit(LEARNER, self.model).sampler
        return str(getattr(sampler, "decoding", self.model.decoding))

    def _sit(self, player: PlayerRef, model: LanguageModel) -> PolicyAgent:
        """Return an agent that plays with this model."""
        return policy(
            sampler=self.config.sampler.bind("samplers")(model),
            renderer=self.renderer,
            params=self.params,
            name=str(player),
            context=self.context,
            in_flight=self.config.rollout.in_flight,
        )
