"""What a run knows beside its weights: state without gradients that judges replies.

Knowledge is asked once per step, after the plays and before credit, with what it knew before. It
gives a score for each reply to a prompt that had several, and what it knows from now on. It keeps
no state of its own: what it knows is a value of JSON, saved with every checkpoint, so that a run
which goes on knows what it knew.
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
"""Of each episode: number of the turn -> score of each reply to its prompt, in ``replies``' order;
None where nothing can be said. Turns that are left out have no score."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """What knowledge is asked about: the plays of a step."""

    episodes: Sequence[Episode]
    environments: Mapping[str, Any]  # of the run, by name
    step: int
    stream: Stream  # of the step


@dataclass(frozen=True, kw_only=True, slots=True)
class Knowledge:
    """An answer.

    Args:
        scores: of the replies; all of them where it judges, none where it does not.
        state: what is known from now on, values of JSON.
        metrics: figures, under names of its own.
    """

    scores: Scores
    state: dict[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)


def replies(turn: Turn) -> tuple[Turn, ...]:
    """Return all replies to a turn's prompt: that which was played, then the others."""
    return (turn, *turn.candidates)


def check_output(knowledge: BoundPlugin, given: Any, gathered: Gathered, *state: Any) -> None:
    """Check what knowledge has given; every call of it ends here.

    Raises:
        PluginError: it is no ``Knowledge``, its scores do not fit the plays or are not finite, or
            its state is not of JSON.
    """
    if not isinstance(given, Knowledge):
        raise PluginError(
            f"The {knowledge} must return a Knowledge; it returned {type(given).__name__}."
        )
    if len(given.scores) != len(gathered.episodes):
        raise PluginError(
            f"The {knowledge} must give scores for each of {len(gathered.episodes)} plays; it gave "
            f"{len(given.scores)}."
        )
    for episode, own in zip(gathered.episodes, given.scores, strict=True):
        for number, scores in own.items():
            wanted = len(replies(episode.turns[number]))
            said = [score for score in scores if score is not None]
            if len(scores) != wanted or not all(map(math.isfinite, said)):
                raise PluginError(
                    f"The {knowledge} must give {wanted} finite scores for turn {number} of "
                    f"episode {episode.episode_id}; it gave {list(scores)}."
                )
    try:
        json.dumps(given.state, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"The state of the {knowledge} must be values of JSON: {error}."
        ) from None


def with_scores(episodes: Sequence[Episode], scores: Scores) -> list[Episode]:
    """Return the plays with these scores on replies to prompts that had several.

    Args:
        episodes: the plays.
        scores: of each; a turn with several replies that is left out has none.
    """
    return [_scored(episode, own) for episode, own in zip(episodes, scores, strict=True)]


def _scored(episode: Episode, scores: Mapping[int, Sequence[float | None]]) -> Episode:
    turns = list(episode.turns)
    for number, turn in enumerate(turns):
        if turn.candidates:
            every = replies(turn)
            own = scores.get(number) or (None,) * len(every)
            first, *others = (
                one._replace(score=score) for one, score in zip(every, own, strict=True)
            )
            turns[number] = first._replace(candidates=tuple(others))
    return replace(episode, turns=tuple(turns))
