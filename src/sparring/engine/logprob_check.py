"""Do sampler and learner compute the same, where plays come from older weights?

With ``scale.lag`` the learner's log-probabilities of a reply differ from the sampler's because the
weights do. So a share of the plays is scored where it was played, by the learner's forward pass and
the weights that played it: law "same numbers" of every run.
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
    """The |learner - sampler| log-probabilities of a policy's tokens in one play."""

    policy: str
    tokens: int
    total: float  # their sum
    largest: float


def logprob_metrics(plays: Sequence[LogprobCheck], policy: str) -> Mapping[str, float]:
    """Return a policy's ``logprob_difference_max`` and ``_mean``; nothing where none was scored."""
    scored = [play for play in plays if play.policy == policy]
    if not scored:
        return {}
    mean = sum(play.total for play in scored) / sum(play.tokens for play in scored)
    return dict(zip(LOGPROB_METRICS, (max(play.largest for play in scored), mean), strict=True))


EVERY = 100  # one play in so many is scored, and the first of a step


def check_logprobs(players: Players, episodes: Sequence[Episode]) -> tuple[LogprobCheck, ...]:
    """Return the differences in the plays that are to be scored, each play by itself.

    A play that went on over a change of weights is left out: those that began it are gone.

    Args:
        players: who hold the weights that played.
        episodes: plays of a step.
    """
    from sparring.learn.pack import (
        Reader,
        pack,  # with torch, which the record of a run does without
    )

    every = min(EVERY, players.config.rollout.games_per_step)
    due = [episode for episode in episodes if episode.episode_id % every == 0]
    checks = []
    for name in players.learners:
        policy = players.policies[name]
        reader = Reader(
            policy.model,
            temperature=policy.params.temperature,
            micro_tokens=policy.config.learner.micro_tokens,
        )
        for episode in players.trained_in(name, due):
            if not _is_of(episode, policy.model.version):
                continue
            data = pack([episode])
            if len(data.turn_of):
                difference = np.abs(reader.logprobs(data) - data.logprobs)
                total, largest = float(difference.sum()), float(difference.max())
                checks.append(LogprobCheck(name, len(difference), total, largest))
    return tuple(checks)


def _is_of(episode: Episode, version: int) -> bool:
    return all(
        segment.weights_version == version
        for turn in episode.turns
        if episode.trained[turn.seat]
        for segment in turn.segments
        if segment.kind == "sampled" and segment.ids
    )
