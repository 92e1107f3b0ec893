"""The check that sampler and learner log-probabilities agree for off-policy episodes.

With ``scale.lag`` the learner has newer weights than the sampler, so their log-probabilities of a
reply differ. The worker therefore scores some of its episodes with the learner's forward pass and
the weights that sampled them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparring.core.records import Episode

if TYPE_CHECKING:
    from sparring.engine.players import Players

LOGPROB_METRICS = ("logprob_difference_max", "logprob_difference_mean")


class LogprobCheck(NamedTuple):
    """Differences |learner - sampler| of log-probabilities of a policy's tokens in an episode."""

    policy: str
    tokens: int
    total: float  # sum of the differences
    largest: float


def logprob_metrics(checks: Sequence[LogprobCheck], policy: str) -> Mapping[str, float]:
    """Return a policy's ``logprob_difference_max`` and ``_mean``; {} without checks."""
    policy_checks = [check for check in checks if check.policy == policy]
    if not policy_checks:
        return {}
    total = sum(check.total for check in policy_checks)
    mean = total / sum(check.tokens for check in policy_checks)
    largest = max(check.largest for check in policy_checks)
    return dict(zip(LOGPROB_METRICS, (largest, mean), strict=True))


EPISODES_PER_CHECK = 100  # one of this many episodes is scored, and at least one per step


def check_logprobs(players: Players, episodes: Sequence[Episode]) -> tuple[LogprobCheck, ...]:
    """Return the differences in the episodes that are due for the check.

    An episode is skipped if its weights changed within it, because its first weights are gone.

    Args:
        players: players with the weights that sampled the episodes.
        episodes: episodes of a step.
    """
    from sparring.learn.pack import Reader, pack  # imports torch, which readers of runs lack

    interval = min(EPISODES_PER_CHECK, players.config.rollout.games_per_step)
    checked = [episode for episode in episodes if episode.episode_id % interval == 0]
    checks = []
    for name in players.learners:
        policy = players.policies[name]
        reader = Reader(
            policy.model,
            temperature=policy.params.temperature,
            micro_tokens=policy.config.learner.micro_tokens,
        )
        for episode in players.trained_in(name, checked):
            if not _is_sampled_by(episode, policy.model.version):
                continue
            data = pack([episode])
            if len(data.turn_of):
                difference = np.abs(reader.logprobs(data) - data.logprobs)
                total, largest = float(difference.sum()), float(difference.max())
                checks.append(LogprobCheck(name, len(difference), total, largest))
    return tuple(checks)


def _is_sampled_by(episode: Episode, version: int) -> bool:
    return all(
        segment.weights_version == version
        for turn in episode.turns
        if episode.trained[turn.seat]
        for segment in turn.segments
        if segment.kind == "sampled" and segment.ids
    )
