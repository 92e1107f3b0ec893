"""How likely a policy says each legal action at a turn: asked aside, as it needs the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.core.records import Episode, Turn
from sparring.view.answers import Refused
from sparring.view.runs import Run
from sparring.view.worker_process import Aside

SECONDS = 60.0  # that an answer may take: the first one loads the model
SPEAKING = ("learner", "policy", "snapshot")  # kinds of players that are a model of the run


class Chances:
    """What asks the policies of runs; threads may share it."""

    def __init__(self) -> None:
        self._aside = Aside("sparring.view.action_probabilities", SECONDS)

    def at(self, run: Run, step: int, episode: Episode, place: int) -> Mapping[str, Any]:
        """Return the probabilities of the legal actions at a turn.

        Where they cannot be had, there is only ``why``.

        Args:
            run: that played it.
            step: it was played in.
            episode: of the turn.
            place: number of the turn, from 0.
        """
        why = _why_none(run, episode, episode.turns[place])
        if why is not None:
            return {"why": why}
        asked = {"folder": str(run.path), "step": step, "episode": episode.episode_id}
        try:
            return {**self._aside.ask({**asked, "turn": place}), "why": None}
        except Refused as refused:
            return {"why": str(refused)}

    def close(self) -> None:
        """End the process that is asked."""
        self._aside.close()


def has_chances(run: Run, episode: Episode) -> bool:
    """Return whether any turn of an episode may have probabilities."""
    return any(_why_none(run, episode, turn) is None for turn in episode.turns)


def _why_none(run: Run, episode: Episode, turn: Turn) -> str | None:
    """Return why a turn has no probabilities, as far as that is known without the model."""
    if not turn.legal_actions:
        return "no legal actions are recorded: any text is allowed"
    player = episode.players[turn.seat]
    if player.kind not in SPEAKING:
        return f"{player} is no policy of the run"
    if not any(part.ids for part in turn.segments if part.kind == "sampled"):
        return "no model was asked: the reply has no tokens"
    return None if run.checkpoints() else "the run has no checkpoint yet"
