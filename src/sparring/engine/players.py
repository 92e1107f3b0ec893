"""Who plays in a run: its policies as they play, its bots, and its environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from sparring.config import RunConfig
from sparring.config_parts import bound_agent
from sparring.engine.build import build_models
from sparring.engine.judging import Clock, Judging
from sparring.engine.roles import Roles
from sparring.engine.speaker import Speaker
from sparring.environments.catalogue import configured_game
from sparring.environments.openspiel.base import Game
from sparring.errors import UnknownNameError
from sparring.players.base import Agent
from sparring.refs import LEARNER, MAIN, OWN, PlayerRef, ref, snapshot
from sparring.rng import Stream
from sparring.rollout.context_check import check_context
from sparring.rollout.play import Rollout, rollout
from sparring.rollout.spec import EpisodeSpec
from sparring.rollout.team import Team
from sparring.types import Episode


class Players:
    """The policies of a run, and its players (``agents``, by the text forms of references).

    Args:
        config: of the run.
        kind: makes a policy: one that plays, or one that is trained as well.
    """

    policies: Mapping[str, Speaker]

    def __init__(self, config: RunConfig, kind: type[Speaker] = Speaker) -> None:
        torch.set_num_threads(config.threads or max(torch.get_num_threads(), 1))
        self.config = config
        self.root = Stream.from_seed(config.seed)
        self.environments: list[tuple[Game, float]] = [
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

    def seats(self, game: Game) -> tuple[tuple[str, bool], ...]:
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
        return tuple(sorted(found, key=_age))

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
            sampler: Any = getattr(agent, "sampler", None)
            if hasattr(sampler, "between"):
                sampler.between = self.between
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
        """Return specs in which every policy is named.

        Where there are several policies, a player of the run who names none is the one of the
        seat's role; and a seat is trained only where its policy is.
        """
        return [self._seated(spec) for spec in specs] if self.config.policies else specs

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


def _age(member: PlayerRef) -> int:
    """Return the step that a snapshot was taken at."""
    return member.step or 0
