"""What a run knows beside its weights is brought up to date, and judges the step's plays.

Metrics:
    knowledge/NAME/...      figures of what the run knows; its page says what they are
    knowledge/judged        share of the replies to prompts with several that it judged
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparring.engine.base import Engine
from sparring.knowledge.base import Gathered, Knowledge, replies, with_scores
from sparring.run.methods import Methods
from sparring.run.playing import Played
from sparring.run.state import RunState
from sparring.types import Episode

OWNER = "knowledge"  # under which the run's state keeps it


def known(
    engine: Engine, methods: Methods, state: RunState, played: Played, progress: float
) -> tuple[Played, Mapping[str, Any]]:
    """Return a step's plays as knowledge judges them, and what its owner remembers from now on.

    Args:
        engine: whose environments they are of.
        methods: of the run.
        state: of the run before the step.
        played: the step's plays.
        progress: share of the run that is done.
    """
    if methods.knowledge is None:
        return played, {}
    gathered = Gathered(
        episodes=played.episodes,
        environments={game.name: game for game, _ in engine.environments},
        step=state.step,
        stream=engine.root.child(OWNER).child(state.step),
    )
    found: Knowledge = methods.knowledge(gathered, state.json(OWNER), progress=progress)
    episodes = with_scores(played.episodes, found.scores)
    now = {episode.episode_id: episode for episode in episodes}
    name = methods.knowledge.plugin.name
    figures = {f"{OWNER}/{name}/{key}": value for key, value in found.metrics.items()}
    judged = replace(
        played,
        episodes=episodes,
        kept=[now[episode.episode_id] for episode in played.kept],
        metrics={**played.metrics, **figures, f"{OWNER}/judged": _judged(episodes)},
    )
    return judged, {OWNER: found.state}


def _judged(episodes: list[Episode]) -> float:
    """Return the share of the replies to prompts with several that have a score."""
    every = [
        one.score is not None
        for episode in episodes
        for turn in episode.turns
        if turn.candidates
        for one in replies(turn)
    ]
    return sum(every) / max(len(every), 1)
