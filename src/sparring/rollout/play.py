"""Many games at once: the turns that are due are batched across games, one call per agent and wave.

Every game has streams of its own, so the order in which games finish, and how many are in flight, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sparring.agents.base import Agent
from sparring.errors import GameError, RolloutError, SparringError
from sparring.games.base import Game
from sparring.ops.collector import paused_collector
from sparring.rng import Stream
from sparring.rollout.episode import EpisodeInPlay
from sparring.types import Episode, Turn

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeSpec:
    """One game to be played: the rules, who sits where, and the streams for the deal and for everything else."""

    game: Game
    episode_id: int
    group_id: int
    deal: Stream  # equal within a group: its members share their start
    stream: Stream  # differs within a group
    seats: tuple[str, ...]  # [num_seats] agent name per seat
    trained: tuple[bool, ...]  # [num_seats]
    max_turns: int | None = None  # all seats' turns after which the game is cut, if before its rules do
    arm: str = ""  # what the curriculum knows the start by
    prefix: tuple[Turn, ...] = ()  # turns of another play of this deal, taken over as they were
    redealt: bool = True  # whether chance is drawn anew after the last turn of the prefix; if not, it goes on as dealt


@dataclass(kw_only=True, slots=True)
class RolloutCounts:
    """What went wrong and was handled: games begun anew, groups given up."""

    retried: int = 0
    dropped_groups: set[int] = field(default_factory=set)


def play(
    specs: Sequence[EpisodeSpec],
    agents: Mapping[str, Agent],
    *,
    in_flight: int = 4096,
    retries: int = 2,
    counts: RolloutCounts | None = None,
    on_finished: Callable[[int], None] | None = None,
) -> list[Episode]:
    """Play all games to their ends and return the episodes in the order of ``specs``.

    Args:
        specs: the games to play.
        agents: the agents by the names used in the specs.
        in_flight: how many games run at the same time.
        retries: how often a game that failed (its code raised) begins anew, with the same seed in a fresh state.
        counts: filled with the failures that were handled.
        on_finished: called with the number of games that have ended, after each wave.

    Returns:
        The episodes of all groups that could be completed; a group with a game that failed beyond its retries is
        left out as a whole, since leaving out single games would bias what is learned.

    Raises:
        RolloutError: every group failed.
    """
    counts = counts if counts is not None else RolloutCounts()
    with paused_collector():
        finished = _play_all(specs, agents, in_flight, retries, counts, on_finished)
    if specs and counts.dropped_groups and not any(e.group_id not in counts.dropped_groups for e in finished.values()):
        raise RolloutError(f"All {len(counts.dropped_groups)} groups failed beyond {retries} retries; the log says why each game failed.")
    return [finished[index] for index in sorted(finished) if finished[index].group_id not in counts.dropped_groups]


def _play_all(
    specs: Sequence[EpisodeSpec],
    agents: Mapping[str, Agent],
    in_flight: int,
    retries: int,
    counts: RolloutCounts,
    on_finished: Callable[[int], None] | None,
) -> dict[int, Episode]:
    """Return the episodes that came to an end, by their place in ``specs``."""
    waiting = list(enumerate(specs))[::-1]
    running: list[tuple[int, EpisodeInPlay, int]] = []
    finished: dict[int, Episode] = {}
    while waiting or running:
        while waiting and len(running) < in_flight:
            index, spec = waiting.pop()
            running.append((index, EpisodeInPlay(spec, agents), 0))
        failed = _wave(running, agents)
        survivors = []
        for index, episode, attempts in running:
            if id(episode) in failed:
                if attempts < retries:
                    counts.retried += 1
                    survivors.append((index, EpisodeInPlay(specs[index], agents), attempts + 1))
                else:
                    counts.dropped_groups.add(specs[index].group_id)
            elif episode.done:
                finished[index] = episode.finish()
            else:
                survivors.append((index, episode, attempts))
        running = survivors
        if on_finished is not None:
            on_finished(len(finished))
    return finished


def _wave(running: Sequence[tuple[int, EpisodeInPlay, int]], agents: Mapping[str, Agent]) -> set[int]:
    """Play one turn in every running game; return the ids of the episode objects whose game raised."""
    failed: set[int] = set()
    due: dict[str, list[EpisodeInPlay]] = {}
    for _, episode, _ in running:
        if not episode.done:
            due.setdefault(episode.agent_name, []).append(episode)
    for name, episodes in due.items():
        ready, turns = [], []
        for episode in episodes:
            try:
                turns.append(episode.pending())
                ready.append(episode)
            except Exception as error:
                _note(episode, error, failed)
        for episode, reply in zip(ready, agents[name].act(turns) if turns else (), strict=True):
            try:
                episode.advance(reply)
            except Exception as error:
                _note(episode, error, failed)
    return failed


def _note(episode: EpisodeInPlay, error: Exception, failed: set[int]) -> None:
    """Count an exception of a game's code as a failed game; errors of configuration or model are raised again."""
    if isinstance(error, SparringError) and not isinstance(error, GameError):
        raise error
    log.warning("Game %s of episode %d failed: %r", episode.spec.game.name, episode.spec.episode_id, error)
    failed.add(id(episode))
