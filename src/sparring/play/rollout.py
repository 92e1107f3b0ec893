"""Many plays at once, none of which waits for another.

A play goes on as soon as the replies to its own moment are there. What is due at one time is asked
in one call per player, so that a sampler gets batches as large as there are plays to go on; players
that may be asked together (``players.base``) share one call.

Every play has streams of its own, so what is drawn for it does not depend on the order in which
replies come or plays finish, nor on how many are in flight. With a sampler that is ``invariant``
neither does a bit of its log-probabilities.

Work that asks for plays is a generator (``Asking``): it yields the games that it wants, and is sent
their rollout. Its caller plays them at once, as ``answered`` does, or has workers play them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from sparring.config.plugins.guard import PluginCall, limit
from sparring.config.plugins.registry import named
from sparring.core.errors import GameError, HungError, RolloutError, SparringError
from sparring.core.process import paused_collector
from sparring.core.records import Episode, Verdict
from sparring.core.rng import Stream
from sparring.environments.base import SearchablePlay
from sparring.environments.foreign import lacking_error
from sparring.environments.situation import close_copies
from sparring.play.episode import Candidates, Draft, EpisodeInPlay
from sparring.play.players.base import Agent, Failed, Flight, PendingTurn, Reply, parties
from sparring.play.spec import EpisodeSpec

log = logging.getLogger(__name__)
REASON = 300  # characters of a reason
REST = 0.001  # seconds between looks while no reply is there

# what an oracle says of decisions, given their states and what it may draw from
Judge = Callable[[Sequence[SearchablePlay], Sequence[Stream]], Sequence[Verdict | None]]


class _Running:
    """A play that goes on, what it asks at its moment, and the replies that are there."""

    __slots__ = ("asked", "attempt", "episode", "fault", "heard", "index", "wanted")

    def __init__(self, index: int, attempt: int, episode: EpisodeInPlay) -> None:
        self.index, self.attempt, self.episode = index, attempt, episode
        self.asked: list[PendingTurn] = []
        self.heard: list[Reply] = []
        self.wanted = 0  # replies that are still to come
        self.fault: Exception | None = None  # that its code raised while a player asked it


Asked = tuple[PendingTurn, _Running, int]  # a turn, whose it is, and its place in the moment


class PlayLoop:
    """The plays of a rollout: those that wait, can go on, or wait for replies."""

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
        self.finished: dict[int, Episode] = {}  # by place in ``specs``
        self.dropped: set[int] = set()
        self.failures: list[str] = []  # why plays failed beyond their retries
        self._open: dict[int, EpisodeInPlay] = {}  # not yet closed, by place in ``specs``
        self.retried = self.running = 0
        self._waiting = [(index, 0) for index in range(len(specs))][::-1]
        self._ready: list[_Running] = []
        self._flights: list[tuple[Flight, list[Asked]]] = []
        self._last = time.monotonic()  # when a reply came

    def run(
        self, on_finished: Callable[[int], None] | None, between: Callable[[], None] | None = None
    ) -> None:
        """Play until nothing is left; what is still asked when it ends otherwise is given up.

        Args:
            on_finished: called with the number of plays that have ended, when some have.
            between: called where no reply is awaited, before players are asked. They may be given
                other weights then.
        """
        try:
            while self._waiting or self._ready or self._flights:
                before = len(self.finished)
                self._begin()
                if between is not None and not self._flights:
                    between()
                self._ask()
                self._go_on(self._receive())
                if on_finished is not None and len(self.finished) > before:
                    on_finished(len(self.finished))
        finally:
            for flight, _ in self._flights:
                flight.close()
            for episode in self._open.values():
                episode.close()

    def _begin(self) -> None:
        with PluginCall(_game) as call:
            while self._waiting and self.running < self.in_flight:
                index, attempt = self._waiting.pop()
                call.now = spec = self.specs[index]
                self.running += 1
                try:
                    episode = EpisodeInPlay(spec, self.agents, self.candidates)
                    self._open[index] = episode
                    self._keep(_Running(index, attempt, episode))
                except Exception as error:
                    self._failed(index, attempt, error)

    def _ask(self) -> None:
        asked: list[_Running] = []
        with PluginCall(_game) as call:  # one for all of them, as there are many and each is short
            for one in self._ready:
                call.now = one.episode.spec
                try:
                    one.asked = one.episode.ask()
                except Exception as error:
                    self._failed(one.index, one.attempt, error)
                else:
                    asked.append(one)
        self._ready = []
        due: defaultdict[str, list[Asked]] = defaultdict(list)
        for one in self._judged(asked) if self.judges else asked:
            names, one.wanted = one.episode.names, len(one.asked)
            one.heard = [_NONE] * one.wanted
            for place, turn in enumerate(one.asked):
                due[names[turn.seat]].append((turn, one, place))
        counts = {name: len(wanted) for name, wanted in due.items()}
        for names, agent in parties(counts, self.agents):
            wanted = [one for name in names for one in due[name]]
            flight = Flight(", ".join(names), agent, [turn for turn, _, _ in wanted])
            self._flights.append((flight, wanted))

    def _receive(self) -> list[_Running]:
        """Take the replies that are there; return the plays that can go on by them."""
        arrived: list[_Running] = []
        came = False
        for flight, wanted in self._flights:
            for place, reply in flight.take():
                came = True
                _, one, slot = wanted[place]
                one.wanted -= 1
                if isinstance(reply, Failed):
                    one.fault = reply.error
                else:
                    one.heard[slot] = reply
                if one.wanted:
                    continue
                if one.fault is not None:
                    self._failed(one.index, one.attempt, one.fault)
                else:
                    arrived.append(one)
        self._flights = [(flight, wanted) for flight, wanted in self._flights if not flight.done]
        if came:
            self._last = time.monotonic()
        elif self._flights:
            self._rest()
        return arrived

    def _rest(self) -> None:
        allowed = limit()
        if allowed and time.monotonic() - self._last > allowed:
            flight, _ = self._flights[0]
            raise HungError(
                f"The {named('players', flight.name)} has given no reply for {allowed:g} seconds, "
                "the limit of call_seconds; mend it, or raise call_seconds (0: no limit)."
            )
        time.sleep(REST)

    def _go_on(self, arrived: Sequence[_Running]) -> None:
        scores: dict[int, Sequence[float | None]] = {}
        if self.candidates is not None:
            arrived, scores = self._heard(arrived, self.candidates)
        with PluginCall(_game) as call:
            for one in arrived:
                episode = one.episode
                call.now = episode.spec
                try:
                    if self.candidates is None:
                        episode.answer(one.heard)
                    else:
                        episode.commit(scores.get(one.index, ()))
                    self._keep(one)
                except Exception as error:
                    self._failed(one.index, one.attempt, error)

    def _keep(self, one: _Running) -> None:
        """Let a play go on, or end it if it is done."""
        if one.episode.done:
            self.finished[one.index] = one.episode.finish()
            self._open.pop(one.index).close()
            self.running -= 1
        else:
            self._ready.append(one)

    def _heard(
        self, arrived: Sequence[_Running], several: Candidates
    ) -> tuple[list[_Running], dict[int, Sequence[float | None]]]:
        """Judge the replies to all prompts in one call. Return the plays that have heard theirs,
        and the scores by the places of these."""
        heard: list[_Running] = []
        with PluginCall(_game) as call:
            for one in arrived:
                call.now = one.episode.spec
                try:
                    one.episode.hear(one.heard)
                except Exception as error:
                    self._failed(one.index, one.attempt, error)
                else:
                    heard.append(one)
        asked = [(one.index, found) for one in heard if (found := one.episode.candidates())]
        rows = several.grade([found for _, found in asked]) if asked else ()
        return heard, {index: row for (index, _), row in zip(asked, rows, strict=True)}

    def _judged(self, asked: list[_Running]) -> list[_Running]:
        """Judge the decisions that are due in trained seats, those of one game in one call. Return
        the plays but for those that could not be copied, because their code raised."""
        for name, judge in self.judges.items():
            found: list[tuple[Draft, SearchablePlay, Stream]] = []
            try:
                self._question([one for one in asked if one.episode.spec.game.name == name], found)
                if found:
                    drafts, states, streams = zip(*found, strict=True)
                    for draft, verdict in zip(drafts, judge(states, streams), strict=True):
                        draft.verdict = verdict
            finally:
                close_copies(state for _, state, _ in found)
        return [one for one in asked if one.index in self._open]

    def _question(
        self, asked: Sequence[_Running], found: list[tuple[Draft, SearchablePlay, Stream]]
    ) -> None:
        """Add what an oracle is to be asked of these plays; the states are copies."""
        with PluginCall(_game) as call:
            for one in asked:
                episode = one.episode
                call.now = episode.spec
                trained = episode.spec.trained
                try:
                    for draft in episode.asked:
                        if trained[draft.seat] and not draft.memory:
                            found.append((draft, *episode.question(draft)))
                except (GameError, AttributeError):  # no other try would do better
                    raise
                except Exception as error:
                    self._failed(one.index, one.attempt, error)

    def _failed(self, index: int, attempt: int, error: Exception) -> None:
        """Note an exception of a game's code; errors of configuration or model are raised again."""
        spec = self.specs[index]
        if isinstance(error, SparringError) and not isinstance(error, GameError | HungError):
            raise error
        lacking = lacking_error(error) if isinstance(error, AttributeError) else None
        if lacking is not None:  # another try would lack it as well
            raise lacking from error
        log.warning("Game %s of episode %d failed: %r", spec.game.name, spec.episode_id, error)
        episode = self._open.pop(index, None)
        if episode is not None:
            episode.close()
        self.running -= 1
        # what hung once would hang again
        if attempt < self.retries and not isinstance(error, HungError):
            self.retried += 1
            self._waiting.append((index, attempt + 1))
        else:
            self.dropped.add(spec.group_id)
            self.failures.append(" ".join(f"{type(error).__name__}: {error}".split())[:REASON])


_NONE = Reply(text="")  # stands where none is there yet


def _game(spec: EpisodeSpec) -> str:
    return named("environments", spec.game.name)


MOST_REASONS = 3  # that a message names


@dataclass(frozen=True, slots=True)
class RolloutCounts:
    """What went wrong and was handled: plays begun anew, groups given up; and what judging took."""

    retried: int = 0
    dropped_groups: frozenset[int] = frozenset()
    judging: float = field(default=0.0, compare=False)  # seconds
    scored: tuple[Any, ...] = ()  # of plays that were scored again; see ``engine.logprob_check``
    # why plays were given up, an entry each; not known of plays on workers
    failures: tuple[str, ...] = field(default=(), compare=False)

    def __add__(self, other: RolloutCounts) -> RolloutCounts:
        return RolloutCounts(
            self.retried + other.retried,
            self.dropped_groups | other.dropped_groups,
            self.judging + other.judging,
            self.scored + other.scored,
            self.failures + other.failures,
        )

    def reasons(self) -> str:
        """Return the commonest reasons for giving up plays, as sentences that begin with a space;
        "" where none is known.
        """
        commonest = Counter(self.failures).most_common(MOST_REASONS)
        return "".join(f" {count} x {reason.rstrip('.')}." for reason, count in commonest)


class Rollout(NamedTuple):
    """What a rollout gave: the episodes in the order of the specs, and what was handled."""

    episodes: list[Episode]
    counts: RolloutCounts

    def some(self) -> Rollout:
        """Return it, unless nothing is left of it.

        Raises:
            RolloutError: every group failed.
        """
        lost = len(self.counts.dropped_groups)
        if lost and not self.episodes:
            raise RolloutError(
                f"All {lost} groups failed beyond their retries (rollout.retries)."
                f"{self.counts.reasons()} The log says why each game failed."
            )
        return self

    def whole(self, games: int) -> list[Episode]:
        """Return the episodes if all games are there.

        Args:
            games: that were to be played.

        Raises:
            RolloutError: some are missing.
        """
        missing = games - len(self.episodes)
        if missing:
            raise RolloutError(
                f"{missing} of {games} plays are missing, as {len(self.counts.failures)} could not "
                f"begin or go on.{self.counts.reasons()} Mend the environment, or let fewer plays "
                "run at once (in_flight)."
            )
        return self.episodes


@dataclass(frozen=True, slots=True)
class Begun:
    """Games that have begun.

    Args:
        result: waits for them and returns their rollout; to be called once.
        there: whether it would return at once.
    """

    result: Callable[[], Rollout]
    there: Callable[[], bool] = bool  # False: they are played when they are asked for


def with_results(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the episodes that have a result: none in which a conversation outgrew the context."""
    return [episode for episode in episodes if not episode.has_outgrown_context]


def play(
    specs: Sequence[EpisodeSpec], agents: Mapping[str, Agent], **options: Any
) -> list[Episode]:
    """Return the episodes of ``rollout``.

    Args:
        specs: the games to play.
        agents: the agents by the text forms of the players in the specs.
        options: as ``rollout`` has them.

    Raises:
        RolloutError: every group failed.
        HungError: as for ``rollout``.
    """
    return rollout(specs, agents, **options).some().episodes


def rollout(
    specs: Sequence[EpisodeSpec],
    agents: Mapping[str, Agent],
    *,
    in_flight: int = 4096,
    retries: int = 2,
    on_finished: Callable[[int], None] | None = None,
    judges: Mapping[str, Judge] | None = None,
    candidates: Candidates | None = None,
    between: Callable[[], None] | None = None,
) -> Rollout:
    """Play all games to their ends.

    Args:
        specs: the games to play.
        agents: the agents by the text forms of the players in the specs.
        in_flight: how many games run at the same time.
        retries: how often a game that failed (its code raised) begins anew, with the same seed in a
            fresh state.
        on_finished: called with the number of games that have ended, when some have.
        judges: by the name of a game, who judges the decisions of its trained seats where the play
            stands, those that are due at one time in one call.
        candidates: how many replies trained seats give to each prompt, and which is played; None:
            one.
        between: called where no reply is awaited, before players are asked for their next ones;
            they may be given other weights then.

    Returns:
        The episodes of all groups that could be completed, and the counts. A group with a game that
        failed beyond its retries is left out as a whole, since leaving out single games would bias
        what is learned.

    Raises:
        HungError: a player gives no reply within the limit of ``call_seconds``.
    """
    with paused_collector():
        loop = PlayLoop(specs, agents, in_flight, retries, judges or {}, candidates)
        loop.run(on_finished, between)
    dropped = loop.dropped
    kept = [
        loop.finished[index]
        for index in sorted(loop.finished)
        if loop.finished[index].group_id not in dropped
    ]
    failures = tuple(loop.failures)
    return Rollout(kept, RolloutCounts(loop.retried, frozenset(dropped), failures=failures))


T = TypeVar("T")
Asking = Generator[list[EpisodeSpec], Rollout, T]


def answered(asking: Asking[T], play: Callable[[list[EpisodeSpec]], Rollout]) -> T:
    """Return what work comes to, its games played as soon as it asks for them.

    Args:
        asking: the work.
        play: plays games.
    """
    try:
        wanted = next(asking)
        while True:
            wanted = asking.send(play(wanted))
    except StopIteration as done:
        result: T = done.value
        return result
