"""From a step's number to the games to be played: which game, which deal, who sits where."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.config import RolloutConfig
from sparring.games.base import Game
from sparring.league.matchmakers.base import MatchRequest, Seating
from sparring.registry import Bound
from sparring.rng import Stream
from sparring.rollout.play import EpisodeSpec


def starts(
    step: int,
    *,
    games: Sequence[tuple[Game, float]],
    rollout: RolloutConfig,
    matchmaker: Bound,
    members: tuple[str, ...],
    root: Stream,
    progress: float,
) -> list[EpisodeSpec]:
    """Return the games of one step.

    Args:
        step: the step's number; with ``root`` it determines every draw.
        games: the games and their weights; those of weight 0 are held out.
        rollout: how many games, in groups of what size.
        matchmaker: fills the seats of each start.
        members: past selves that may be met.
        root: the run's root stream.
        progress: share of the run that is done, for schedules of the matchmaker.

    Returns:
        ``games_per_step`` specs. The members of a group share game, deal and seating and differ in their own stream.
    """
    stream = root.child("rollout").child(step)
    played = [(game, weight) for game, weight in games if weight]
    total = sum(weight for _, weight in played)
    groups = rollout.games_per_step // rollout.group_size
    specs = []
    for group in range(groups):
        own = stream.child(group)
        game = _pick(played, own.uniform(0) * total)
        number = step * groups + group
        request = MatchRequest(num_seats=game.num_seats, number=number, stream=own.child("seats"), members=members)
        seating: Seating = matchmaker(request, progress=progress)
        deal = own.child("deal")
        for member in range(rollout.group_size):
            specs.append(
                EpisodeSpec(
                    game=game,
                    episode_id=number * rollout.group_size + member,
                    group_id=number,
                    deal=deal,
                    stream=own.child(member),
                    seats=seating.seats,
                    trained=seating.trained,
                )
            )
    return specs


def _pick(games: Sequence[tuple[Game, float]], target: float) -> Game:
    """Return the game whose slice of the total weight holds ``target``."""
    for game, weight in games:
        target -= weight
        if target < 0:
            return game
    return games[-1][0]
