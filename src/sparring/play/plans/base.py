"""Rollout plans: where the episodes of a group begin, at the initial state or in another episode.

A plan is called in waves, once per wave for every group of several episodes. The plan gets
the number of remaining episodes and the finished episodes. The plan returns where the next episodes
begin. An episode that begins in the middle of another replays the earlier turns with their tokens
and log-probabilities; the chance outcomes of the deal stay. When a plan returns nothing, the
remaining episodes begin at the initial state. So the number of episodes does not depend on the
plan, and the stream of each episode depends only on the results of the plan.

Metrics, if episodes of a plan wait for later waves:
    branches                mean number of episodes per group that began in the middle of another
    shared_turns            share of the trained turns that were replayed from another episode of
                            the group, and not sampled
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import Episode
from sparring.play.episode import first_of_moment
from sparring.play.rollout import EpisodeRequests, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec


class Origin(NamedTuple):
    """Where an episode begins: before turn ``turn`` of episode ``parent`` of its group."""

    parent: int
    turn: int  # index among the turns of all seats


FRESH = Origin(-1, 0)  # the initial state


class PlannedEpisode(NamedTuple):
    """A finished episode of a group, and its origin."""

    origin: Origin
    episode: Episode

    @property
    def decisions(self) -> list[int]:
        """The indices of the trained seats' turns among all turns, in order of play."""
        trained = self.episode.trained
        return [index for index, turn in enumerate(self.episode.turns) if trained[turn.seat]]


def check_output(
    plan: BoundPlugin, origins: Any, num_left: int, episodes: Sequence[PlannedEpisode], *stream: Any
) -> None:
    """Check the result of a plan, after every call.

    Raises:
        PluginError: an origin is not a turn of a finished episode.
    """
    if not isinstance(origins, Sequence) or not all(
        isinstance(origin, Origin) for origin in origins
    ):
        raise PluginError(f"The {plan} must return a list of Origin; it returned {origins!r:.100}.")
    for origin in origins:
        if origin.turn and not (
            0 <= origin.parent < len(episodes)
            and 0 < origin.turn <= len(episodes[origin.parent].episode.turns)
        ):
            raise PluginError(
                f"The {plan} begins an episode at {origin}, which is not a turn of the "
                f"{len(episodes)} finished episodes; take Origin(index of an episode, turn)."
            )


def play_planned(
    plan: BoundPlugin, specs: Sequence[EpisodeSpec], *, group_size: int, progress: float = 0.0
) -> EpisodeRequests[tuple[Rollout, dict[str, float]]]:
    """Request the episodes of all groups by a plan, wave by wave.

    Args:
        plan: called with the number of remaining episodes, the finished episodes and a stream of
            the group; returns the origins of the next episodes. All others wait for a later wave.
        specs: the episodes, group after group. Episode n of a group has the streams of the group's
            n-th spec.
        group_size: episodes per group.
        progress: finished share of the run, for schedules of the plan.

    Returns:
        The rollout with the episodes in the order of ``specs``, and the metrics of the module's
        docstring.

    Raises:
        RolloutError: every group failed.
    """
    groups = [
        _Group(specs[start : start + group_size]) for start in range(0, len(specs), group_size)
    ]
    counts = RolloutCounts()
    while wave := [spec for group in groups for spec in group.next_specs(plan, progress)]:
        rollout = yield wave
        counts += rollout.counts
        finished_episodes = {episode.episode_id: episode for episode in rollout.episodes}
        for group in groups:
            group.add_finished(finished_episodes)
    complete_groups = [group for group in groups if group.is_complete(counts)]
    episodes = [planned.episode for group in complete_groups for planned in group.episodes]
    return Rollout(episodes, counts).require_any(), _metrics(complete_groups)


class _Group:
    """The finished and requested episodes of one group."""

    def __init__(self, specs: Sequence[EpisodeSpec]) -> None:
        self.specs = specs
        self.episodes: list[PlannedEpisode] = []
        self.has_waited = False  # whether an episode waited for a later wave
        self._requested: list[Origin] = []
        self._has_failed = False

    def next_specs(self, plan: BoundPlugin, progress: float) -> list[EpisodeSpec]:
        """Return the specs of the group's next episodes; [] if all are played, or one failed."""
        num_left = len(self.specs) - len(self.episodes)
        if not num_left or self._has_failed:
            return []
        if len(self.specs) == 1:  # there is no other episode to begin in
            self._requested = [FRESH]
            return [self.specs[0]]
        stream = self.specs[0].stream.child("plan")
        origins: Sequence[Origin] = plan(num_left, tuple(self.episodes), stream, progress=progress)
        self._requested = list(origins[:num_left]) or [FRESH] * num_left
        self.has_waited |= len(self._requested) < num_left
        return [
            self._spec_from_origin(index, origin)
            for index, origin in enumerate(self._requested, start=len(self.episodes))
        ]

    def _spec_from_origin(self, index: int, origin: Origin) -> EpisodeSpec:
        if origin.turn == 0:
            return self.specs[index]
        turns = self.episodes[origin.parent].episode.turns
        return replace(
            self.specs[index],
            prefix=turns[: first_of_moment(turns, origin.turn)],  # up to a complete moment
        )

    def add_finished(self, finished_episodes: Mapping[int, Episode]) -> None:
        """Add the requested episodes; the group has failed if one of them is missing."""
        episodes = [
            finished_episodes.get(spec.episode_id)
            for spec in self.specs[len(self.episodes) :][: len(self._requested)]
        ]
        self._has_failed |= None in episodes
        self.episodes += [
            PlannedEpisode(origin, episode)
            for origin, episode in zip(self._requested, episodes, strict=True)
            if episode is not None
        ]
        self._requested = []

    def is_complete(self, counts: RolloutCounts) -> bool:
        return (
            len(self.episodes) == len(self.specs)
            and self.specs[0].group_id not in counts.dropped_groups
        )


def _metrics(groups: Sequence[_Group]) -> dict[str, float]:
    """Return the metrics of the module's docstring; {} if no episode waited for a later wave."""
    if not any(group.has_waited for group in groups):
        return {}
    episodes = [planned for group in groups for planned in group.episodes]
    num_shared = sum(
        turn < planned.origin.turn for planned in episodes for turn in planned.decisions
    )
    return {
        "branches": sum(planned.origin.turn > 0 for planned in episodes) / len(groups),
        "shared_turns": num_shared / max(sum(len(planned.decisions) for planned in episodes), 1),
    }
