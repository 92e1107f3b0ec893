"""Bounds of shaping: what rewards add is never worth a better outcome of the game."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise

from sparring.types import Episode, Turn

UNSHAPED = ("game", "illegal")  # components that are not a reward plug-in's
# below one half: two seats' shaping together stay below the difference of their outcomes
BOUND = 0.49
SAME = 1e-9  # payoffs closer than this are one outcome


def batch_gaps(episodes: Iterable[Episode], gaps: Mapping[str, float]) -> dict[str, float]:
    """Return per game the smallest difference of outcomes in these episodes.

    It is at most the game's given gap (else 1).

    The outcome of a seat is the sum of its turns' "game" components, which is what credit sees of
    it.
    """
    outcomes: dict[str, set[float]] = {}
    for episode in episodes:
        found = outcomes.setdefault(episode.game, set())
        found.update(
            sum(turn.rewards.get("game", 0.0) for turn in turns)
            for turns in trained_seats(episode).values()
        )
    result = {}
    for game, values in outcomes.items():
        differences = [high - low for low, high in pairwise(sorted(values)) if high - low > SAME]
        result[game] = min([gaps.get(game, 1.0), *differences])
    return result


def kept_components(episode: Episode, seat: int) -> tuple[str, ...]:
    """Return the components of a seat that are no shaping.

    The payoff, and for who forfeited the penalty as well.
    """
    return UNSHAPED if episode.forfeited_by == seat else ("game",)


def trained_seats(episode: Episode) -> dict[int, list[Turn]]:
    """Return the turns of each trained seat that had one, in order of play."""
    found: dict[int, list[Turn]] = {}
    for turn in episode.turns:
        if episode.trained[turn.seat]:
            found.setdefault(turn.seat, []).append(turn)
    return found


def shaping_factors(episode: Episode, limit: float) -> dict[int, float]:
    """Return per trained seat the factor, at most 1, that keeps shaping within +-limit.

    What is kept is every sum of shaping from a turn to the end.
    """
    found = {}
    for seat, turns in trained_seats(episode).items():
        kept = kept_components(episode, seat)
        sums = (
            sum(value for name, value in turn.rewards.items() if name not in kept)
            for turn in reversed(turns)
        )
        peak = max(abs(total) for total in accumulate(sums))
        found[seat] = limit / peak if peak > limit else 1.0
    return found


def with_scaled_shaping(episode: Episode, factors: Mapping[int, float]) -> Episode:
    """Return an episode whose seats' shaping is multiplied by these factors."""
    if all(factor == 1.0 for factor in factors.values()):
        return episode

    def scaled(turn: Turn) -> Turn:
        factor, kept = factors.get(turn.seat, 1.0), kept_components(episode, turn.seat)
        rewards = {
            name: value if name in kept else value * factor for name, value in turn.rewards.items()
        }
        others = tuple(map(scaled, turn.candidates))
        return turn._replace(rewards=rewards, candidates=others)

    return replace(episode, turns=tuple(map(scaled, episode.turns)))
