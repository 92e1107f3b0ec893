"""What rewards share: adding named components to turns, and the bound that keeps outcomes in order.

Shaping is every component of a turn's reward but "game", and but the "illegal" of the seat that
forfeited, whose game it ended. Unless a run asks for it, shaping never changes which of two
outcomes is better: it is scaled down, per seat and episode, until no sum of it from a turn to the
end exceeds ``BOUND`` times the game's smallest difference between outcomes.

A reward is a function ``(episode, *, options) -> one number per turn``, or None for turns that it
has no opinion on: these lack the component, count as 0 where rewards are summed, and are counted as
``abstained/NAME``. One that reads what an oracle says of a turn, ``turn.verdict``, says so by NEEDS
= {"verdicts"}. One with NEEDS = {"game"} is a function ``(episode, game)``. One with NEEDS =
{"batch"} is a function ``(episodes, games)`` of all games of a step, with games by name, and
returns its numbers per episode; it is called without episodes once before a run, so that what it
lacks shows at the start. One whose number for a turn depends on that turn alone says READS =
"turn": it can judge a reply that was not played, among the candidates of a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import Episode, Turn
from sparring.core.rng import Stream
from sparring.environments.base import Environment, temporary_play
from sparring.environments.foreign import environment_call
from sparring.methods.oracles.judge import regret
from sparring.methods.rewards.components import (
    WeightedReward,
    opinions,
    reads_turn,
    with_candidates,
    with_components,
)
from sparring.play.episode import Grade

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


GIVEN = {  # what NEEDS may name
    "verdicts": "what an oracle says of every turn",
    "game": "the game that was played",
    "batch": "all episodes of a step at once, and the games by name",
    "playouts": "the mean return of games played on from every turn",
    "reference": "a reference solution of the game",
}


def apply_rewards(
    episodes: Sequence[Episode],
    rewards: Sequence[WeightedReward],
    progress: float,
    *,
    gaps: Mapping[str, float],
    games: Mapping[str, Environment] | None = None,
    outcome_weight: float = 1.0,
    scales: Mapping[str, float] | None = None,
    reorder_outcomes: bool = False,
) -> tuple[list[Episode], dict[str, float]]:
    """Return the episodes with weighted components added, and metrics.

    They are added to the turns of trained seats.

    Args:
        episodes: finished games of one step.
        rewards: the plug-ins, of different names. Without any, only penalties for illegal replies
            are bounded.
        progress: share of the run that is done, in [0, 1]; schedules are read there.
        gaps: per game the smallest difference of two outcomes; 1 where a game is missing. Where two
            outcomes of ``episodes`` lie closer together, their difference is used instead, so the
            order of a batch always holds.
        games: by name, for rewards that read them.
        outcome_weight: factor of the "game" component of trained seats; returns per seat stay as
            they are.
        scales: per game another such factor; ``gaps`` are multiplied by it too. 1 where a game is
            missing.
        reorder_outcomes: leave shaping as it is, though it may then make a loss worth more than a
            win.

    Returns:
        New episodes (the same ones where nothing changes), and ``reward/NAME``, ``abstained/NAME``
        and ``bounded_share``, the last where there is any shaping.

    Raises:
        RewardError: a plug-in did not give one number of reasonable size per turn.
    """
    scales = scales or {}
    gaps = {game: gaps.get(game, 1.0) * scales.get(game, 1.0) for game in {*gaps, *scales}}
    episodes = [
        _weighted(episode, outcome_weight * scales.get(episode.game, 1.0)) for episode in episodes
    ]
    if not rewards and not any(
        (
            any(
                "illegal" in turn.rewards
                and "illegal" not in kept_components(episode, turn.seat)
                and episode.trained[turn.seat]
                for turn in episode.turns
            )
        )
        for episode in episodes
    ):
        return list(episodes), {}
    found = [
        (reward, opinions(reward.bound, episodes, games or {}, progress=progress))
        for reward in rewards
    ]
    shaped = [
        with_candidates(
            with_components(episode, [(reward, rows[number]) for reward, rows in found], progress),
            rewards,
            games or {},
            progress,
        )
        for number, episode in enumerate(episodes)
    ]
    counted, acted = 0, 0
    if not reorder_outcomes:
        limits = {game: BOUND * gap for game, gap in batch_gaps(shaped, gaps).items()}
        for number, episode in enumerate(shaped):
            factors = shaping_factors(episode, limits.get(episode.game, BOUND))
            counted += len(factors)
            acted += sum(factor < 1.0 for factor in factors.values())
            shaped[number] = with_scaled_shaping(episode, factors)
    metrics = {"bounded_share": acted / max(counted, 1)}
    for reward in rewards:
        metrics.update(_means(shaped, reward.bound.plugin.name))
    return shaped, metrics


def check_output(reward: BoundPlugin, given: Any, *asked: Any) -> None:
    """Check that a reward has given a row of numbers, or one per episode.

    Every call of one ends here.

    Raises:
        PluginError: it gave something else.
    """
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
        raise PluginError(
            f"The {reward} must return a list of one number or None per turn; it "
            f"returned {type(given).__name__}."
        )


def prepared(rewards: Sequence[WeightedReward]) -> tuple[WeightedReward, ...]:
    """Return the rewards, those that are asked about whole steps ready for it.

    Raises:
        SparringError: a reward lacks what it works with.
    """
    for reward in rewards:
        if "batch" in reward.bound.plugin.needs:
            reward.bound([], {})
    return tuple(rewards)


def next_turns(episode: Episode) -> list[Turn | None]:
    """Return per turn the next turn of the same seat, None after its last one."""
    later: dict[int, Turn] = {}
    found: list[Turn | None] = []
    for turn in reversed(episode.turns):
        found.append(later.get(turn.seat))
        later[turn.seat] = turn
    return found[::-1]


def outcome_gap(game: Environment) -> float:
    """Return the smallest difference between two outcomes that a game's payoffs suggest, at most 1.

    Payoffs are taken to be whole numbers; the ends of the game's utilities and what a forfeiture
    pays are known and may lie between whole numbers (SPIRAL's +0.5), which makes the gap smaller.
    """
    known = {game.min_utility, game.max_utility}
    if game.illegal.rule == "forfeit":
        with environment_call(game), temporary_play(game, Stream.from_seed(0)) as state:
            known.update(
                value
                for seat in range(game.num_seats)
                for value in game.illegal.forfeit_returns(game, state, seat)
            )
    steps = [abs(value - round(value)) for value in known]
    return min([1.0, *(step for step in steps if step > SAME)])


def _weighted(episode: Episode, weight: float) -> Episode:
    """Return an episode whose trained seats' payoffs are multiplied; the same one if by 1."""
    if weight == 1.0:
        return episode
    turns = [
        turn._replace(rewards={**turn.rewards, "game": turn.rewards["game"] * weight})
        if episode.trained[turn.seat]
        else turn
        for turn in episode.turns
    ]
    return replace(episode, turns=tuple(turns))


def _means(episodes: Iterable[Episode], name: str) -> dict[str, float]:
    """Return a component's mean over the trained turns that have it. The share of those that do not
    comes with it, if there are any."""
    turns = [
        turn for episode in episodes for turn in episode.decisions if episode.trained[turn.seat]
    ]
    values = [turn.rewards[name] for turn in turns if name in turn.rewards]
    metrics = {f"reward/{name}": sum(values) / max(len(values), 1)}
    return (
        {**metrics, f"abstained/{name}": 1 - len(values) / len(turns)}
        if len(values) < len(turns)
        else metrics
    )


def by_oracle(episodes: Sequence[Episode]) -> list[list[float | None]]:
    """Return what each turn is worth by the oracle: less its regret, None where it abstained."""
    return [
        [None if (lost := regret(turn)) is None else -lost for turn in episode.turns]
        for episode in episodes
    ]


def by_rewards(
    rewards: Sequence[WeightedReward], games: Mapping[str, Environment], progress: float
) -> Grade:
    """Return what judges turns by the sum of a run's rewards that read one turn alone.

    Each with its weight of now. The penalty of an illegal reply is part of the sum. A turn on which
    none of them has an opinion is not judged.

    Args:
        rewards: of the run; those that read more than the turn are left out.
        games: by name.
        progress: share of the run that is done, in [0, 1].
    """
    used = [reward for reward in rewards if reads_turn(reward.bound)]
    names = {reward.bound.plugin.name for reward in used}

    def grade(episodes: Sequence[Episode]) -> list[list[float | None]]:
        rows = [opinions(one.bound, episodes, games, progress=progress) for one in used]
        judged = [
            with_components(
                episode, [(one, row[number]) for one, row in zip(used, rows, strict=True)], progress
            )
            for number, episode in enumerate(episodes)
        ]
        return [
            [sum(turn.rewards.values()) if names & turn.rewards.keys() else None for turn in own]
            for own in (episode.turns for episode in judged)
        ]

    return grade
