"""A policy's probability of each legal action at a turn, computed in a separate process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparring.config import resolve
from sparring.core.errors import RolloutError, RunError
from sparring.core.records import MAIN, Episode, PlayerRef, Turn
from sparring.measure.info_states import renormalise
from sparring.play.store import EpisodeStore
from sparring.run import checkpoint
from sparring.run.folder import CONFIG, RunFolder, is_unsettled
from sparring.view.http_requests import RequestError
from sparring.view.viewed_run import ViewedRun
from sparring.view.worker_process import WorkerProcess

if TYPE_CHECKING:
    from sparring.engine.local import LocalEngine

TIME_LIMIT_SECONDS = 60.0  # time limit of an answer, including the time to load the model
MODEL_KINDS = ("learner", "policy", "snapshot")  # players that act with weights of the run


class ActionProbabilities:
    """Queries the policies of runs; thread-safe."""

    def __init__(self) -> None:
        self._process = WorkerProcess("sparring.view.action_probabilities", TIME_LIMIT_SECONDS)

    def at(self, run: ViewedRun, step: int, episode: Episode, turn_index: int) -> Mapping[str, Any]:
        """Return the probabilities of a turn's legal actions; if there are none, ``why`` says why.

        Args:
            run: run of the episode.
            step: step of the episode.
            episode: episode of the turn.
            turn_index: index of the turn in the episode.
        """
        why = _reason_unavailable(run, episode, episode.turns[turn_index])
        if why is not None:
            return {"why": why}
        question = {"folder": str(run.path), "step": step, "episode": episode.episode_id}
        try:
            return {**self._process.ask({**question, "turn": turn_index}), "why": None}
        except RequestError as error:
            return {"why": str(error)}

    def close(self) -> None:
        """End the separate process."""
        self._process.close()


def has_probabilities(run: ViewedRun, episode: Episode) -> bool:
    """Return whether any turn of an episode may have probabilities."""
    return any(_reason_unavailable(run, episode, turn) is None for turn in episode.turns)


def _reason_unavailable(run: ViewedRun, episode: Episode, turn: Turn) -> str | None:
    """Return why a turn has no probabilities, or None; this check does not load the model."""
    if not turn.legal_actions:
        return "no legal actions are recorded: any text is allowed"
    player = episode.players[turn.seat]
    if player.kind not in MODEL_KINDS:
        return f"{player} is not a policy of the run"
    if not any(part.ids for part in turn.segments if part.kind == "sampled"):
        return "no model wrote the reply: it has no tokens"
    return None if run.checkpoints() else "the run has no checkpoint yet"


Key = tuple[Path, int, int, int]  # folder, step, times of the checkpoint and the configuration
_engines: dict[Key, LocalEngine] = {}  # the engine of the last answer, if any


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probability of each legal action as a whole reply.

    Args:
        question: ``folder`` of the run, ``step``, ``episode`` and ``turn``.

    Returns:
        ``step`` of the checkpoint, ``player``, whose weights were used, ``weights`` (live, EMA or
        snapshot), ``actions``, ``probabilities``, and ``other``, the probability of all other
        replies.

    Raises:
        SparringError: the probabilities cannot be computed.
    """
    folder, play_step = Path(question["folder"]), question["step"]
    episode = EpisodeStore(folder / "episodes").episode(play_step, question["episode"])
    if episode is None:
        raise RolloutError(f"Step {play_step} has no episode {question['episode']}.")
    if is_unsettled(folder):  # loading the run would repair the folder, and so write
        raise RunError("Another run is replacing this one.")
    turn = episode.turns[question["turn"]]
    lag = resolve(RunFolder.open(folder).config()).scale.lag
    step = checkpoint_step_for(checkpoint.steps(folder), play_step - 1 - lag)
    engine = _load_engine(folder, step)
    player = _player_of_seat(engine, episode, turn.seat)
    agent: Any = engine.agent(player)
    prompt = prompt_ids(episode, question["turn"])
    (logprobs,) = agent.reply_logprobs([prompt], [turn.legal_actions])
    return {
        "step": step,
        "player": str(player),
        "weights": _weights_label(engine, player),
        "actions": list(turn.legal_actions),
        "probabilities": np.exp(logprobs).tolist(),
        "other": renormalise(logprobs)[1],
    }


def checkpoint_step_for(steps: Sequence[int], target: int) -> int:
    """Return the newest step that is at most ``target``; if there is none, the first step.

    Args:
        steps: steps that have a checkpoint, in order.
        target: step of the weights that played.

    Raises:
        RunError: there is no checkpoint.
    """
    if not steps:
        raise RunError("The run has no checkpoint yet.")
    return max((step for step in steps if step <= target), default=steps[0])


def prompt_ids(episode: Episode, turn_index: int) -> tuple[int, ...]:
    """Return the token ids of a turn's prompt: the seat's conversation up to the reply."""
    turn = episode.turns[turn_index]
    conversation = (turn.seat, turn.conversation)
    earlier_turns = [
        prior
        for prior in episode.turns[:turn_index]
        if (prior.seat, prior.conversation) == conversation
    ]
    ids = [id_ for prior in earlier_turns for segment in prior.segments for id_ in segment.ids]
    for segment in turn.segments:
        if segment.kind == "sampled":
            break
        ids += segment.ids
    return tuple(ids)


def _player_of_seat(engine: LocalEngine, episode: Episode, seat: int) -> PlayerRef:
    """Return the player of a seat, with the name of its policy.

    A player without a name is ``main``; if the run has no such policy, it is the policy of the
    seat's role.
    """
    player = episode.players[seat]
    if player.name or MAIN in engine.policies:
        return player
    for game, _ in engine.environments:
        if game.name == episode.game:
            return player.for_policy(engine.roles.of(game)[seat])
    raise RunError(f"The run's configuration has no environment {episode.game!r} any more.")


def _weights_label(engine: LocalEngine, player: PlayerRef) -> str:
    if player.kind == "policy" and engine.policies[player.name or MAIN].average is not None:
        return "EMA"
    return "snapshot" if player.kind == "snapshot" else "live"


def _load_engine(folder: Path, step: int) -> LocalEngine:
    """Return an engine with the weights of a checkpoint; only the last engine is kept."""
    from sparring.api.load import load_run  # imported here, because it imports torch

    # a resumed run may write another checkpoint of the same step
    files = (folder / "checkpoints" / f"step_{step:06d}", folder / CONFIG)
    file_times = [path.stat().st_mtime_ns if path.exists() else 0 for path in files]
    key = (folder, step, file_times[0], file_times[1])
    if key not in _engines:
        _engines.clear()
        _engines[key] = load_run(folder, step, threads=1)[1]
    return _engines[key]
