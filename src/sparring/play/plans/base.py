"""Rollout plans: where the games of a group begin, at the initial state or in another game.

A plan is called in waves, once per wave and group of several games, with the number of remaining
games and the finished ones; it returns where the next games begin. A game that begins in the middle
of another replays the turns before that place, with tokens and log-probabilities, and chance goes
on as dealt. When a plan returns nothing, the remaining games begin at the initial state. So the
number of games does not depend on the plan, and the stream of each game depends on the answers of
the plan alone.

Metrics, where a plan holds games back for later waves:
    branches                games per group that began in the middle of another, mean
    shared_turns            share of the trained turns that were replayed from another game of the
                            group, and not sampled
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import Episode
from sparring.play.episode import moment_begin
from sparring.play.rollout import EpisodeRequests, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec


class Origin(NamedTuple):
    """The place where a game begins: before turn ``turn`` of game ``parent`` of its group."""

    parent: int
    turn: int  # of all seats' turns


FRESH = Origin(-1, 0)  # the initial state


class PlannedGame(NamedTuple):
    """A finished game of a group, and its origin."""

    origin: Origin
    episode: Episode

    @property
    def decisions(self) -> list[int]:
        """The places of the trained seats' turns among all turns, in order of play."""
        trained = self.episode.trained
        return [place for place, turn in enumerate(self.episode.turns) if trained[turn.seat]]


def check_output(
    plan: BoundPlugin, origins: Any, num_left: int, games: Sequence[PlannedGame], *stream: Any
) -> None:
    """Check the answer of a plan, after every call.

    Raises:
        PluginError: an origin is not a place in a finished game.
    """
    if not isinstance(origins, Sequence) or not all(
        isinstance(origin, Origin) for origin in origins
    ):
        raise PluginError(f"The {plan} must return a list of Origin; it returned {origins!r:.100}.")
    for origin in origins:
        if origin.turn and not (
            0 <= origin.parent < len(games)
            and 0 < origin.turn <= len(games[origin.parent].episode.turns)
        ):
            raise PluginError(
                f"The {plan} begins a game at {origin}, which is not a place in the {len(games)} "
                "finished games."
            )


def play_planned(
    plan: BoundPlugin, specs: Sequence[EpisodeSpec], *, group_size: int, progress: float = 0.0
) -> EpisodeRequests[tuple[Rollout, dict[str, float]]]:
    """Request the games of all groups by a plan, wave by wave.

    Args:
        plan: called with the number of remaining games, the finished games and a stream of the
            group; returns origins. Fewer than remain hold games back.
        specs: the games, the members of a group next to each other. Game n of a group has the
            streams of its n-th spec.
        group_size: games per group.
        progress: share of the run that is done, for schedules of the plan.

    Returns:
        The rollout with the episodes in the order of ``specs``, and the metrics listed above.

    Raises:
        RolloutError: every group failed.
    """
    groups = [
        _Group(specs[begin : begin + group_size]) for begin in range(0, len(specs), group_size)
    ]
    counts = RolloutCounts()
    while due := [spec for group in groups for spec in group.due(plan, progress)]:
        played = yield due
        counts += played.counts
        finished = {episode.episode_id: episode for episode in played.episodes}
        for group in groups:
            group.take(finished)
    complete_groups = [group for group in groups if group.is_complete(counts)]
    episodes = [game.episode for group in complete_groups for game in group.games]
    return Rollout(episodes, counts).require_any(), _metrics(complete_groups)


class _Group:
    """The games of one group, finished and requested."""

    def __init__(self, specs: Sequence[EpisodeSpec]) -> None:
        self.specs = specs
        self.games: list[PlannedGame] = []
        self.held_back = False
        self._requested: list[Origin] = []
        self._lost = False

    def due(self, plan: BoundPlugin, progress: float) -> list[EpisodeSpec]:
        """Return the group's next games; none when all are played, or one failed."""
        num_left = len(self.specs) - len(self.games)
        if not num_left or self._lost:
            return []
        if len(self.specs) == 1:  # there is no other game to begin in
            self._requested = [FRESH]
            return [self.specs[0]]
        stream = self.specs[0].stream.child("plan")
        origins: Sequence[Origin] = plan(num_left, tuple(self.games), stream, progress=progress)
        self._requested = list(origins[:num_left]) or [FRESH] * num_left
        self.held_back |= len(self._requested) < num_left
        return [
            self._spec(number, origin)
            for number, origin in enumerate(self._requested, start=len(self.games))
        ]

    def _spec(self, number: int, origin: Origin) -> EpisodeSpec:
        if origin.turn == 0:
            return self.specs[number]
        turns = self.games[origin.parent].episode.turns
        return replace(
            self.specs[number],
            prefix=turns[: moment_begin(turns, origin.turn)],  # whole moments
        )

    def take(self, finished: Mapping[int, Episode]) -> None:
        """Add the requested games; the group is lost if one of them is missing."""
        episodes = [
            finished.get(spec.episode_id)
            for spec in self.specs[len(self.games) :][: len(self._requested)]
        ]
        self._lost |= None in episodes
        self.games += [
            PlannedGame(origin, game)
            for origin, game in zip(self._requested, episodes, strict=True)
            if game is not None
        ]
        self._requested = []

    def is_complete(self, counts: RolloutCounts) -> bool:
        return (
            len(self.games) == len(self.specs)
            and self.specs[0].group_id not in counts.dropped_groups
        )


def _metrics(groups: Sequence[_Group]) -> dict[str, float]:
    """Return the metrics listed above; none if no plan held games back."""
    if not any(group.held_back for group in groups):
        return {}
    games = [game for group in groups for game in group.games]
    shared = sum(place < game.origin.turn for game in games for place in game.decisions)
    return {
        "branches": sum(game.origin.turn > 0 for game in games) / len(groups),
        "shared_turns": shared / max(sum(len(game.decisions) for game in games), 1),
    }
