"""Interface of reward plug-ins, and the bound on shaping that keeps outcomes in order.

Shaping is every component of a turn's reward except "game", and except "illegal" of the seat that
forfeited. Without ``reorder_outcomes``, shaping never changes which of two outcomes is better. A
factor per seat and episode keeps every sum of shaping from a turn to the end within
``SHAPING_BOUND`` times the game's smallest difference between outcomes.

A reward is a function ``(episode, *, options) -> one number per turn``. A turn with None has no
component, counts as 0 in sums of rewards, and is counted in ``abstained/NAME``. The module may
declare:

    NEEDS = {"verdicts"}   the reward reads an oracle's verdicts, ``turn.verdict``
    NEEDS = {"game"}       the function is ``(episode, game)``
    NEEDS = {"batch"}      the function is ``(episodes, games)`` of a whole step, with games by
                           name, and returns the numbers of each episode; before the run, a
                           call without episodes reports missing requirements
    READS = "turn"         a turn's number depends on that turn only, so that the reward can judge
                           candidates that were not played
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
    call_reward,
    reads_turn,
    with_candidates,
    with_components,
)
from sparring.play.episode import Grade

GAME_COMPONENTS = ("game", "illegal")  # components from the environment, not from plug-ins
# below one half, so that two seats' shaping stays below the difference of their outcomes
SHAPING_BOUND = 0.49
PAYOFF_TOLERANCE = 1e-9  # payoffs closer than this are one outcome


def batch_gaps(episodes: Iterable[Episode], gaps: Mapping[str, float]) -> dict[str, float]:
    """Return the smallest difference of outcomes in these episodes by game, at most ``gaps``.

    The outcome of a seat is the sum of its turns' "game" components, which credit reads.
    """
    outcomes: dict[str, set[float]] = {}
    for episode in episodes:
        game_outcomes = outcomes.setdefault(episode.game, set())
        game_outcomes.update(
            sum(turn.rewards.get("game", 0.0) for turn in turns)
            for turns in turns_of_trained_seats(episode).values()
        )
    result = {}
    for game, values in outcomes.items():
        differences = [high - low for low, high in pairwise(sorted(values))]
        differences = [value for value in differences if value > PAYOFF_TOLERANCE]
        result[game] = min([gaps.get(game, 1.0), *differences])
    return result


def unscaled_components(episode: Episode, seat: int) -> tuple[str, ...]:
    """Return the components of a seat that are not shaping."""
    return GAME_COMPONENTS if episode.forfeited_by == seat else ("game",)


def turns_of_trained_seats(episode: Episode) -> dict[int, list[Turn]]:
    """Return the turns of each trained seat in order of play, without seats that had no turn."""
    turns_by_seat: dict[int, list[Turn]] = {}
    for turn in episode.turns:
        if episode.trained[turn.seat]:
            turns_by_seat.setdefault(turn.seat, []).append(turn)
    return turns_by_seat


def shaping_factors(episode: Episode, limit: float) -> dict[int, float]:
    """Return per trained seat the factor, at most 1, that bounds shaping.

    The factor keeps every sum of shaping from a turn to the end within +-limit.
    """
    factors = {}
    for seat, turns in turns_of_trained_seats(episode).items():
        unscaled = unscaled_components(episode, seat)
        sums = (
            sum(value for name, value in turn.rewards.items() if name not in unscaled)
            for turn in reversed(turns)
        )
        peak = max(abs(total) for total in accumulate(sums))
        factors[seat] = limit / peak if peak > limit else 1.0
    return factors


def with_scaled_shaping(episode: Episode, factors: Mapping[int, float]) -> Episode:
    """Return the episode with each seat's shaping multiplied by its factor."""
    if all(factor == 1.0 for factor in factors.values()):
        return episode

    def scale(turn: Turn) -> Turn:
        factor, unscaled = factors.get(turn.seat, 1.0), unscaled_components(episode, turn.seat)
        rewards = {
            name: value if name in unscaled else value * factor
            for name, value in turn.rewards.items()
        }
        return turn._replace(rewards=rewards, candidates=tuple(map(scale, turn.candidates)))

    return replace(episode, turns=tuple(map(scale, episode.turns)))


BASE_NEEDS = {  # names for NEEDS, each with what the reward then gets
    "verdicts": "an oracle's verdict on every turn",
    "game": "the episode's game",
    "batch": "all episodes of a step at once, and the games by name",
    "playouts": "the mean return of playouts from every turn",
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
    """Return (episodes with weighted components on the turns of trained seats, metrics).

    Args:
        episodes: finished episodes of one step.
        rewards: the plug-ins, with different names. Without plug-ins only penalties for illegal
            replies are bounded.
        progress: finished share of the run, in [0, 1], for schedules.
        gaps: smallest difference of two outcomes by game, default 1. A smaller difference within
            ``episodes`` replaces the gap, so that shaping cannot reorder the batch's outcomes.
        games: games by name, for rewards that read games.
        outcome_weight: factor of the "game" component of trained seats, not of ``returns``.
        scales: one more factor of "game" for each game, default 1; it also multiplies the gap.
        reorder_outcomes: whether shaping is unbounded; a loss may then get more than a win.

    Returns:
        New episodes (the same objects if unchanged), and the metrics ``reward/NAME``,
        ``abstained/NAME`` and, with shaping, ``bounded_share``.

    Raises:
        RewardError: a plug-in did not return one number of reasonable size per turn.
    """
    scales = scales or {}
    gaps = {game: gaps.get(game, 1.0) * scales.get(game, 1.0) for game in {*gaps, *scales}}
    episodes = [
        _scale_payoffs(episode, outcome_weight * scales.get(episode.game, 1.0))
        for episode in episodes
    ]
    if not rewards and not any(
        "illegal" in turn.rewards
        and "illegal" not in unscaled_components(episode, turn.seat)
        and episode.trained[turn.seat]
        for episode in episodes
        for turn in episode.turns
    ):
        return list(episodes), {}
    rows_by_reward = [
        (reward, call_reward(reward.bound, episodes, games or {}, progress=progress))
        for reward in rewards
    ]
    results = [
        with_candidates(
            with_components(
                episode, [(reward, rows[index]) for reward, rows in rows_by_reward], progress
            ),
            rewards,
            games or {},
            progress,
        )
        for index, episode in enumerate(episodes)
    ]
    num_seats, num_bounded = 0, 0
    if not reorder_outcomes:
        limits = {game: SHAPING_BOUND * gap for game, gap in batch_gaps(results, gaps).items()}
        for index, episode in enumerate(results):
            factors = shaping_factors(episode, limits.get(episode.game, SHAPING_BOUND))
            num_seats += len(factors)
            num_bounded += sum(factor < 1.0 for factor in factors.values())
            results[index] = with_scaled_shaping(episode, factors)
    metrics = {"bounded_share": num_bounded / max(num_seats, 1)}
    for reward in rewards:
        metrics.update(_reward_metrics(results, reward.bound.plugin.name))
    return results, metrics


def check_output(reward: BoundPlugin, output: Any, *arguments: Any) -> None:
    """Check that the output of a reward is a sequence; called after every call of the reward.

    Raises:
        PluginError: the output is not a list or an array.
    """
    if not isinstance(output, Sequence | np.ndarray) or isinstance(output, str):
        raise PluginError(
            f"The {reward} must return a list of one number or None per turn; it "
            f"returned {type(output).__name__}."
        )


def prepare_rewards(rewards: Sequence[WeightedReward]) -> tuple[WeightedReward, ...]:
    """Call each reward with NEEDS "batch" without episodes, and return all rewards.

    Raises:
        SparringError: a reward's requirements are missing.
    """
    for reward in rewards:
        if "batch" in reward.bound.plugin.needs:
            reward.bound([], {})
    return tuple(rewards)


def next_turns(episode: Episode) -> list[Turn | None]:
    """Return the next turn of the same seat for every turn, None after the last one."""
    next_of_seat: dict[int, Turn] = {}
    turns_after: list[Turn | None] = []
    for turn in reversed(episode.turns):
        turns_after.append(next_of_seat.get(turn.seat))
        next_of_seat[turn.seat] = turn
    return turns_after[::-1]


def outcome_gap(game: Environment) -> float:
    """Return the assumed smallest difference between two outcomes of a game, at most 1.

    Payoffs are assumed to be integers. The extreme utilities and the payoffs of a forfeit are known
    and may be fractions (SPIRAL's +0.5), which makes the gap smaller.
    """
    utilities = {game.min_utility, game.max_utility}
    if game.illegal.rule == "forfeit":
        with environment_call(game), temporary_play(game, Stream.from_seed(0)) as state:
            utilities.update(
                value
                for seat in range(game.num_seats)
                for value in game.illegal.forfeit_returns(game, state, seat)
            )
    gaps = [abs(value - round(value)) for value in utilities]
    return min([1.0, *(gap for gap in gaps if gap > PAYOFF_TOLERANCE)])


def _scale_payoffs(episode: Episode, weight: float) -> Episode:
    if weight == 1.0:
        return episode
    turns = [
        turn._replace(rewards={**turn.rewards, "game": turn.rewards["game"] * weight})
        if episode.trained[turn.seat]
        else turn
        for turn in episode.turns
    ]
    return replace(episode, turns=tuple(turns))


def _reward_metrics(episodes: Iterable[Episode], name: str) -> dict[str, float]:
    """Return the component's mean over trained turns, and the share of these turns without it."""
    turns = [
        turn for episode in episodes for turn in episode.decisions if episode.trained[turn.seat]
    ]
    values = [turn.rewards[name] for turn in turns if name in turn.rewards]
    metrics = {f"reward/{name}": sum(values) / max(len(values), 1)}
    if len(values) < len(turns):
        return {**metrics, f"abstained/{name}": 1 - len(values) / len(turns)}
    return metrics


def by_oracle(episodes: Sequence[Episode]) -> list[list[float | None]]:
    """Return the negative regret of each turn, None where the oracle abstained."""
    return [
        [None if (turn_regret := regret(turn)) is None else -turn_regret for turn in episode.turns]
        for episode in episodes
    ]


def by_rewards(
    rewards: Sequence[WeightedReward], games: Mapping[str, Environment], progress: float
) -> Grade:
    """Return a grader of turns by the weighted sum of the rewards with READS "turn".

    The sum includes the penalty of an illegal reply. A turn without these components gets None.

    Args:
        rewards: the run's rewards; those without READS "turn" are ignored.
        games: games by name.
        progress: finished share of the run, in [0, 1].
    """
    used_rewards = [reward for reward in rewards if reads_turn(reward.bound)]
    names = {reward.bound.plugin.name for reward in used_rewards}

    def grade(episodes: Sequence[Episode]) -> list[list[float | None]]:
        rows_of_rewards = [
            call_reward(reward.bound, episodes, games, progress=progress) for reward in used_rewards
        ]
        rewarded_episodes = [
            with_components(
                episode,
                [
                    (reward, rows[index])
                    for reward, rows in zip(used_rewards, rows_of_rewards, strict=True)
                ],
                progress,
            )
            for index, episode in enumerate(episodes)
        ]
        return [
            [sum(turn.rewards.values()) if names & turn.rewards.keys() else None for turn in turns]
            for turns in (episode.turns for episode in rewarded_episodes)
        ]

    return grade
