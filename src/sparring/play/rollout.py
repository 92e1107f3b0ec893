"""Many plays at once, none of which waits for another.

A play goes on as soon as the replies to its own moment are there. What is due at one time is asked
in one call per player, so that a sampler gets batches as large as there are plays to go on; players
that may be asked together (``players.base``) share one call.

Every play has streams of its own, so what is drawn for it does not depend on the order in which
replies come or plays finish, nor on how many are in flight. With a sampler that is ``invariant``
neither does a bit of its log-probabilities.

Work that asks for plays, and goes on when it has them: a generator.

It yields the games that it wants, and is sent their rollout. Whoever runs it decides when and where
they are played: at once, as ``answered`` does, or by workers, while other work goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from sparring.core.errors import RolloutError
from sparring.core.process import paused_collector
from sparring.core.records import Episode
from sparring.play.episode import Candidates
from sparring.play.play_loop import Judge as Judge
from sparring.play.play_loop import PlayLoop
from sparring.play.players.base import Agent
from sparring.play.spec import EpisodeSpec

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
