"""Players that consist of several agents: teams, with an agent per role, and mixtures."""

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
    """A player that consists of several agents: the agent of a seat depends on the seat's role.

    Args:
        name: the player's name.
        agent_of_seat: returns the agent of a seat of an environment.
        games: the environments that queries may be about.
        in_flight: number of episodes at once; None: no limit.
    """

    renderer: Any = None

    def __init__(
        self,
        name: str,
        agent_of_seat: Callable[[Environment, int], Agent],
        games: Sequence[Environment] = (),
        in_flight: int | None = None,
    ) -> None:
        self.name, self.agent_of_seat, self.in_flight = name, agent_of_seat, in_flight
        self._games = {game.name: game for game in games}

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Raise an error, as each seat needs a single agent.

        Raises:
            GameError: always.
        """
        raise GameError(f"{self.name} consists of several agents; play it with play_teams.")

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return each query's log-probabilities of the legal actions, from its seat's agent.

        Args:
            queries: queries about environments in ``games``.

        Raises:
            GameError: an environment is unknown, or an agent cannot score actions.
        """
        logprobs: list[FloatArray | None] = [None] * len(queries)
        seats = [(query.game, query.seat) for query in queries]
        for game, seat in sorted(set(seats)):
            indices = [index for index, pair in enumerate(seats) if pair == (game, seat)]
            agent: Any = self.agent_of_seat(self._environment(game), seat)
            rows = agent.action_logprobs([queries[index] for index in indices])
            for index, row in zip(indices, rows, strict=True):
                logprobs[index] = row
        return [row for row in logprobs if row is not None]

    def _environment(self, name: str) -> Environment:
        if name not in self._games:
            raise GameError(
                f"{name!r} is not an environment of the run, so the policy of its seats is "
                f"unknown; take one of {', '.join(self._games)}."
            )
        return self._games[name]


IN_FLIGHT = 64  # default number of episodes at once


def play_teams(
    specs: Sequence[EpisodeSpec], agents: Mapping[str, Agent], **options: Any
) -> list[Episode]:
    """Return all episodes of ``rollout_teams``, with the same arguments.

    Raises:
        RolloutError: an episode failed beyond its retries, so that the list would be shorter.
        ConfigError: a mixture has policies or snapshots of a run, but no run provides them.
    """
    return rollout_teams(specs, agents, **options).require_all(len(specs))


def rollout_teams(
    specs: Sequence[EpisodeSpec],
    agents: Mapping[str, Agent],
    *,
    in_flight: int | None = None,
    **options: Any,
) -> Rollout:
    """Play specs as ``play.rollout.rollout`` does, where agents may be teams and mixtures.

    Args:
        specs: the episodes.
        agents: one agent per player; the key is the player's text form, as in the specs.
        in_flight: episodes at once; None: the smallest limit of an agent, 64 if none has a limit.
        options: further options of ``rollout``.

    Raises:
        ConfigError: a mixture has policies or snapshots of a run, but no run provides them.
    """
    agent_limits = [
        agent.in_flight
        for agent in agents.values()
        if isinstance(agent, HasInFlight) and agent.in_flight
    ]
    seating = seat_single_agents(specs, agents)
    limit = in_flight or min(agent_limits, default=IN_FLIGHT)
    episodes, counts = rollout(seating.specs, seating.agents, in_flight=limit, **options)
    return Rollout([rename_agents(episode, seating.team_names) for episode in episodes], counts)


class SeatedEpisodes(NamedTuple):
    """Episodes in which a single agent plays each seat.

    ``team_names`` maps the name of an agent to the name of its team or mixture. ``members`` maps
    the name of an agent to the player that was drawn from its mixture.
    """

    specs: Sequence[EpisodeSpec]
    agents: Mapping[str, Agent]
    team_names: Mapping[str, str]
    members: Mapping[str, PlayerRef]


def seat_single_agents(specs: Sequence[EpisodeSpec], agents: Mapping[str, Agent]) -> SeatedEpisodes:
    """Return the episodes with one agent per seat in place of teams and mixtures.

    Args:
        specs: the episodes.
        agents: one agent per player, which may be a team or a mixture; the key is the player's
            text form, as in the specs.

    Raises:
        ConfigError: a mixture has policies or snapshots of a run, but no run provides them.
    """
    composites = {
        name: player for name, player in agents.items() if isinstance(player, Team | Mixture)
    }
    if not composites:
        return SeatedEpisodes(specs, agents, {}, {})
    for player in composites.values():
        if isinstance(player, Mixture):
            player.agents()  # so that errors are raised before the first episode
    single_agents: dict[str, Agent] = dict(agents)
    team_names: dict[str, str] = {}
    members: dict[str, PlayerRef] = {}
    seated_specs = []
    for spec in specs:
        names = list(map(str, spec.players))
        for seat, name in enumerate(names):
            if name in composites:
                seat_name, agent, drawn_player = _seat_agent(name, composites[name], spec, seat)
                names[seat], team_names[seat_name] = seat_name, name
                single_agents[seat_name] = agent
                members.update({} if drawn_player is None else {seat_name: drawn_player})
        seated_specs.append(replace(spec, seats=tuple(names)))
    return SeatedEpisodes(seated_specs, single_agents, team_names, members)


def _seat_agent(
    name: str, agent: Agent, spec: EpisodeSpec, seat: int
) -> tuple[str, Agent, PlayerRef | None]:
    """Return the name and the agent of a seat, and the player drawn from a mixture, if any.

    A player drawn from a mixture may be a team, if its run has a policy for each role.
    """
    drawn_player = None
    if isinstance(agent, Mixture):
        first_seat_of_team = first_seats(teams_of(spec.game))[seat]
        drawn_player = agent.mixture_of_seat(spec.game, seat).draw(spec.stream, first_seat_of_team)
        name, agent = f"{name}, {drawn_player}", agent.agent(drawn_player)
    if isinstance(agent, Team):
        name = f"{name}, seat {seat} of {spec.game.name}"
        agent = agent.agent_of_seat(spec.game, seat)
    return name, agent, drawn_player


def rename_agents(episode: Episode, team_names: Mapping[str, str]) -> Episode:
    """Return the episode with the names of teams and mixtures.

    Args:
        episode: the record of one of the specs of ``seat_single_agents``.
        team_names: the ``team_names`` that ``seat_single_agents`` returned.
    """
    if not team_names:
        return episode
    return replace(
        episode,
        agents=tuple(team_names.get(name, name) for name in episode.agents),
        players=(),
        turns=tuple(
            turn._replace(agent=team_names.get(turn.agent, turn.agent)) for turn in episode.turns
        ),
    )
