"""The players of a run (policies and bots), and its environments."""

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
    POLICY_KINDS,
    Episode,
    PlayerRef,
    SamplingParams,
    ref,
    snapshot,
)
from sparring.core.rng import Stream
from sparring.engine.plan import TINY, TINY_CONTEXT, memory_to_train, tiny_parameters
from sparring.engine.protocol import Clock, ReplyJudges
from sparring.engine.workers.gpu_placement import check_gpus_exist
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.learn.weight_files import Snapshot
from sparring.models.adapters import add_adapters, share_weights
from sparring.models.language_model import LanguageModel
from sparring.models.memory import available_bytes, check_fits, find_device
from sparring.models.render.plain import vocabulary
from sparring.models.samplers.base import HasDecoding, HasTokenHook
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.play.context_check import check_context
from sparring.play.players.base import Agent, HasSampler, TextAgent
from sparring.play.players.demonstrator import demonstrator, imitated_player
from sparring.play.players.policy import PolicyAgent, check_reply_length, policy
from sparring.play.rollout import Rollout, rollout
from sparring.play.spec import EpisodeSpec
from sparring.play.team import Team


class Roles:
    """Assigns a policy to every seat of a run's environments.

    If several policies learn in one league, each plays all roles: ``main`` stands for all of them.

    Args:
        config: the run's configuration.
        games: the run's environments, in the order of the configuration.

    Raises:
        ConfigError: a role has no policy, or a policy has no role.
        UnknownNameError: no environment has a named role.
    """

    def __init__(self, config: RunConfig, games: Sequence[Environment]) -> None:
        sections = list(zip(games, config.environments, strict=True))
        self._policies, self._shared = tuple(config.by_policy), config.roles
        self._has_policies_by_role = bool(config.policies) and not config.league.learners
        self._policies_of = {
            game.name: {**config.roles, **section.roles} for game, section in sections
        }
        all_roles = {role: None for game, _ in sections for role in game.roles}
        _check_roles(config.roles, all_roles)
        for game, section in sections:
            _check_roles(section.roles, game.roles)
        policies_with_roles = {name for game, _ in sections for name in self.of(game)}
        policies_with_roles |= set(config.league.learners)
        for name in self._policies:
            if name not in policies_with_roles:
                raise ConfigError(
                    f"policies.{name}: the policy plays no role; write one of "
                    f"{', '.join(all_roles)}, such as roles: "
                    f"{{{next(iter(all_roles))}: {name}}}, or leave the policy out."
                )

    def of(self, game: Environment) -> tuple[str, ...]:
        """Return the policy of each seat of an environment, [num_seats].

        Raises:
            ConfigError: a role has no policy.
        """
        if not self._has_policies_by_role:
            return (MAIN,) * game.num_seats
        policies = self._policies_of.get(game.name, self._shared)
        missing_roles = [role for role in game.roles if role not in policies]
        if missing_roles:
            raise ConfigError(
                f"roles: the role {missing_roles[0]!r} of {game.name!r} has no policy. Its roles "
                f"are {', '.join(dict.fromkeys(game.roles))}; write roles: "
                f"{{{missing_roles[0]}: {self._policies[0]}}}, or another one of the policies "
                f"{', '.join(self._policies)}."
            )
        return tuple(policies[role] for role in game.roles)


def _check_roles(roles: Iterable[str], names: Iterable[str]) -> None:
    for role in roles:
        if role not in names:
            raise UnknownNameError("role in `roles`", role, names)


BaseKey = tuple[str, str, str]  # name, dtype and device of a pretrained model


def build_models(
    config: RunConfig, games: Sequence[Environment], root: Stream
) -> dict[str, tuple[RunConfig, LanguageModel, Stream]]:
    """Return each policy's configuration, model, and root stream.

    If several policies adapt one pretrained model, it is in memory once.
    """
    models, bases = {}, dict[BaseKey, LanguageModel]()
    for name, section in config.by_policy.items():
        stream = root if name == MAIN else root.child("policy").child(name)
        model = build_model(section, games, stream, bases, frozen=config.is_frozen(name))
        models[name] = section, model, stream
    return models


def build_model(
    config: RunConfig,
    games: Sequence[Environment],
    root: Stream,
    bases: dict[BaseKey, LanguageModel],
    *,
    frozen: bool,
) -> LanguageModel:
    """Return the model of a policy: pretrained, or tiny with a vocabulary derived from the games.

    Args:
        config: configuration of a run with only this policy.
        games: the environments whose words a tiny model knows.
        root: the random stream of the policy.
        bases: the pretrained models in memory with frozen weights; this function may add one.
        frozen: whether the policy is not trained.
    """
    needs = frozenset().union(*(loss.bind("losses").needs for loss in config.losses))
    with_values = not frozen and (
        "critic" in required_services(config.credit.bind("credit")) or "values" in needs
    )
    if config.model.name != TINY:
        return _build_pretrained(config, root, with_values, bases, frozen)
    tokenizer = tiny_tokenizer(vocabulary(config, games))
    size = tiny_parameters(config, len(tokenizer))
    check_fits(
        TINY,
        size,
        4 * size + (0 if frozen else memory_to_train(config, size)),
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


def _build_pretrained(
    config: RunConfig,
    root: Stream,
    with_values: bool,
    bases: dict[BaseKey, LanguageModel],
    frozen: bool,
) -> LanguageModel:
    """Return a pretrained model, with adapters if the configuration names them.

    The sizes are checked before loading. Frozen weights are shared through ``bases``.
    """
    from sparring.models.load import load_language_model

    settings, lora = config.model, config.model.lora
    gpus = config.learner.gpus
    if gpus:
        check_gpus_exist(gpus, f"learner.gpus={list(gpus)}")
    device = find_device(training_device(config))
    base_key = (settings.name, settings.dtype, str(device))
    pretrained = bases.get(base_key) if frozen or lora is not None else None
    if pretrained is None:
        pretrained = load_language_model(
            settings.name,
            dtype=settings.dtype,
            training_bytes=None
            if frozen
            else lambda parameters: memory_to_train(config, parameters),
            device=device,
        )
        pretrained.network = pretrained.network.to(device)
    network, tokenizer, base = pretrained.network, pretrained.tokenizer, None
    if frozen or lora is not None:
        bases[base_key] = base = pretrained
        network = share_weights(pretrained.network)
    if lora is not None:
        network = add_adapters(
            network,
            rank=lora.rank,
            alpha=lora.alpha,
            targets=lora.targets,
            stream=root.child("adapters"),
        )
    model = LanguageModel(
        network, tokenizer, with_values=with_values, longest=settings.context, shared_base=base
    )
    if settings.gradient_checkpointing and not model.forward.shares_prefixes:
        network_name = type(model.base).__name__
        raise ConfigError(
            f"model.gradient_checkpointing=true: Sparring cannot split the forward pass of "
            f"{network_name} into layers. Write model.gradient_checkpointing=false."
        )
    model.forward.recompute = settings.gradient_checkpointing
    _ = model.context  # if the model has no limit, this raises before the first episode
    return model


class PlayingPolicy:
    """A model, its renderer and sampling parameters, and the copies of its weights that play.

    Args:
        name: the policy's name.
        config: configuration of a run with only this policy.
        model: the model with its weights, from ``engine.players``.
        root: the random stream of the policy.
        frozen: whether the policy is not trained; it then has no snapshots.

    Raises:
        ConfigError: the length limit of replies leaves no room for a prompt.
        ModelError: the model's configuration does not name the length of its context.
    """

    def __init__(
        self, name: str, config: RunConfig, model: LanguageModel, root: Stream, *, frozen: bool
    ) -> None:
        self.name, self.config, self.model, self.root = name, config, model, root
        self.frozen = frozen
        self.renderer = config.renderer.bind("render")(model.tokenizer)
        self.context = config.context.bind("context")
        rollout = config.rollout
        check_reply_length(f"Policy {name!r}: rollout.", rollout.max_new_tokens, model.context)
        self.params = SamplingParams(
            max_new_tokens=rollout.max_new_tokens,
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            top_k=rollout.top_k,
        )
        self.past: dict[int, Snapshot] = {}  # snapshots of the league, by their step
        self.average: Snapshot | None = None  # the EMA weights, if there are any
        if frozen:
            for parameter in model.parameters():
                parameter.requires_grad_(False)

    @property
    def published(self) -> LanguageModel:
        """The model to evaluate and export: the EMA weights, or the current weights without EMA."""
        return self.model if self.average is None else self.average.model

    def agent(self, player: PlayerRef) -> Agent | None:
        """Return the agent of one of the policy's players; None if the player does not exist.

        Args:
            player: a learner, policy, demonstrator or snapshot.
        """
        if player.kind == "demonstrator":
            return demonstrator(
                renderer=self.renderer, name=str(player), context=self.context, player=self.imitated
            )
        model = self.model_of(player)
        return None if model is None else self._policy_agent(player, model)

    @cached_property
    def imitated(self) -> TextAgent | None:
        """The player that the warm-up imitates; None: random legal play."""
        player = self.config.warmup.player
        return imitated_player(None if player is None else player.bind("players"))

    def publish(self, agent: Agent, player: PlayerRef) -> None:
        """Update the sampler of one of the policy's players to the current weights."""
        model = self.model_of(player)
        sampler = agent.sampler if isinstance(agent, HasSampler) else None
        if model is not None and sampler is not None and sampler.version != model.version:
            sampler.publish(model.tensors(), model.version)

    def model_of(self, player: PlayerRef) -> LanguageModel | None:
        """Return the model of one of the policy's players; None if there is none."""
        if player.kind == "snapshot" and not self.frozen:
            return self.past[player.step].model if player.step in self.past else None
        return self.published if player.kind == "policy" else self.model

    def load_weights(self, player: PlayerRef, tensors: dict[str, Tensor], version: int) -> None:
        """Load the weights of one of the policy's players.

        Args:
            player: a learner, policy or snapshot.
            tensors: the weights by name, as ``save_weights`` writes them.
            version: number of updates so far.

        Raises:
            ModelError: the tensors are of another model.
        """
        model = self.model
        if player.kind == "policy":
            self.average = self.average or Snapshot.of(self.model, "average")
            model = self.average.model
        elif player.step is not None:
            if player.step not in self.past:
                self.past[player.step] = Snapshot.of(self.model, "past")
            model = self.past[player.step].model
        model.load_tensors(tensors)
        model.version = version

    @property
    def invariant(self) -> bool:
        """Whether a reply is exactly the same in every batch; see ``Sampler``."""
        return self._policy_agent(LEARNER, self.model).sampler.invariant

    @property
    def decoding(self) -> str:
        """The name of the code that computes replies, from the sampler or the model."""
        sampler = self._policy_agent(LEARNER, self.model).sampler
        return sampler.decoding if isinstance(sampler, HasDecoding) else self.model.decoding

    def _policy_agent(self, player: PlayerRef, model: LanguageModel) -> PolicyAgent:
        return policy(
            sampler=self.config.sampler.bind("samplers")(model),
            renderer=self.renderer,
            params=self.params,
            name=str(player),
            context=self.context,
            in_flight=self.config.rollout.in_flight,
        )


class Players:
    """The policies of a run, and its players: ``agents`` by the text form of their reference.

    Args:
        config: the run's configuration.
        policy_class: the class of its policies: ``PlayingPolicy``, or ``Policy`` if they learn.
    """

    policies: Mapping[str, PlayingPolicy]

    def __init__(
        self, config: RunConfig, policy_class: type[PlayingPolicy] = PlayingPolicy
    ) -> None:
        torch.set_num_threads(config.threads or max(torch.get_num_threads(), 1))
        self.config = config
        self.root = Stream.from_seed(config.seed)
        self.environments: list[tuple[Environment, float]] = [
            (configured_game(section), section.weight) for section in config.environments
        ]
        games = [game for game, _ in self.environments]
        self.roles = Roles(config, games)
        self.policies = {
            name: policy_class(name, policy, model, root, frozen=config.is_frozen(name))
            for name, (policy, model, root) in build_models(config, games, self.root).items()
        }
        for playing_policy in self.policies.values():
            check_context(playing_policy.context, games, playing_policy.renderer)
        self.agents: dict[str, Agent] = {}
        self.on_pause: Callable[[], None] | None = None  # may change weights; see ``Worker.answer``

    @property
    def learners(self) -> tuple[str, ...]:
        """The trained policies, in the order of the configuration."""
        return tuple(name for name, policy in self.policies.items() if not policy.frozen)

    def seats(self, game: Environment) -> tuple[tuple[str, bool], ...]:
        """Return the policy of each seat of an environment, and whether it is trained."""
        return tuple((name, not self.policies[name].frozen) for name in self.roles.of(game))

    @property
    def has_league_learners(self) -> bool:
        """Whether several policies learn in one league, so that each plays all roles.

        If not, each policy has its roles, and a player without a name means all policies.
        """
        return bool(self.config.league.learners)

    @property
    def members(self) -> tuple[PlayerRef, ...]:
        """The snapshots, oldest first; each has one league learner, or all trained policies."""
        if not self.has_league_learners:
            return tuple(map(snapshot, self.policies[self.learners[0]].past))
        snapshots = [
            snapshot(step, name) for name in self.learners for step in self.policies[name].past
        ]
        return tuple(sorted(snapshots, key=lambda member: member.step or 0))

    def parts(self, member: PlayerRef) -> tuple[PlayerRef, ...]:
        """Return a member's snapshots, one for each of its policies."""
        return (
            (member,) if self.has_league_learners else tuple(map(member.for_policy, self.learners))
        )

    def agent(self, player: PlayerRef | str) -> Agent:
        """Return the agent of a reference: the learner, the published policy, a snapshot, or a bot.

        If policies have roles, a reference without a policy's name means a team, in which each seat
        is played by the policy of its role.

        Raises:
            UnknownNameError: the snapshot or bot does not exist.
        """
        reference = ref(player)
        has_one_policy = self.has_league_learners or len(self.policies) == 1 or bool(reference.name)
        if has_one_policy or reference.kind not in POLICY_KINDS:
            return self._single_agent(reference)

        def agent_of_seat(game: Environment, seat: int) -> Agent:
            return self._single_agent(reference.for_policy(self.roles.of(game)[seat]))

        if reference.kind == "snapshot" and reference not in self.members:
            raise self._unknown_player(reference)
        games = [game for game, _ in self.environments]
        return Team(str(reference), agent_of_seat, games, self.config.rollout.in_flight)

    def _single_agent(self, player: PlayerRef) -> Agent:
        """Return the agent of a single player; a reference without a name means ``main``."""
        if str(player) not in self.agents:
            self.agents[str(player)] = self._build_agent(player)
        agent = self.agents[str(player)]
        if player.kind in POLICY_KINDS:
            self.policies[player.name or MAIN].publish(agent, player)
        return agent

    def _build_agent(self, player: PlayerRef) -> Agent:
        if player.kind in POLICY_KINDS:
            name = player.name or (MAIN if MAIN in self.policies else "")
            agent = None if name not in self.policies else self.policies[name].agent(player)
            if agent is None:
                raise self._unknown_player(player)
            return agent
        if player.kind not in ("bot", "named"):
            raise self._unknown_player(player)
        bot = self.config.bots.get(player.name)
        bot_agent: Agent = (bot.bind("players") if bot else bound_agent(player.name))()
        return bot_agent

    def _unknown_player(self, player: PlayerRef) -> UnknownNameError:
        learners = [str(LEARNER.for_policy(name)) for name in self.policies]
        snapshots = [str(part) for member in self.members for part in self.parts(member)]
        return UnknownNameError(
            "player of this run", str(player), {*self.agents, *learners, *snapshots}
        )

    def play(self, specs: Sequence[EpisodeSpec], judging: ReplyJudges | None = None) -> Rollout:
        """Play episodes; see ``play.rollout.rollout``.

        Args:
            specs: the episodes.
            judging: the judges of replies; None: no judging, and one reply to each prompt.
        """
        specs = self.with_named_policies(specs)
        players = {str(player): player for spec in specs for player in spec.players}
        agents = {name: self._single_agent(players[name]) for name in sorted(players)}
        for agent in agents.values():
            if isinstance(agent, HasSampler) and isinstance(agent.sampler, HasTokenHook):
                agent.sampler.between_tokens = self.on_pause
        section, clock = self.config.rollout, Clock()
        result = rollout(
            specs,
            agents,
            in_flight=section.in_flight,
            retries=section.retries,
            judges=judging.judges(clock) if judging else None,
            candidates=judging.candidates if judging else None,
            on_idle=self.on_pause,
        )
        return Rollout(result.episodes, replace(result.counts, judging_seconds=clock.seconds))

    def with_named_policies(self, specs: Sequence[EpisodeSpec]) -> Sequence[EpisodeSpec]:
        """Return specs in which players of policies have names: by default those of the roles."""
        return [self._name_policies(spec) for spec in specs] if self.config.policies else specs

    def _name_policies(self, spec: EpisodeSpec) -> EpisodeSpec:
        policies = self.roles.of(spec.game)
        seats = tuple(
            player if player.name else player.for_policy(name)
            for player, name in zip(spec.players, policies, strict=True)
        )
        is_seat_trained = tuple(
            is_trained
            and not (player.kind in POLICY_KINDS and self.policies[player.name or MAIN].frozen)
            for is_trained, player in zip(spec.trained, seats, strict=True)
        )
        return replace(spec, seats=seats, trained=is_seat_trained)

    def update_samplers(self) -> None:
        """Update the samplers of all current players to the weights of their policies."""
        for name in list(self.agents):
            if ref(name).kind in POLICY_KINDS:
                self._single_agent(ref(name))

    def trained_in(self, policy: str, episodes: Sequence[Episode]) -> Sequence[Episode]:
        """Return the episodes that train seats of a policy, with only those seats trained."""
        if not self.config.policies:
            return episodes
        name, policy_episodes = "" if policy == MAIN else policy, []
        for episode in episodes:
            is_seat_trained = tuple(
                is_trained and player.kind in POLICY_KINDS and player.name == name
                for is_trained, player in zip(episode.trained, episode.players, strict=True)
            )
            if any(is_seat_trained):
                policy_episodes.append(replace(episode, trained=is_seat_trained))
        return policy_episodes

    def drop_member(self, member: PlayerRef) -> None:
        """Remove a snapshot from the league."""
        assert member.step is not None, "a snapshot"
        for part in self.parts(member):
            self.policies[part.name or MAIN].past.pop(member.step, None)
            self.agents.pop(str(part), None)
