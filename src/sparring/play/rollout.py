"""Rollouts: many episodes at once, without waiting for each other.

An episode goes on as soon as all replies to its due decisions have arrived. All decisions that are
due at one time are sent in one call per player, so that samplers get large batches. Players with an
equal ``together`` (``players.base``) share one call.

Every episode has its own streams, so its draws depend neither on the order of replies nor on the
number of episodes in flight. With an ``invariant`` sampler this also holds for the
log-probabilities.

A generator of type ``EpisodeRequests`` yields specs and receives their rollout. The caller plays
them itself (``run_requests``), or gives them to workers.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from sparring.config.plugins.guard import PluginCall, call_limit_seconds
from sparring.config.plugins.registry import named
from sparring.core.errors import GameError, HungError, RolloutError, SparringError
from sparring.core.process import paused_collector
from sparring.core.records import Episode, Verdict
from sparring.core.rng import Stream
from sparring.environments.base import SearchablePlay
from sparring.environments.foreign import lacking_error
from sparring.environments.situation import close_copies
from sparring.play.episode import Candidates, Draft, EpisodeInPlay
from sparring.play.players.base import (
    Agent,
    AgentCall,
    FailedPlay,
    PendingTurn,
    Reply,
    joint_agents,
)
from sparring.play.spec import EpisodeSpec

log = logging.getLogger(__name__)
MAX_REASON_CHARACTERS = 300  # largest number of characters of a failure's reason
POLL_SECONDS = 0.001  # time between two polls while no reply has arrived

# returns an oracle's verdicts of decisions, given their states and streams
Judge = Callable[[Sequence[SearchablePlay], Sequence[Stream]], Sequence[Verdict | None]]


class _RunningPlay:
    """An episode in progress, its due turns, and the replies to them."""

    __slots__ = ("attempt", "episode", "error", "index", "num_missing", "replies", "turns")

    def __init__(self, index: int, attempt: int, episode: EpisodeInPlay) -> None:
        self.index, self.attempt, self.episode = index, attempt, episode
        self.turns: list[PendingTurn] = []
        self.replies: list[Reply] = []
        self.num_missing = 0  # replies that have not arrived
        self.error: Exception | None = None  # of the environment, during a player's call


# a due turn, its play, and its index among the due turns of this play
PendingReply = tuple[PendingTurn, _RunningPlay, int]


class PlayLoop:
    """Plays a rollout: a queue of waiting episodes, and running ones that wait for replies."""

    def __init__(
        self,
        specs: Sequence[EpisodeSpec],
        agents: Mapping[str, Agent],
        in_flight: int,
        retries: int,
        judges: Mapping[str, Judge],
        candidates: Candidates | None,
    ) -> None:
        self.specs, self.agents, self.in_flight, self.retries = specs, agents, in_flight, retries
        self.judges, self.candidates = judges, candidates
        self.finished: dict[int, Episode] = {}  # by index in ``specs``
        self.dropped_groups: set[int] = set()
        self.failures: list[str] = []  # reasons why episodes failed beyond their retries
        self._episodes: dict[int, EpisodeInPlay] = {}  # running episodes, by index in ``specs``
        self.num_retried = self.num_running = 0
        self._queue = [(index, 0) for index in range(len(specs))][::-1]  # index, attempt
        self._plays_to_prompt: list[_RunningPlay] = []
        self._calls: list[tuple[AgentCall, list[PendingReply]]] = []
        self._last_reply_time = time.monotonic()

    def run(
        self, on_finished: Callable[[int], None] | None, on_idle: Callable[[], None] | None = None
    ) -> None:
        """Play until all episodes have ended; on an exception, close all calls and plays.

        Args:
            on_finished: called with the number of finished episodes, whenever this number rises.
            on_idle: called while no player is called; it may change the players' weights.
        """
        try:
            while self._queue or self._plays_to_prompt or self._calls:
                num_finished = len(self.finished)
                self._begin()
                if on_idle is not None and not self._calls:
                    on_idle()
                self._ask()
                self._apply_replies(self._receive())
                if on_finished is not None and len(self.finished) > num_finished:
                    on_finished(len(self.finished))
        finally:
            for agent_call, _ in self._calls:
                agent_call.close()
            for episode in self._episodes.values():
                episode.close()

    def _begin(self) -> None:
        with PluginCall(_environment_name) as call:
            while self._queue and self.num_running < self.in_flight:
                index, attempt = self._queue.pop()
                call.now = spec = self.specs[index]
                self.num_running += 1
                try:
                    episode = EpisodeInPlay(spec, self.agents, self.candidates)
                    self._episodes[index] = episode
                    self._continue_or_finish(_RunningPlay(index, attempt, episode))
                except Exception as error:
                    self._handle_failure(index, attempt, error)

    def _ask(self) -> None:
        running_plays: list[_RunningPlay] = []
        with PluginCall(_environment_name) as call:  # one call for all plays, as each step is short
            for running_play in self._plays_to_prompt:
                call.now = running_play.episode.spec
                try:
                    running_play.turns = running_play.episode.ask()
                except Exception as error:
                    self._handle_failure(running_play.index, running_play.attempt, error)
                else:
                    running_plays.append(running_play)
        self._plays_to_prompt = []
        due_turns: defaultdict[str, list[PendingReply]] = defaultdict(list)
        for running_play in self._judge_decisions(running_plays) if self.judges else running_plays:
            players, running_play.num_missing = running_play.episode.names, len(running_play.turns)
            running_play.replies = [_MISSING] * running_play.num_missing
            for index, turn in enumerate(running_play.turns):
                due_turns[players[turn.seat]].append((turn, running_play, index))
        num_due = {name: len(turns) for name, turns in due_turns.items()}
        for names, agent in joint_agents(num_due, self.agents):
            pending = [reply for name in names for reply in due_turns[name]]
            agent_call = AgentCall(", ".join(names), agent, [turn for turn, _, _ in pending])
            self._calls.append((agent_call, pending))

    def _receive(self) -> list[_RunningPlay]:
        complete_plays: list[_RunningPlay] = []
        has_reply = False
        for agent_call, pending in self._calls:
            for turn_index, reply in agent_call.take():
                has_reply = True
                _, running_play, reply_index = pending[turn_index]
                running_play.num_missing -= 1
                if isinstance(reply, FailedPlay):
                    running_play.error = reply.error
                else:
                    running_play.replies[reply_index] = reply
                if running_play.num_missing:
                    continue
                if running_play.error is not None:
                    self._handle_failure(
                        running_play.index, running_play.attempt, running_play.error
                    )
                else:
                    complete_plays.append(running_play)
        self._calls = [pair for pair in self._calls if not pair[0].done]
        if has_reply:
            self._last_reply_time = time.monotonic()
        elif self._calls:
            self._wait()
        return complete_plays

    def _wait(self) -> None:
        seconds = call_limit_seconds()
        if seconds and time.monotonic() - self._last_reply_time > seconds:
            agent_call, _ = self._calls[0]
            raise HungError(
                f"The {named('players', agent_call.name)} has given no reply for {seconds:g} "
                "seconds, the limit of call_seconds; repair it, or raise call_seconds (0: none)."
            )
        time.sleep(POLL_SECONDS)

    def _apply_replies(self, complete_plays: Sequence[_RunningPlay]) -> None:
        scores: dict[int, Sequence[float | None]] = {}
        if self.candidates is not None:
            complete_plays, scores = self._grade_candidates(complete_plays, self.candidates)
        with PluginCall(_environment_name) as call:
            for running_play in complete_plays:
                episode = running_play.episode
                call.now = episode.spec
                try:
                    if self.candidates is None:
                        episode.answer(running_play.replies)
                    else:
                        episode.commit(scores.get(running_play.index, ()))
                    self._continue_or_finish(running_play)
                except Exception as error:
                    self._handle_failure(running_play.index, running_play.attempt, error)

    def _continue_or_finish(self, running_play: _RunningPlay) -> None:
        if running_play.episode.done:
            self.finished[running_play.index] = running_play.episode.finish()
            self._episodes.pop(running_play.index).close()
            self.num_running -= 1
        else:
            self._plays_to_prompt.append(running_play)

    def _grade_candidates(
        self, running_plays: Sequence[_RunningPlay], rule: Candidates
    ) -> tuple[list[_RunningPlay], dict[int, Sequence[float | None]]]:
        """Judge all candidates in one call; return the plays, and the scores by play index."""
        read_plays: list[_RunningPlay] = []
        with PluginCall(_environment_name) as call:
            for running_play in running_plays:
                call.now = running_play.episode.spec
                try:
                    running_play.episode.take_replies(running_play.replies)
                except Exception as error:
                    self._handle_failure(running_play.index, running_play.attempt, error)
                else:
                    read_plays.append(running_play)
        candidates_of_play = {
            running_play.index: candidates
            for running_play in read_plays
            if (candidates := running_play.episode.candidates())
        }
        scores = rule.grade([*candidates_of_play.values()]) if candidates_of_play else ()
        return read_plays, dict(zip(candidates_of_play, scores, strict=True))

    def _judge_decisions(self, plays: list[_RunningPlay]) -> list[_RunningPlay]:
        for name, judge in self.judges.items():
            queries: list[tuple[Draft, SearchablePlay, Stream]] = []
            try:
                game_plays = [
                    running_play
                    for running_play in plays
                    if running_play.episode.spec.game.name == name
                ]
                self._collect_queries(game_plays, queries)
                if queries:
                    drafts, states, streams = zip(*queries, strict=True)
                    for draft, verdict in zip(drafts, judge(states, streams), strict=True):
                        draft.verdict = verdict
            finally:
                close_copies(state for _, state, _ in queries)
        return [running_play for running_play in plays if running_play.index in self._episodes]

    def _collect_queries(
        self, plays: Sequence[_RunningPlay], queries: list[tuple[Draft, SearchablePlay, Stream]]
    ) -> None:
        with PluginCall(_environment_name) as call:
            for running_play in plays:
                episode = running_play.episode
                call.now = episode.spec
                trained = episode.spec.trained
                try:
                    for draft in episode.due_drafts:
                        if trained[draft.seat] and not draft.is_memory:
                            queries.append((draft, *episode.oracle_query(draft)))
                except (GameError, AttributeError):  # a second try would also fail
                    raise
                except Exception as error:
                    self._handle_failure(running_play.index, running_play.attempt, error)

    def _handle_failure(self, index: int, attempt: int, error: Exception) -> None:
        """Record an exception of a play's code; raise errors of configuration or model again."""
        spec = self.specs[index]
        if isinstance(error, SparringError) and not isinstance(error, GameError | HungError):
            raise error
        explanation = lacking_error(error) if isinstance(error, AttributeError) else None
        if explanation is not None:  # a second try would also fail
            raise explanation from error
        log.warning("Game %s of episode %d failed: %r", spec.game.name, spec.episode_id, error)
        episode = self._episodes.pop(index, None)
        if episode is not None:
            episode.close()
        self.num_running -= 1
        # a second try would also hang
        if attempt < self.retries and not isinstance(error, HungError):
            self.num_retried += 1
            self._queue.append((index, attempt + 1))
        else:
            self.dropped_groups.add(spec.group_id)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self.failures.append(reason[:MAX_REASON_CHARACTERS])


_MISSING = Reply(text="")  # placeholder until a reply arrives


def _environment_name(spec: EpisodeSpec | None) -> str:
    """Return the environment's name for errors; before the first episode it is unknown."""
    return "environment" if spec is None else named("environments", spec.game.name)


MAX_REASONS = 3  # largest number of reasons in a message


@dataclass(frozen=True, slots=True)
class RolloutCounts:
    """Failures that a rollout handled (retried episodes, dropped groups), and timings."""

    retried: int = 0
    dropped_groups: frozenset[int] = frozenset()
    judging_seconds: float = field(default=0.0, compare=False)  # seconds spent on verdicts
    scored: tuple[Any, ...] = ()  # see ``engine.logprob_check``
    # the reason of each episode that failed beyond its retries; unknown for episodes on workers
    failures: tuple[str, ...] = field(default=(), compare=False)

    def __add__(self, other: RolloutCounts) -> RolloutCounts:
        return RolloutCounts(
            self.retried + other.retried,
            self.dropped_groups | other.dropped_groups,
            self.judging_seconds + other.judging_seconds,
            self.scored + other.scored,
            self.failures + other.failures,
        )

    def format_reasons(self) -> str:
        """Return the commonest reasons of failures as sentences after a space; "" if unknown."""
        commonest = Counter(self.failures).most_common(MAX_REASONS)
        return "".join(f" {count} x {reason.rstrip('.')}." for reason, count in commonest)


class Rollout(NamedTuple):
    """The result of a rollout: the episodes in the order of the specs, and the counts."""

    episodes: list[Episode]
    counts: RolloutCounts

    def require_any(self) -> Rollout:
        """Return the rollout; raise an error if every group failed.

        Raises:
            RolloutError: every group failed.
        """
        num_dropped = len(self.counts.dropped_groups)
        if num_dropped and not self.episodes:
            raise RolloutError(
                f"All {num_dropped} groups failed beyond their retries (rollout.retries)."
                f"{self.counts.format_reasons()} The log has the error of each episode."
            )
        return self

    def require_all(self, num_specs: int) -> list[Episode]:
        """Return the episodes if none is missing.

        Args:
            num_specs: the number of specs.

        Raises:
            RolloutError: episodes are missing.
        """
        num_missing = num_specs - len(self.episodes)
        if num_missing:
            raise RolloutError(
                f"{num_missing} of {num_specs} episodes are missing, as "
                f"{len(self.counts.failures)} failed.{self.counts.format_reasons()} Repair the "
                "environment, or run fewer episodes at once (in_flight)."
            )
        return self.episodes


@dataclass(frozen=True, slots=True)
class StartedRollout:
    """A rollout that has been started.

    Args:
        result: waits for the episodes and returns their rollout; called once.
        is_ready: whether ``result`` would return at once.
    """

    result: Callable[[], Rollout]
    is_ready: Callable[[], bool] = bool  # bool() is False: ``result`` itself plays the episodes


def within_context(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the episodes whose conversations all fitted into the context."""
    return [episode for episode in episodes if not episode.has_outgrown_context]


def play(
    specs: Sequence[EpisodeSpec], agents: Mapping[str, Agent], **options: Any
) -> list[Episode]:
    """Play a rollout, and return its episodes.

    Args:
        specs: the episodes to play.
        agents: one agent per player; the key is the player's text form, as in the specs.
        options: further options of ``rollout``.

    Raises:
        RolloutError: every group failed.
        HungError: a player gives no reply within the limit of ``call_seconds``.
    """
    return rollout(specs, agents, **options).require_any().episodes


def rollout(
    specs: Sequence[EpisodeSpec],
    agents: Mapping[str, Agent],
    *,
    in_flight: int = 4096,
    retries: int = 2,
    on_finished: Callable[[int], None] | None = None,
    judges: Mapping[str, Judge] | None = None,
    candidates: Candidates | None = None,
    on_idle: Callable[[], None] | None = None,
) -> Rollout:
    """Play all episodes to the end.

    Args:
        specs: the episodes to play.
        agents: one agent per player; the key is the player's text form, as in the specs.
        in_flight: number of episodes that are played at the same time.
        retries: largest number of new attempts of an episode, with the same seed, after an error.
        on_finished: called with the number of finished episodes, whenever this number rises.
        judges: the oracle that judges the due decisions of trained seats, by the environment's
            name.
        candidates: rule for several replies to each prompt of a trained seat; None: one reply.
        on_idle: called while no player is called; it may change the players' weights.

    Returns:
        The episodes of all complete groups, and the counts. If an episode fails beyond its retries,
        its whole group is dropped, because dropping single episodes would bias the gradient.

    Raises:
        HungError: a player gives no reply within the limit of ``call_seconds``.
    """
    with paused_collector():
        loop = PlayLoop(specs, agents, in_flight, retries, judges or {}, candidates)
        loop.run(on_finished, on_idle)
    episodes = [
        loop.finished[index]
        for index in sorted(loop.finished)
        if loop.finished[index].group_id not in loop.dropped_groups
    ]
    dropped_groups, failures = frozenset(loop.dropped_groups), tuple(loop.failures)
    return Rollout(episodes, RolloutCounts(loop.num_retried, dropped_groups, failures=failures))


T = TypeVar("T")
EpisodeRequests = Generator[list[EpisodeSpec], Rollout, T]


def run_requests(requests: EpisodeRequests[T], play: Callable[[list[EpisodeSpec]], Rollout]) -> T:
    """Return the result of a generator, after playing the specs that it yields.

    Args:
        requests: the generator.
        play: plays a list of specs.
    """
    try:
        specs = next(requests)
        while True:
            specs = requests.send(play(specs))
    except StopIteration as done:
        result: T = done.value
        return result
