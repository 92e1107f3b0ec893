"""What judges the replies to one prompt while the play stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparring.core.records import Episode
from sparring.environments.base import Environment
from sparring.methods.oracles.judge import regret
from sparring.methods.rewards.components import (
    WeightedReward,
    opinions,
    reads_turn,
    with_components,
)
from sparring.play.episode import Grade


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
