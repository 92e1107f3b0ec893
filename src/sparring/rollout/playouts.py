"""Playing on from the middle of finished games.

It estimates what the positions in them are worth to the agents who play.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparring.environments.openspiel.base import Game
from sparring.rng import Stream
from sparring.rollout.asking import Asking
from sparring.rollout.draft import moment_end
from sparring.rollout.play import Rollout, RolloutCounts
from sparring.rollout.spec import EpisodeSpec
from sparring.types import Episode


def with_playouts(
    episodes: Sequence[Episode],
    games: Mapping[str, Game],
    *,
    count: int,
    stream: Stream,
    max_turns: int | None = None,
) -> Asking[list[Episode]]:
    """Return the episodes with ``playout`` on the turns of trained seats; see ``rollout.asking``.

    It asks for games with the agents that played these.

    Mathematics: V(s after turn t) ~ mean of ``count`` returns of games that share the turns up to
    t; all seats go on as they play now, and chance is drawn anew from turn t on. After the last
    turn of an episode it is the episode's own return.

    Args:
        episodes: finished games.
        games: the games by name.
        count: games per turn.
        stream: everything drawn comes from here.
        max_turns: as the games were cut.
    """
    specs: list[EpisodeSpec] = []
    places: dict[int, tuple[int, int]] = {}  # group -> (number of the episode, number of the turn)
    for number, episode in enumerate(episodes):
        own = stream.child(number)
        for index, turn in enumerate(episode.turns):
            end = moment_end(episode.turns, index)  # what is taken at once is taken over at once
            if not episode.trained[turn.seat] or end == len(episode.turns):
                continue
            group = len(places)
            places[group] = number, index
            for member in range(count):
                specs.append(
                    EpisodeSpec(
                        game=games[episode.game],
                        episode_id=len(specs),
                        group_id=group,
                        deal=Stream(episode.seed),
                        stream=own.child(index).child(member),
                        seats=episode.players,
                        trained=episode.trained,
                        max_turns=max_turns,
                        prefix=episode.turns[:end],
                    )
                )
    sums: dict[tuple[int, int], list[float]] = {}
    rollout = (yield specs) if specs else Rollout([], RolloutCounts())
    for played in rollout.some().episodes:
        number, index = places[played.group_id]
        sums.setdefault((number, index), []).append(
            played.returns[episodes[number].turns[index].seat]
        )
    return [_valued(episode, number, sums) for number, episode in enumerate(episodes)]


def _valued(
    episode: Episode, number: int, sums: Mapping[tuple[int, int], Sequence[float]]
) -> Episode:
    """Return an episode with the mean of what was collected for each turn of a trained seat."""
    turns = list(episode.turns)
    for index, turn in enumerate(turns):
        if episode.trained[turn.seat]:
            returns = (
                sums.get((number, index))
                if moment_end(turns, index) < len(turns)
                else (episode.returns[turn.seat],)
            )
            turns[index] = turn._replace(playout=sum(returns) / len(returns) if returns else None)
    return replace(episode, turns=tuple(turns))
