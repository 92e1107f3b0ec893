"""Many plays at once: the turns that are due are batched across plays, one call per player.

Every play has streams of its own, so what is drawn for it does not depend on the order in which
plays finish, nor on how many are in flight. With a sampler that is ``invariant`` neither does a bit
of its log-probabilities.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sparring.environments.openspiel.base import State
from sparring.environments.own import lacking_error
from sparring.errors import GameError, HungError, RolloutError, SparringError
from sparring.guard import Call
from sparring.players.base import Agent, PendingTurn, Reply, replies
from sparring.registry import named
from sparring.rng import Stream
from sparring.rollout.candidates import Candidates
from sparring.rollout.draft import Draft
from sparring.rollout.episode import EpisodeInPlay
from sparring.rollout.spec import EpisodeSpec
from sparring.system.collector import paused_collector
from sparring.types import Episode, Verdict

log = logging.getLogger(__name__)

# what an oracle says of decisions, given their states and what it may draw from
Judge = Callable[[Sequence[State], Sequence[Stream]], Sequence[Verdict | None]]


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
    judges: Mapping[str, Judge] | None = None,
    candidates: Candidates | None = None,
) -> list[Episode]:
    """Play all games to their ends and return the episodes in the order of ``specs``.

    Args:
        specs: the games to play.
        agents: the agents by the text forms of the players in the specs.
        in_flight: how many games run at the same time.
        retries: how often a game that failed (its code raised) begins anew, with the same seed in a
            fresh state.
        counts: filled with the failures that were handled.
        on_finished: called with the number of games that have ended, after each wave.
        judges: by the name of a game, who judges the decisions of its trained seats where the play
            stands, all of a wave at once.
        candidates: how many replies trained seats give to each prompt, and which is played; None:
            one.

    Returns:
        The episodes of all groups that could be completed; a group with a game that failed beyond
        its retries is left out as a whole, since leaving out single games would bias what is
        learned.

    Raises:
        RolloutError: every group failed.
    """
    counts = counts if counts is not None else RolloutCounts()
    with paused_collector():
        finished = _play_all(
            specs, agents, in_flight, retries, counts, on_finished, judges or {}, candidates
        )
    if (
        specs
        and counts.dropped_groups
        and not any(e.group_id not in counts.dropped_groups for e in finished.values())
    ):
        raise RolloutError(
            f"All {len(counts.dropped_groups)} groups failed beyond {retries} retries; the log "
            "says why each game failed."
        )
    return [
        finished[index]
        for index in sorted(finished)
        if finished[index].group_id not in counts.dropped_groups
    ]


def _play_all(
    specs: Sequence[EpisodeSpec],
    agents: Mapping[str, Agent],
    in_flight: int,
    retries: int,
    counts: RolloutCounts,
    on_finished: Callable[[int], None] | None,
    judges: Mapping[str, Judge],
    candidates: Candidates | None,
) -> dict[int, Episode]:
    """Return the episodes that came to an end, by their place in ``specs``."""
    waiting = [(index, 0) for index in range(len(specs))][::-1]
    running: list[tuple[int, EpisodeInPlay, int]] = []
    finished: dict[int, Episode] = {}
    while waiting or running:
        failed: dict[int, Exception] = {}  # by place in ``specs``
        attempts = {index: number for index, _, number in running}
        with Call(_game) as call:
            while waiting and len(running) < in_flight:
                index, number = waiting.pop()
                attempts[index] = number
                call.now = specs[index]
                try:
                    running.append((index, EpisodeInPlay(specs[index], agents, candidates), number))
                except Exception as error:
                    _note(specs[index], index, error, failed)
        _wave(running, agents, failed, judges, candidates)
        with Call(_game) as call:
            for index, episode, _ in running:
                if index not in failed and episode.done:
                    call.now = specs[index]
                    try:
                        finished[index] = episode.finish()
                    except Exception as error:
                        _note(specs[index], index, error, failed)
        running = [
            entry for entry in running if entry[0] not in failed and entry[0] not in finished
        ]
        for index, why in failed.items():
            # what hung once would hang again
            if attempts[index] < retries and not isinstance(why, HungError):
                counts.retried += 1
                waiting.append((index, attempts[index] + 1))
            else:
                counts.dropped_groups.add(specs[index].group_id)
        if on_finished is not None:
            on_finished(len(finished))
    return finished


def _game(spec: EpisodeSpec) -> str:
    """Return a game in words."""
    return named("environments", spec.game.name)


def _wave(
    running: Sequence[tuple[int, EpisodeInPlay, int]],
    agents: Mapping[str, Agent],
    failed: dict[int, Exception],
    judges: Mapping[str, Judge],
    candidates: Candidates | None,
) -> None:
    """Play one moment in every running game; note in ``failed`` those whose game raised."""
    asked: list[tuple[int, EpisodeInPlay, list[Reply | None]]] = []
    due: dict[str, list[tuple[PendingTurn, list[Reply | None], int]]] = {}
    with Call(_game) as call:  # one for all of them, as there are many and each is short
        for index, episode, _ in running:
            if episode.done:
                continue
            call.now = episode.spec
            try:
                turns = episode.ask()
            except Exception as error:
                _note(episode.spec, index, error, failed)
                continue
            heard: list[Reply | None] = [None] * len(turns)
            asked.append((index, episode, heard))
            for place, turn in enumerate(turns):
                due.setdefault(episode.names[turn.seat], []).append((turn, heard, place))
    if judges:
        _judge([(index, episode) for index, episode, _ in asked], judges, failed)
    for name, wanted in due.items():
        said = replies(name, agents[name], [turn for turn, _, _ in wanted])
        for (_, heard, place), reply in zip(wanted, said, strict=True):
            heard[place] = reply
    with Call(_game) as call:
        for index, episode, heard in asked:
            call.now = episode.spec
            try:
                go_on = episode.hear if candidates else episode.answer
                go_on([reply for reply in heard if reply is not None])
            except Exception as error:
                _note(episode.spec, index, error, failed)
    if candidates:
        heard_from = [(index, episode) for index, episode, _ in asked if index not in failed]
        _commit(heard_from, candidates, failed)


def _commit(
    episodes: Sequence[tuple[int, EpisodeInPlay]],
    candidates: Candidates,
    failed: dict[int, Exception],
) -> None:
    """Judge the replies to each prompt, all of a wave in one call; go on from those chosen.

    Raises:
        PluginError: what judges them did not give one number per reply.
    """
    several = [(index, found) for index, one in episodes if (found := one.candidates())]
    rows = candidates.grade([found for _, found in several]) if several else ()
    scores = {index: row for (index, _), row in zip(several, rows, strict=True)}
    with Call(_game) as call:
        for index, episode in episodes:
            call.now = episode.spec
            try:
                episode.commit(scores.get(index, ()))
            except Exception as error:
                _note(episode.spec, index, error, failed)


def _judge(
    episodes: Sequence[tuple[int, EpisodeInPlay]],
    judges: Mapping[str, Judge],
    failed: dict[int, Exception],
) -> None:
    """Judge the decisions that are due in trained seats, those of one game in one call.

    Note in ``failed`` the games that could not be copied because their code raised.
    """
    for name, judge in judges.items():
        asked: list[tuple[Draft, State, Stream]] = []
        with Call(_game) as call:
            for index, episode in episodes:
                if episode.spec.game.name != name:
                    continue
                call.now = episode.spec
                trained = [one for one in episode.asked if episode.spec.trained[one.seat]]
                try:
                    asked += [(draft, *episode.question(draft)) for draft in trained]
                except (GameError, AttributeError):  # no other try would do better
                    raise
                except Exception as error:
                    _note(episode.spec, index, error, failed)
        if asked:
            drafts, states, streams = zip(*asked, strict=True)
            for draft, verdict in zip(drafts, judge(states, streams), strict=True):
                draft.verdict = verdict


def _note(spec: EpisodeSpec, index: int, error: Exception, failed: dict[int, Exception]) -> None:
    """Note an exception of a game's code; errors of configuration or model are raised again."""
    if isinstance(error, SparringError) and not isinstance(error, GameError | HungError):
        raise error
    lacking = lacking_error(error) if isinstance(error, AttributeError) else None
    if lacking is not None:  # another try would lack it as well
        raise lacking from error
    log.warning("Game %s of episode %d failed: %r", spec.game.name, spec.episode_id, error)
    failed[index] = error
