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

SAME = ("logprob_difference_max", "logprob_difference_mean")


class LogprobCheck(NamedTuple):
    """The |learner - sampler| log-probabilities of a policy's tokens in one play."""

    policy: str
    tokens: int
    total: float  # their sum
    largest: float


def metrics(plays: Sequence[LogprobCheck], policy: str) -> Mapping[str, float]:
    """Return a policy's ``logprob_difference_max`` and ``_mean``; nothing where none was scored."""
    own = [one for one in plays if one.policy == policy]
    if not own:
        return {}
    mean = sum(one.total for one in own) / sum(one.tokens for one in own)
    return dict(zip(SAME, (max(one.largest for one in own), mean), strict=True))


EVERY = 100  # one play in so many is scored, and the first of a step


def scored(players: Players, episodes: Sequence[Episode]) -> tuple[LogprobCheck, ...]:
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
    asked = [episode for episode in episodes if episode.episode_id % every == 0]
    found = []
    for name in players.learners:
        own = players.policies[name]
        reader = Reader(
            own.model,
            temperature=own.params.temperature,
            micro_tokens=own.config.learner.micro_tokens,
        )
        for episode in players.trained_in(name, asked):
            if not _is_of(episode, own.model.version):
                continue
            data = pack([episode])
            if len(data.turn_of):
                difference = np.abs(reader.logprobs(data) - data.logprobs)
                total, largest = float(difference.sum()), float(difference.max())
                found.append(LogprobCheck(name, len(difference), total, largest))
    return tuple(found)


def _is_of(episode: Episode, version: int) -> bool:
    return all(
        segment.weights_version == version
        for turn in episode.turns
        if episode.trained[turn.seat]
        for segment in turn.segments
        if segment.kind == "sampled" and segment.ids
    )
