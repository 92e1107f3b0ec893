"""Makes environments and plays episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.api.runs import Run, check_integer
from sparring.config.plugins.guard import with_watch
from sparring.core.errors import ConfigError, quoted
from sparring.core.records import LEARNER, EnvironmentSpec, Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.catalogue import from_spec, make_game
from sparring.measure.agent_spec import parse_agent
from sparring.play.players.base import Agent
from sparring.play.spec import EpisodeSpec
from sparring.play.team import play_teams


@with_watch
def make_environment(
    name: str | EnvironmentSpec, *, illegal: Mapping[str, Any] | None = None, **options: Any
) -> Environment:
    """Return an environment by name: a plug-in, or a turn-based game of OpenSpiel.

    Args:
        name: a name from `sparring list environments`, or package.module; or an episode's
            ``environment``, which includes the options.
        illegal: the rule for illegal replies, e.g. {"rule": "retry", "retries": 2}.
        options: options of the environment; `sparring explain NAME` lists them.

    Raises:
        UnknownNameError: there is no such environment or option.
        ConfigError: an option's value is wrong.
        GameError: an episode's environment has another version than the installed one.
    """
    if isinstance(name, EnvironmentSpec):
        if illegal is not None or options:
            raise ConfigError(
                "make_environment: an EnvironmentSpec contains its options and its rule for "
                "illegal replies; leave the other arguments out."
            )
        return from_spec(name)
    if not isinstance(name, str):
        raise ConfigError(
            f"{quoted(name)} is not a name of an environment; write e.g. "
            "make_environment('kuhn_poker')."
        )
    return make_game(name, options=options, illegal=illegal)


@with_watch
def play_episodes(
    environment: str | Environment,
    players: Sequence[str | Run | Agent],
    *,
    plays: int = 1,
    group_size: int = 1,
    trained: Sequence[int] | None = None,
    seed: int = 0,
    in_flight: int | None = None,
) -> list[Episode]:
    """Play episodes and return them.

    Args:
        environment: an environment or its name.
        players: one per seat: a bot as on the command line ("random", "mcts simulations=100"), a
            run, or an agent.
        plays: number of episodes.
        group_size: number of episodes that share an initial state.
        trained: seats whose turns become rows of ``turn_table``; None: all.
        seed: seed of the episodes; equal seeds give equal episodes.
        in_flight: number of episodes at once, e.g. the sessions that an environment server allows;
            None: the players' limit (a run's ``rollout.in_flight``), else 64.

    Raises:
        ConfigError: the players do not fill the seats, or a player cannot be made.
        RolloutError: episodes failed; the message has their number and the reason.
    """
    check_integer(plays, "plays", 1)
    check_integer(group_size, "group_size", 1)
    check_integer(seed, "seed", 0)
    if in_flight is not None:
        check_integer(in_flight, "in_flight", 1)
    game = make_game(environment) if isinstance(environment, str) else environment
    if not hasattr(game, "num_seats"):
        raise ConfigError(
            f"{quoted(environment)} is not an environment; write a name, or the result of "
            "make_environment."
        )
    if isinstance(players, str) or not isinstance(players, Sequence):
        raise ConfigError(
            f"players={quoted(players)} is not a list; name one player per seat, e.g. ['random', "
            "'random']."
        )
    if len(players) != game.num_seats:
        raise ConfigError(
            f"{game.name} has {game.num_seats} seats, but there are {len(players)} players; name "
            "one per seat."
        )
    agents: dict[str, Agent] = {}
    seats = tuple(add_agent(player, agents) for player in players)
    trained_seats = range(game.num_seats) if trained is None else trained
    if not isinstance(trained_seats, Sequence) or not all(
        seat in range(game.num_seats) for seat in trained_seats
    ):
        raise ConfigError(
            f"trained={quoted(trained)} is not a list of seats; {game.name} has 0 "
            f"to {game.num_seats - 1}."
        )
    trained_flags = tuple(seat in trained_seats for seat in range(game.num_seats))
    specs = [
        episode_spec(
            game, seats, trained_flags, seed=seed, number=number, group=number // group_size
        )
        for number in range(plays)
    ]
    return play_teams(specs, agents, retries=0, in_flight=in_flight)


def episode_spec(
    game: Environment,
    seats: Sequence[str],
    trained: tuple[bool, ...],
    *,
    seed: int,
    number: int,
    group: int,
) -> EpisodeSpec:
    """Return the spec of one of the episodes of a seed.

    Args:
        game: the environment.
        seats: the name of the player in each seat, [num_seats].
        trained: whether the turns of each seat are trained, [num_seats].
        seed: seed of all episodes.
        number: number of the episode.
        group: number of the initial state.
    """
    root = Stream.from_seed(seed).child("api")
    return EpisodeSpec(
        game=game,
        episode_id=number,
        group_id=group,
        deal=root.child("deal").child(group),
        stream=root.child("play").child(number),
        seats=seats,
        trained=trained,
    )


def add_agent(player: str | Run | Agent, agents: dict[str, Agent]) -> str:
    """Add a player to the agents by name, and return its name.

    Args:
        player: a bot as on the command line, a run, or an agent.
        agents: the agents so far, by name.

    Raises:
        ConfigError: the player cannot be made.
    """
    if isinstance(player, str):
        if player not in agents:
            agents[player] = parse_agent(player).make()
        return player
    agent = player.policy if isinstance(player, Run) else player
    if not hasattr(agent, "act"):
        raise ConfigError(
            f"{quoted(player)} is not a player; write a bot's name, a run "
            "(sparring.load_run(PATH)) or an agent."
        )
    for name, known_agent in agents.items():
        if known_agent is agent:
            return name
    stem = str(LEARNER) if isinstance(player, Run) else type(player).__name__
    name = next(
        name
        for name in (stem, *(f"{stem}-{number}" for number in range(1, len(agents) + 1)))
        if name not in agents
    )
    agents[name] = agent
    return name
