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
    """Differences |learner - sampler| between log-probabilities of a policy's tokens, nats."""

    policy: str
    num_tokens: int
    sum_of_differences: float
    largest_difference: float


def logprob_metrics(checks: Sequence[LogprobCheck], policy: str) -> Mapping[str, float]:
    """Return a policy's ``logprob_difference_max`` and ``_mean``; {} without checks."""
    policy_checks = [check for check in checks if check.policy == policy]
    if not policy_checks:
        return {}
    num_tokens = sum(check.num_tokens for check in policy_checks)
    mean = sum(check.sum_of_differences for check in policy_checks) / num_tokens
    largest = max(check.largest_difference for check in policy_checks)
    return dict(zip(LOGPROB_METRICS, (largest, mean), strict=True))


CHECK_INTERVAL = 100  # every 100th episode is scored, and at least one per step


def check_logprobs(players: Players, episodes: Sequence[Episode]) -> tuple[LogprobCheck, ...]:
    """Return the differences in the episodes that are due for the check.

    An episode is skipped if its policy was updated during it: the worker has no older weights.

    Args:
        players: players with the weights that sampled the episodes.
        episodes: episodes of a step.
    """
    # imports torch, which may be missing where runs are read
    from sparring.learn.pack import Reader, pack

    interval = min(CHECK_INTERVAL, players.config.rollout.games_per_step)
    due_episodes = [episode for episode in episodes if episode.episode_id % interval == 0]
    checks = []
    for name in players.learners:
        policy = players.policies[name]
        reader = Reader(
            policy.model,
            temperature=policy.params.temperature,
            micro_tokens=policy.config.learner.micro_tokens,
        )
        for episode in players.trained_in(name, due_episodes):
            if not _is_sampled_by(episode, policy.model.version):
                continue
            data = pack([episode])
            if len(data.turn_of):
                differences = np.abs(reader.logprobs(data) - data.logprobs)
                checks.append(
                    LogprobCheck(
                        policy=name,
                        num_tokens=len(differences),
                        sum_of_differences=float(differences.sum()),
                        largest_difference=float(differences.max()),
                    )
                )
    return tuple(checks)


def _is_sampled_by(episode: Episode, version: int) -> bool:
    return all(
        segment.weights_version == version
        for turn in episode.turns
        if episode.trained[turn.seat]
        for segment in turn.segments
        if segment.kind == "sampled" and segment.ids
    )
