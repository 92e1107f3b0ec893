"""Several agents that sit as one player: each in the seats of its roles, or one by the draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sparring.core.errors import GameError
from sparring.core.records import Episode, FloatArray, PlayerRef
from sparring.environments.base import Environment, first_seats, teams_of
from sparring.play.players.base import Agent, HasInFlight, PendingTurn, Reply
from sparring.play.players.mixture import Mixture
from sparring.play.rollout import Rollout, rollout
from sparring.play.spec import EpisodeSpec


class Team:
    """One player of several agents: the agent of a seat depends on the seat's role.

    Args:
        name: what the player is called.
        at: the agent of a seat of an environment.
        games: the environments whose seats are known by the environment's name, too.
        in_flight: plays that the agents are to be asked in at once; None: as many as there are.
    """

    renderer: Any = None

    def __init__(
        self,
        name: str,
        at: Callable[[Environment, int], Agent],
        games: Sequence[Environment] = (),
        in_flight: int | None = None,
    ) -> None:
        self.name, self.at, self.in_flight = name, at, in_flight
        self._games = {game.name: game for game in games}

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Refuse to act: who acts is known where a seat is filled.

        Raises:
            GameError: always.
        """
        raise GameError(f"{self.name} is several agents; play with rollout.team.play_teams.")

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return for each query what the agent of its seat says of the legal actions.

        Args:
            queries: of environments that are known by name.

        Raises:
            GameError: an environment is not known, or an agent scores no actions.
        """
        found: list[FloatArray | None] = [None] * len(queries)
        for place in sorted({(query.game, query.seat) for query in queries}):
            own = [n for n, query in enumerate(queries) if (query.game, query.seat) == place]
            agent: Any = self.at(self._known(place[0]), place[1])
            for number, row in zip(
                own, agent.action_logprobs([queries[n] for n in own]), strict=True
            ):
                found[number] = row
        return [row for row in found if row is not None]

    def _known(self, name: str) -> Environment:
        if name not in self._games:
            raise GameError(
                f"{name!r} is no environment of the run, so it is not known which policy sits "
                f"where; there are {', '.join(self._games)}."
            )
        return self._games[name]


IN_FLIGHT = 64  # plays at once where nothing says how many


def play_teams(
    specs: Sequence[EpisodeSpec], agents: Mapping[str, Agent], **options: Any
) -> list[Episode]:
    """Return all episodes of ``rollout_teams``; arguments are the same.

    Raises:
        RolloutError: a play failed beyond its retries, so that the list would be shorter.
        ConfigError: a mixture has players that only a run has.
    """
    return rollout_teams(specs, agents, **options).whole(len(specs))


def rollout_teams(
    specs: Sequence[EpisodeSpec],
    agents: Mapping[str, Agent],
    *,
    in_flight: int | None = None,
    **options: Any,
) -> Rollout:
    """Play as ``rollout.play.rollout`` does, where agents may be teams and mixtures.

    The records name the teams and the mixtures.

    Args:
        specs: the plays.
        agents: by the text forms of the players in the specs.
        in_flight: plays at once; None: those of the agent with the least, 64 if no agent says.
        options: as ``rollout`` has them.

    Raises:
        ConfigError: a mixture has players that only a run has.
    """
    rooms = [
        agent.in_flight
        for agent in agents.values()
        if isinstance(agent, HasInFlight) and agent.in_flight
    ]
    found = seated(specs, agents)
    room = in_flight or min(rooms, default=IN_FLIGHT)
    episodes, counts = rollout(found.specs, found.agents, in_flight=room, **options)
    return Rollout([renamed(episode, found.whose) for episode in episodes], counts)


class Seated(NamedTuple):
    """Plays in which one agent sits in each seat.

    ``whose`` names the team or the mixture that an agent stands for, and ``drawn`` says which
    player of a mixture it is.
    """

    specs: Sequence[EpisodeSpec]
    agents: Mapping[str, Agent]
    whose: Mapping[str, str]
    drawn: Mapping[str, PlayerRef]


def seated(specs: Sequence[EpisodeSpec], agents: Mapping[str, Agent]) -> Seated:
    """Return plays in which nobody is a team or a mixture; ``renamed`` undoes the names.

    Args:
        specs: the plays.
        agents: by the text forms of the players in the specs; they may be teams and mixtures.

    Raises:
        ConfigError: a mixture has players that only a run has.
    """
    several = {name: one for name, one in agents.items() if isinstance(one, Team | Mixture)}
    if not several:
        return Seated(specs, agents, {}, {})
    for one in several.values():
        if isinstance(one, Mixture):
            one.made()  # refused before anything is played
    single: dict[str, Agent] = dict(agents)
    whose: dict[str, str] = {}
    drawn: dict[str, PlayerRef] = {}
    changed = []
    for spec in specs:
        seats = list(map(str, spec.players))
        for seat, name in enumerate(seats):
            if name in several:
                own, agent, who = _seated(name, several[name], spec, seat)
                seats[seat], whose[own], single[own] = own, name, agent
                drawn.update({} if who is None else {own: who})
        changed.append(replace(spec, seats=tuple(seats)))
    return Seated(changed, single, whose, drawn)


def _seated(
    name: str, agent: Agent, spec: EpisodeSpec, seat: int
) -> tuple[str, Agent, PlayerRef | None]:
    """Return what who sits in a seat of a play is called, the agent, and who was drawn, if any. Who
    is drawn from a mixture may be a team again: a member of a run in which each role has a policy.
    """
    who = None
    if isinstance(agent, Mixture):
        first = first_seats(teams_of(spec.game))[seat]
        who = agent.at(spec.game, seat).drawn(spec.stream, first)
        name, agent = f"{name}, {who}", agent.agent(who)
    if isinstance(agent, Team):
        name, agent = f"{name}, seat {seat} of {spec.game.name}", agent.at(spec.game, seat)
    return name, agent, who


def renamed(episode: Episode, whose: Mapping[str, str]) -> Episode:
    """Return an episode in which the seats of a team have the team's name.

    Args:
        episode: of a play that ``seated`` gave.
        whose: of the same.
    """
    if not whose:
        return episode
    return replace(
        episode,
        agents=tuple(whose.get(name, name) for name in episode.agents),
        players=(),
        turns=tuple(
            turn._replace(agent=whose.get(turn.agent, turn.agent)) for turn in episode.turns
        ),
    )
