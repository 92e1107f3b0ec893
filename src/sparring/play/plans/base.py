"""How the games of a group come about.

Each from the start, or some from the middle of others, as a plan says.

A plan is asked in waves, once per wave and group of several games: so many games are left, these
are finished, where do the next ones begin? A game that begins in the middle takes over the turns
before that place as they were, tokens and log-probabilities included, and chance goes on as dealt:
it is the game that a member of the group would have played had it gone the same way so far. When a
plan wants nothing more, the games that are left begin at the start. So every plan plays as many
games as there would be without one, and which game is played on which stream is a function of the
plan's answers alone, whatever is in flight.

Metrics, where a plan holds games back for later waves:
    branches                games per group that began in the middle of another, mean
    shared_turns            share of the trained turns that were taken over from another game of the
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
from sparring.play.rollout import Asking, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec


class Origin(NamedTuple):
    """Where a game begins: before turn number ``turn`` of game number ``parent`` of its group."""

    parent: int
    turn: int  # of all seats' turns


FRESH = Origin(-1, 0)  # the start


class PlannedGame(NamedTuple):
    """A finished game of a group, and where it began."""

    origin: Origin
    episode: Episode

    @property
    def decisions(self) -> list[int]:
        """The places of the trained seats' turns among all turns, in order of play."""
        trained = self.episode.trained
        return [place for place, turn in enumerate(self.episode.turns) if trained[turn.seat]]


def check_output(
    plan: BoundPlugin, wanted: Any, left: int, games: Sequence[PlannedGame], *stream: Any
) -> None:
    """Check that a plan has given places in the games that are finished.

    Every call of one ends here.

    Raises:
        PluginError: it gave something else.
    """
    if not isinstance(wanted, Sequence) or not all(isinstance(origin, Origin) for origin in wanted):
        raise PluginError(f"The {plan} must return a list of Origin; it returned {wanted!r:.100}.")
    for origin in wanted:
        if origin.turn and not (
            0 <= origin.parent < len(games)
            and 0 < origin.turn <= len(games[origin.parent].episode.turns)
        ):
            raise PluginError(
                f"The {plan} begins a game at {origin}, which is in none of the {len(games)} "
                "games that are finished."
            )


def play_planned(
    plan: BoundPlugin, specs: Sequence[EpisodeSpec], *, group_size: int, progress: float = 0.0
) -> Asking[tuple[Rollout, dict[str, float]]]:
    """Ask for the games of all groups as a plan says; see ``rollout.play``.

    Return their episodes in the order of ``specs`` with the counts, and the figures listed above.

    Args:
        plan: asked for each group, wave by wave, where its next games begin: called with the number
            of games left, the finished ones and a stream of the group's own, it returns origins.
            Fewer than are left hold games back; none lets the rest begin at the start.
        specs: the games, the members of a group next to each other. Game number n of a group keeps
            the streams of its n-th spec.
        group_size: games per group.
        progress: share of the run that is done, for schedules of the plan.

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
    whole = [group for group in groups if group.whole(counts)]
    episodes = [game.episode for group in whole for game in group.games]
    return Rollout(episodes, counts).some(), _metrics(whole)


class _Group:
    """The games of one group as they come about."""

    def __init__(self, specs: Sequence[EpisodeSpec]) -> None:
        self.specs = specs
        self.games: list[PlannedGame] = []
        self.held_back = False
        self._asked: list[Origin] = []
        self._lost = False

    def due(self, plan: BoundPlugin, progress: float) -> list[EpisodeSpec]:
        """Return the group's next games; none when all are played, or it failed."""
        left = len(self.specs) - len(self.games)
        if not left or self._lost:
            return []
        if len(self.specs) == 1:  # there is no other game that it could begin in
            self._asked = [FRESH]
            return [self.specs[0]]
        stream = self.specs[0].stream.child("plan")
        wanted: Sequence[Origin] = plan(left, tuple(self.games), stream, progress=progress)
        self._asked = list(wanted[:left]) or [FRESH] * left
        self.held_back |= len(self._asked) < left
        return [
            self._spec(number, origin)
            for number, origin in enumerate(self._asked, start=len(self.games))
        ]

    def _spec(self, number: int, origin: Origin) -> EpisodeSpec:
        """Return game number ``number`` of the group as it is to be played."""
        if origin.turn == 0:
            return self.specs[number]
        turns = self.games[origin.parent].episode.turns
        return replace(
            self.specs[number],
            prefix=turns[: moment_begin(turns, origin.turn)],  # what is taken at once is kept whole
        )

    def take(self, finished: Mapping[int, Episode]) -> None:
        """Take in the games that were asked for; without one of them the group is lost."""
        found = [
            finished.get(spec.episode_id)
            for spec in self.specs[len(self.games) :][: len(self._asked)]
        ]
        self._lost |= None in found
        self.games += [
            PlannedGame(origin, game)
            for origin, game in zip(self._asked, found, strict=True)
            if game is not None
        ]
        self._asked = []

    def whole(self, counts: RolloutCounts) -> bool:
        return (
            len(self.games) == len(self.specs)
            and self.specs[0].group_id not in counts.dropped_groups
        )


def _metrics(groups: Sequence[_Group]) -> dict[str, float]:
    """Return the figures listed above; none where every plan began all its games at once."""
    if not any(group.held_back for group in groups):
        return {}
    games = [game for group in groups for game in group.games]
    shared = sum(place < game.origin.turn for game in games for place in game.decisions)
    return {
        "branches": sum(game.origin.turn > 0 for game in games) / len(groups),
        "shared_turns": shared / max(sum(len(game.decisions) for game in games), 1),
    }
