"""Who plays in a run: its policies as they play, its bots, and its environments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from sparring.config import RunConfig
from sparring.config.checks import training_device
from sparring.config.parts import bound_agent
from sparring.config.plugins.registry import required_services
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import (
    LEARNER,
    MAIN,
    OWN,
    Episode,
    PlayerRef,
    SamplingParams,
    ref,
    snapshot,
)
from sparring.core.rng import Stream
from sparring.engine.plan import TINY, TINY_CONTEXT, memory_to_train, tiny_parameters
from sparring.engine.protocol import Clock, Judging
from sparring.engine.workers.gpu_placement import check_there
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.learn.weight_files import Snapshot
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.memory import available_bytes, find_device, refuse_beyond
from sparring.models.render.plain import vocabulary
from sparring.models.samplers.base import HasDecoding, HasTokenHook
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.play.context_check import check_context
from sparring.play.players.base import Agent, HasSampler, TextAgent
from sparring.play.players.demonstrator import demonstrator, imitated
from sparring.play.players.policy import PolicyAgent, check_room, policy
from sparring.play.rollout import Rollout, rollout
from sparring.play.spec import EpisodeSpec
from sparring.play.team import Team


class Roles:
    """The policy of every seat of a run's environments.

    Args:
        config: of the run.
        games: its environments, in the order of the configuration.

    Raises:
        ConfigError: a role has no policy, or a policy no role. Where several learn in one league,
            each plays all roles, and the seats are those of ``main``.
        UnknownNameError: a role is named that no environment has.
    """

    def __init__(self, config: RunConfig, games: Sequence[Environment]) -> None:
        own = list(zip(games, config.environments, strict=True))
        self._policies, self._shared = tuple(config.by_policy), config.roles
        self._several = bool(config.policies) and not config.league.learners
        self._given = {game.name: {**config.roles, **section.roles} for game, section in own}
        every = {role: None for game, _ in own for role in game.roles}
        _check(config.roles, every)
        for game, section in own:
            _check(section.roles, game.roles)
        seated = {name for game, _ in own for name in self.of(game)} | set(config.league.learners)
        for name in self._policies:
            if name not in seated:
                raise ConfigError(
                    f"policies.{name}: it plays no role; give it one of {', '.join(every)}, such "
                    f"as roles: {{{next(iter(every))}: {name}}}, or leave it out."
                )

    def of(self, game: Environment) -> tuple[str, ...]:
        """Return the policy of each seat of an environment, [num_seats].

        Raises:
            ConfigError: a role has none.
        """
        if not self._several:
            return (MAIN,) * game.num_seats
        given = self._given.get(game.name, self._shared)
        missing = [role for role in game.roles if role not in given]
        if missing:
            raise ConfigError(
                f"roles: the role {missing[0]!r} of {game.name!r} has no policy. Its roles are "
                f"{', '.join(dict.fromkeys(game.roles))}; write roles: "
                f"{{{missing[0]}: {self._policies[0]}}}, or another one of the policies "
                f"{', '.join(self._policies)}."
            )
        return tuple(given[role] for role in game.roles)


def _check(given: Iterable[str], there: Iterable[str]) -> None:
    """Refuse a role that nobody has."""
    for role in given:
        if role not in there:
            raise UnknownNameError("role in `roles`", role, there)


Base = tuple[str, str, str]  # name, dtype and device of a pretrained model


def build_models(
    config: RunConfig, games: Sequence[Environment], root: Stream
) -> dict[str, tuple[RunConfig, LanguageModel, Stream]]:
    """Return of each policy the configuration it is trained by, its model, and its own root.

    A pretrained model under the adapters of several policies is in memory once.
    """
    found, bases = {}, dict[Base, LanguageModel]()
    for name, own in config.by_policy.items():
        stream = root if name == MAIN else root.child("policy").child(name)
        frozen = config.is_frozen(name)
        found[name] = own, build_model(own, games, stream, bases, frozen=frozen), stream
    return found


def build_model(
    config: RunConfig,
    games: Sequence[Environment],
    root: Stream,
    bases: dict[Base, LanguageModel],
    *,
    frozen: bool,
) -> LanguageModel:
    """Return the model of a policy: pretrained, or tiny with a vocabulary derived from the games.

    Args:
        config: of a run that has this policy alone.
        games: whose words a tiny model knows.
        root: what is drawn derives from here.
        bases: pretrained models that are there, of which all weights stay as they are; one that is
            loaded for such a use is added.
        frozen: whether the policy is not trained.
    """
    asked = frozenset().union(*(loss.bind("losses").needs for loss in config.losses))
    with_values = not frozen and (
        "critic" in required_services(config.credit.bind("credit")) or "values" in asked
    )
    if config.model.name != TINY:
        return _pretrained(config, root, with_values, bases, frozen)
    tokenizer = tiny_tokenizer(vocabulary(config, games))
    parameters = tiny_parameters(config, len(tokenizer))
    refuse_beyond(
        TINY,
        parameters,
        4 * parameters + (0 if frozen else memory_to_train(config, parameters)),
        available_bytes(),
    )
    network = tiny_model(
        vocabulary_size=len(tokenizer),
        stream=root.child("weights"),
        hidden_size=config.model.hidden_size,
        layers=config.model.layers,
        heads=config.model.heads,
        context=config.model.context or TINY_CONTEXT,
    )
    model = LanguageModel(network, tokenizer, with_values=with_values)
    model.forward.recompute = config.model.gradient_checkpointing
    return model


def _pretrained(
    config: RunConfig,
    root: Stream,
    with_values: bool,
    bases: dict[Base, LanguageModel],
    frozen: bool,
) -> LanguageModel:
    """Return a pretrained model, with adapters if asked for.

    Its size is checked before it is loaded. Where its own weights stay as they are, it shares them
    with the others that are made of it.
    """
    from sparring.models.load import load_language_model

    chosen, lora = config.model, config.model.lora
    gpus = config.learner.gpus
    if gpus:
        check_there(gpus, f"learner.gpus={list(gpus)}")
    device = find_device(training_device(config))
    base = (chosen.name, chosen.dtype, str(device))
    plain = bases.get(base) if frozen or lora is not None else None
    if plain is None:
        plain = load_language_model(
            chosen.name,
            dtype=chosen.dtype,
            training_bytes=None
            if frozen
            else lambda parameters: memory_to_train(config, parameters),
            device=device,
        )
        plain.network = plain.network.to(device)
    network, over = plain.network, None
    if frozen or lora is not None:
        bases[base] = over = plain
        network = share_weights(plain.network)
    if lora is not None:
        network = add_adapters(
            network,
            rank=lora.rank,
            alpha=lora.alpha,
            targets=lora.targets,
            stream=root.child("adapters"),
        )
    model = LanguageModel(
        network, plain.tokenizer, with_values=with_values, longest=chosen.context, over=over
    )
    if chosen.gradient_checkpointing and not model.forward.shares_prefixes:
        kind = type(model.base).__name__
        raise ConfigError(
            f"model.gradient_checkpointing=true: the forward of {kind} is its own and not taken "
            "apart. Leave it off."
        )
    model.forward.recompute = chosen.gradient_checkpointing
    _ = (
        model.context
    )  # what names no limit and is given none is refused here, not in the first game
    return model


class PlayingPolicy:
    """A model, its renderer and sampler settings, and the copies of its weights that play.

    Args:
        name: of the policy.
        config: of a run that has this policy alone.
        model: gives its weights; from ``engine.players``.
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
                renderer=self.renderer, name=str(who), context=self.context, player=self.imitated
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
        model = self.model_of(who)
        sampler = agent.sampler if isinstance(agent, HasSampler) else None
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
        return sampler.decoding if isinstance(sampler, HasDecoding) else self.model.decoding

    def _sit(self, player: PlayerRef, model: LanguageModel) -> PolicyAgent:
        return policy(
            sampler=self.config.sampler.bind("samplers")(model),
            renderer=self.renderer,
            params=self.params,
            name=str(player),
            context=self.context,
            in_flight=self.config.rollout.in_flight,
        )


class Players:
    """The policies of a run, and its players (``agents``, by the text forms of references).

    Args:
        config: of the run.
        kind: makes a policy: one that plays, or one that is trained as well.
    """

    policies: Mapping[str, PlayingPolicy]

    def __init__(self, config: RunConfig, kind: type[PlayingPolicy] = PlayingPolicy) -> None:
        torch.set_num_threads(config.threads or max(torch.get_num_threads(), 1))
        self.config = config
        self.root = Stream.from_seed(config.seed)
        self.environments: list[tuple[Environment, float]] = [
            (configured_game(section), section.weight) for section in config.environments
        ]
        games = [game for game, _ in self.environments]
        self.roles = Roles(config, games)
        self.policies = {
            name: kind(name, own, model, root, frozen=config.is_frozen(name))
            for name, (own, model, root) in build_models(config, games, self.root).items()
        }
        for own in self.policies.values():
            check_context(own.context, games, own.renderer)
        self.agents: dict[str, Agent] = {}
        self.between: Callable[[], None] | None = None  # called while plays go on; see ``rollout``

    @property
    def learners(self) -> tuple[str, ...]:
        """The policies that are trained, in the order of the configuration."""
        return tuple(name for name, own in self.policies.items() if not own.frozen)

    def seats(self, game: Environment) -> tuple[tuple[str, bool], ...]:
        """Return the policy of each seat of an environment, and whether it is trained."""
        return tuple((name, not self.policies[name].frozen) for name in self.roles.of(game))

    @property
    def apart(self) -> bool:
        """Whether each policy is a player of its own, in all roles: several learn in one league.

        If not, each policy has its roles, and a player who names none is all of them.
        """
        return bool(self.config.league.learners)

    @property
    def members(self) -> tuple[PlayerRef, ...]:
        """The snapshots, oldest first: each is of one learner of a league, or of every policy that
        is trained.
        """
        if not self.apart:
            return tuple(map(snapshot, self.policies[self.learners[0]].past))
        found = [
            snapshot(step, name) for name in self.learners for step in self.policies[name].past
        ]
        return tuple(sorted(found, key=lambda member: member.step or 0))

    def parts(self, member: PlayerRef) -> tuple[PlayerRef, ...]:
        """Return the snapshots, of a policy each, that a member is."""
        return (member,) if self.apart else tuple(map(member.of, self.learners))

    def agent(self, player: PlayerRef | str) -> Agent:
        """Return who a reference means: the learner, the published policy, a snapshot, or a bot.

        Where several policies have roles, a reference that names none means a team: in each seat
        the policy of the seat's role.

        Raises:
            UnknownNameError: there is no such snapshot or bot.
        """
        who = ref(player)
        if self.apart or len(self.policies) == 1 or who.kind not in OWN or who.name:
            return self._one(who)

        def at(game: Environment, seat: int) -> Agent:
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
        own = [str(LEARNER.of(name)) for name in self.policies]
        there = [str(one) for member in self.members for one in self.parts(member)]
        return UnknownNameError("player of this run", str(who), {*self.agents, *own, *there})

    def play(self, specs: Sequence[EpisodeSpec], judging: Judging | None = None) -> Rollout:
        """Play these games; see ``rollout.play.rollout``.

        Args:
            specs: the games.
            judging: what judges replies while the plays go on; None: nobody does, and one reply is
                given to each prompt.
        """
        specs = self.seated(specs)
        players = {str(player): player for spec in specs for player in spec.players}
        agents = {name: self._one(players[name]) for name in sorted(players)}
        for agent in agents.values():
            if isinstance(agent, HasSampler) and isinstance(agent.sampler, HasTokenHook):
                agent.sampler.between = self.between
        section, clock = self.config.rollout, Clock()
        found = rollout(
            specs,
            agents,
            in_flight=section.in_flight,
            retries=section.retries,
            judges=judging.judges(clock) if judging else None,
            candidates=judging.candidates if judging else None,
            between=self.between,
        )
        return Rollout(found.episodes, replace(found.counts, judging=clock.seconds))

    def seated(self, specs: Sequence[EpisodeSpec]) -> Sequence[EpisodeSpec]:
        """Return specs in which every policy is named, by default the one of the seat's role."""
        return [self._seated(spec) for spec in specs] if self.config.policies else specs

    def _seated(self, spec: EpisodeSpec) -> EpisodeSpec:
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

    def renew(self) -> None:
        """Give the samplers of the players of now the weights that their policies have."""
        for name in list(self.agents):
            if ref(name).kind in OWN:
                self._one(ref(name))

    def trained_in(self, policy: str, episodes: Sequence[Episode]) -> Sequence[Episode]:
        """Return the plays in which seats of a policy are trained, and those seats alone."""
        if not self.config.policies:
            return episodes
        name, found = "" if policy == MAIN else policy, []
        for episode in episodes:
            trained = tuple(
                asked and player.kind in OWN and player.name == name
                for asked, player in zip(episode.trained, episode.players, strict=True)
            )
            if any(trained):
                found.append(replace(episode, trained=trained))
        return found

    def drop_member(self, member: PlayerRef) -> None:
        """Let a snapshot leave the league."""
        assert member.step is not None, "a snapshot"
        for one in self.parts(member):
            self.policies[one.name or MAIN].past.pop(member.step, None)
            self.agents.pop(str(one), None)
