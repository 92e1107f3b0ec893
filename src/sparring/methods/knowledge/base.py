"""Interface of knowledge plug-ins: state without gradients that scores replies.

A run calls the plug-in once per step, after the rollout and before credit, with the previous state.
The plug-in returns the next state, and a score for each reply where a prompt had several replies.
The state is a JSON value that every checkpoint saves; the plug-in itself is stateless.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import Episode, Turn
from sparring.core.rng import Stream

Scores = Sequence[Mapping[int, Sequence[float | None]]]
"""Per episode: turn number -> score of each reply to its prompt, in the order of ``replies``.
A score may be None; if a turn is absent, all its replies have None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnowledgeRequest:
    """Input of a knowledge plug-in: the episodes of a step."""

    episodes: Sequence[Episode]
    environments: Mapping[str, Any]  # the run's environments, by name
    step: int
    stream: Stream  # the step's random stream


@dataclass(frozen=True, kw_only=True, slots=True)
class Knowledge:
    """Output of a knowledge plug-in.

    Args:
        scores: scores of the replies; a scored prompt has a score for every reply.
        state: the next state, a JSON value.
        metrics: the plug-in's own metrics, by name.
    """

    scores: Scores
    state: dict[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)


def replies(turn: Turn) -> tuple[Turn, ...]:
    """Return all replies to a turn's prompt: the played one, then the other candidates."""
    return (turn, *turn.candidates)


def check_output(
    knowledge: BoundPlugin, output: Any, request: KnowledgeRequest, *state: Any
) -> None:
    """Check the output of a knowledge plug-in, after every call.

    Raises:
        PluginError: the output is not a ``Knowledge``, its scores do not fit the episodes or are
            not finite, or its state is not a JSON value.
    """
    if not isinstance(output, Knowledge):
        raise PluginError(
            f"The {knowledge} must return a Knowledge; it returned {type(output).__name__}."
        )
    if len(output.scores) != len(request.episodes):
        raise PluginError(
            f"The {knowledge} must return scores for each of {len(request.episodes)} episodes; it "
            f"returned {len(output.scores)}."
        )
    for episode, scores_of_turns in zip(request.episodes, output.scores, strict=True):
        for index, scores in scores_of_turns.items():
            num_replies = len(replies(episode.turns[index]))
            present_scores = [score for score in scores if score is not None]
            if len(scores) != num_replies or not all(map(math.isfinite, present_scores)):
                raise PluginError(
                    f"The {knowledge} must return {num_replies} finite scores for turn {index} of "
                    f"episode {episode.episode_id}; it returned {list(scores)}."
                )
    try:
        json.dumps(output.state, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PluginError(f"The state of the {knowledge} must be a JSON value: {error}.") from None


def with_scores(episodes: Sequence[Episode], scores: Scores) -> list[Episode]:
    """Return the episodes with scores on the replies, where a prompt had several replies.

    Args:
        episodes: the episodes of a step.
        scores: scores per episode; replies of an absent turn get None.
    """
    return [
        _set_scores(episode, scores_of_turns)
        for episode, scores_of_turns in zip(episodes, scores, strict=True)
    ]


def _set_scores(episode: Episode, scores: Mapping[int, Sequence[float | None]]) -> Episode:
    turns = list(episode.turns)
    for index, turn in enumerate(turns):
        if turn.candidates:
            all_replies = replies(turn)
            reply_scores = scores.get(index) or (None,) * len(all_replies)
            first_reply, *other_replies = (
                reply._replace(score=score)
                for reply, score in zip(all_replies, reply_scores, strict=True)
            )
            turns[index] = first_reply._replace(candidates=tuple(other_replies))
    return replace(episode, turns=tuple(turns))
