"""Rewards as components of turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import RewardError
from sparring.core.records import Episode
from sparring.core.schedule import Schedule
from sparring.environments.base import Environment

MAX_SIZE = 1e6  # beside larger components, rounding would lose the game's payoffs


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedReward:
    """A reward plug-in with its options, and the schedule of its weight."""

    bound: BoundPlugin
    weight: Schedule


def call_reward(
    reward: BoundPlugin,
    episodes: Sequence[Episode],
    games: Mapping[str, Environment],
    *,
    progress: float = 0.0,
) -> list[tuple[float | None, ...]]:
    """Return a reward's numbers for every turn of these episodes.

    The reward sees only decisions; other turns, such as memories, have None.
    """
    inputs = [_reduce_to_decisions(episode) for episode in episodes]
    nonempty_inputs = [reward_input for reward_input in inputs if reward_input.turns]
    nonempty_rows = iter(_call_plugin(reward, nonempty_inputs, games, progress))
    rows = [next(nonempty_rows) if reward_input.turns else () for reward_input in inputs]
    return [
        row if reward_input is episode else _expand_to_all_turns(row, reward_input, episode)
        for row, reward_input, episode in zip(rows, inputs, episodes, strict=True)
    ]


def _reduce_to_decisions(episode: Episode) -> Episode:
    decisions = episode.decisions
    return episode if len(decisions) == len(episode.turns) else replace(episode, turns=decisions)


def _expand_to_all_turns(
    row: tuple[float | None, ...], reward_input: Episode, episode: Episode
) -> tuple[float | None, ...]:
    """Return the numbers of decisions as numbers of all turns, with None for other turns."""
    if len(row) != len(reward_input.turns):
        return row  # the length is wrong, so ``with_components`` raises an error
    values = iter(row)
    return tuple(next(values) if turn.is_decision else None for turn in episode.turns)


def _call_plugin(
    reward: BoundPlugin,
    episodes: Sequence[Episode],
    games: Mapping[str, Environment],
    progress: float,
) -> list[tuple[float | None, ...]]:
    needs = reward.plugin.needs
    if "batch" in needs:
        rows = list(reward(episodes, games, progress=progress))
        if len(rows) != len(episodes):
            raise RewardError(
                f"The {reward} returned {len(rows)} rows for {len(episodes)} episodes; return one "
                "per episode."
            )
        return rows
    if "game" in needs:
        return [
            tuple(reward(episode, games[episode.game], progress=progress)) for episode in episodes
        ]
    return [tuple(reward(episode, progress=progress)) for episode in episodes]


def with_components(
    episode: Episode,
    rewards: Sequence[tuple[WeightedReward, tuple[float | None, ...]]],
    progress: float,
) -> Episode:
    """Return the episode with one more component per reward on the turns of trained seats."""
    components: list[dict[str, float]] = [{} for _ in episode.turns]
    for reward, values in rewards:
        name, weight = reward.bound.plugin.name, reward.weight(progress)
        if len(values) != len(components):
            raise RewardError(
                f"rewards {name!r} returned {len(values)} numbers for {len(components)} turns "
                f"of {episode.game}; return one per turn."
            )
        for index, value in enumerate(values):
            if value is None:
                continue
            if not isinstance(value, Real) or not abs(weight * value) <= MAX_SIZE:
                place_of_turn = f"at turn {index} of episode {episode.episode_id} ({episode.game})"
                raise RewardError(
                    f"rewards {name!r}: {value!r} times weight {weight:g} {place_of_turn} is not "
                    f"within +-{MAX_SIZE:g}; return a smaller number."
                )
            components[index][name] = float(weight * value)
    turns = [
        turn._replace(rewards={**turn.rewards, **new_rewards})
        if episode.trained[turn.seat]
        else turn
        for turn, new_rewards in zip(episode.turns, components, strict=True)
    ]
    return replace(episode, turns=tuple(turns))


def reads_turn(reward: BoundPlugin) -> bool:
    """Return whether a reward's number for a turn depends on that turn only."""
    return reward.plugin.declarations.READS == "turn"


def as_candidate_episode(episode: Episode) -> Episode | None:
    """Return an episode whose turns are the unplayed candidates, or None without candidates."""
    candidates = tuple(candidate for turn in episode.turns for candidate in turn.candidates)
    return replace(episode, turns=candidates) if candidates else None


def with_candidates(
    episode: Episode,
    rewards: Sequence[WeightedReward],
    games: Mapping[str, Environment],
    progress: float,
) -> Episode:
    """Return the episode with components on candidates, from rewards with READS "turn"."""
    candidate_episode = as_candidate_episode(episode)
    if candidate_episode is None:
        return episode
    rows = [
        (reward, call_reward(reward.bound, [candidate_episode], games, progress=progress)[0])
        for reward in rewards
        if reads_turn(reward.bound)
    ]
    candidates = iter(with_components(candidate_episode, rows, progress).turns)
    turns = [
        turn._replace(candidates=tuple(next(candidates) for _ in turn.candidates))
        for turn in episode.turns
    ]
    return replace(episode, turns=tuple(turns))
