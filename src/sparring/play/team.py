"""Players that stand for several agents: teams, with an agent per role, and mixtures."""

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
        name: the player's name.
        agent_of_seat: returns the agent of a seat of an environment.
        games: the environments that queries may name.
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
        """Raise an error: seats are filled by single agents.

        Raises:
            GameError: always.
        """
        raise GameError(f"{self.name} stands for several agents; play with play.team.play_teams.")

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return for each query the log-probabilities of the legal actions, by its seat's agent.

        Args:
            queries: of environments in ``games``.

        Raises:
            GameError: an environment is unknown, or an agent cannot score actions.
        """
        logprobs: list[FloatArray | None] = [None] * len(queries)
        for game, seat in sorted({(query.game, query.seat) for query in queries}):
            places = [n for n, q in enumerate(queries) if (q.game, q.seat) == (game, seat)]
            agent: Any = self.agent_of_seat(self._environment(game), seat)
            for place, row in zip(
                places, agent.action_logprobs([queries[n] for n in places]), strict=True
            ):
                logprobs[place] = row
        return [row for row in logprobs if row is not None]

    def _environment(self, name: str) -> Environment:
        if name not in self._games:
            raise GameError(
                f"{name!r} is not an environment of the run, so the policy of its seats is "
                f"unknown; take one of {', '.join(self._games)}."
            )
        return self._games[name]


IN_FLIGHT = 64  # episodes at once, by default


def play_teams(
    specs: Sequence[EpisodeSpec], agents: Mapping[str, Agent], **options: Any
) -> list[Episode]:
    """Return all episodes of ``rollout_teams``; arguments are the same.

    Raises:
        RolloutError: an episode failed beyond its retries, so that the list would be shorter.
        ConfigError: a mixture has players that only a run has.
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
        agents: by the text forms of the players in the specs; records have these names.
        in_flight: episodes at once; None: the smallest limit of an agent, 64 if none has a limit.
        options: of ``rollout``.

    Raises:
        ConfigError: a mixture has players that only a run has.
    """
    limits = [
        agent.in_flight
        for agent in agents.values()
        if isinstance(agent, HasInFlight) and agent.in_flight
    ]
    single = seat_single_agents(specs, agents)
    limit = in_flight or min(limits, default=IN_FLIGHT)
    episodes, counts = rollout(single.specs, single.agents, in_flight=limit, **options)
    return Rollout([rename_agents(episode, single.team_names) for episode in episodes], counts)


class SeatedEpisodes(NamedTuple):
    """Episodes in which a single agent plays each seat.

    By the name of an agent, ``team_names`` has the name of its team or mixture, and ``members`` has
    the player that was drawn from a mixture.
    """

    specs: Sequence[EpisodeSpec]
    agents: Mapping[str, Agent]
    team_names: Mapping[str, str]
    members: Mapping[str, PlayerRef]


def seat_single_agents(specs: Sequence[EpisodeSpec], agents: Mapping[str, Agent]) -> SeatedEpisodes:
    """Return the episodes with single agents for teams and mixtures (see ``rename_agents``).

    Args:
        specs: the episodes.
        agents: by the text forms of the players in the specs; they may be teams and mixtures.

    Raises:
        ConfigError: a mixture has players that only a run has.
    """
    teams = {name: player for name, player in agents.items() if isinstance(player, Team | Mixture)}
    if not teams:
        return SeatedEpisodes(specs, agents, {}, {})
    for player in teams.values():
        if isinstance(player, Mixture):
            player.agents()  # raises before anything is played
    single_agents: dict[str, Agent] = dict(agents)
    team_names: dict[str, str] = {}
    members: dict[str, PlayerRef] = {}
    seated_specs = []
    for spec in specs:
        seats = list(map(str, spec.players))
        for seat, name in enumerate(seats):
            if name in teams:
                label, agent, drawn_player = _seat_agent(name, teams[name], spec, seat)
                seats[seat], team_names[label], single_agents[label] = label, name, agent
                members.update({} if drawn_player is None else {label: drawn_player})
        seated_specs.append(replace(spec, seats=tuple(seats)))
    return SeatedEpisodes(seated_specs, single_agents, team_names, members)


def _seat_agent(
    name: str, agent: Agent, spec: EpisodeSpec, seat: int
) -> tuple[str, Agent, PlayerRef | None]:
    """Return the name and the agent of a seat, and the player drawn from a mixture, if any.

    A player of a mixture may be a team: a member of a run in which each role has a policy.
    """
    drawn_player = None
    if isinstance(agent, Mixture):
        first = first_seats(teams_of(spec.game))[seat]
        drawn_player = agent.mixture_of_seat(spec.game, seat).draw(spec.stream, first)
        name, agent = f"{name}, {drawn_player}", agent.agent(drawn_player)
    if isinstance(agent, Team):
        name = f"{name}, seat {seat} of {spec.game.name}"
        agent = agent.agent_of_seat(spec.game, seat)
    return name, agent, drawn_player


def rename_agents(episode: Episode, team_names: Mapping[str, str]) -> Episode:
    """Return the episode with the names of teams and mixtures.

    Args:
        episode: the record of one of the specs of ``seat_single_agents``.
        team_names: the team names that it returned.
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
