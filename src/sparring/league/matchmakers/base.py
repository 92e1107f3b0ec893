"""Matchmakers: their input, their result, and functions that they share."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar, cast

from sparring.config.plugins import registry
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError, nearest
from sparring.core.records import LEARNER as LEARNER
from sparring.core.records import MAIN, EnvironmentSpec, PlayerRef, ref, refs
from sparring.core.rng import Stream
from sparring.environments.base import seats_by_player
from sparring.league.payoffs import Payoffs, Results
from sparring.play.players.mixture import Mixture

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchRequest:
    """The input of a matchmaker: one initial state, whose episodes share the seating.

    Args:
        environment: the environment to be played.
        roles: name of the role of each seat, [num_seats].
        teams: number of the team of each seat, [num_seats].
        members: snapshots, oldest first; may be empty.
        payoffs: the payoff book, up to the previous step.
        bots: names of the run's ``bots``; these and all player plug-ins may be seated.
        step: number of steps done.
        number: number of the initial state in the whole run; used to balance seats.
        stream: the stream of all draws.
        policies: name of the learner's policy in each seat, [num_seats]; (): ``main`` in all.
        learns: whether the policy of each seat is trained, [num_seats]; (): all are trained.
        learner: the player to be trained: ``LEARNER``, or one of several learners in a league.
        tags: tag of each policy that learns in the league, by its name; {}: one policy learns.
    """

    environment: EnvironmentSpec
    roles: tuple[str, ...]
    teams: tuple[int, ...]
    members: Sequence[PlayerRef]
    payoffs: Payoffs = field(default_factory=Payoffs)
    bots: tuple[str, ...] = ()
    step: int = 0
    number: int
    stream: Stream
    policies: tuple[str, ...] = ()
    learns: tuple[bool, ...] = ()
    learner: PlayerRef = LEARNER
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", refs(self.members))

    @property
    def other_learners(self) -> tuple[PlayerRef, ...]:
        """The other learners of the league."""
        return tuple(
            player for player in map(LEARNER.for_policy, self.tags) if player != self.learner
        )

    def tag(self, player: PlayerRef) -> str:
        """Return the tag of a learner or snapshot: the tag of its policy, or the policy's name."""
        return self.tags.get(player.name or MAIN, player.name or MAIN)

    @property
    def num_seats(self) -> int:
        """Number of seats."""
        return len(self.roles)

    @property
    def sides(self) -> tuple[tuple[int, ...], ...]:
        """The seats of each player: the seats of a team, or single seats if all are one team."""
        return seats_by_player(tuple(self.teams))

    @property
    def trained_sides(self) -> tuple[tuple[int, ...], ...]:
        """The sides with a trained policy; all sides if no policy is trained."""
        learns = self.learns or (True,) * self.num_seats
        return tuple(side for side in self.sides if any(learns[s] for s in side)) or self.sides

    def results(self, opponent: PlayerRef) -> Results:
        """Return the learner's results against a player in this environment, from any seat."""
        return self.payoffs.results(self.learner, opponent, environment=self.label)

    @property
    def label(self) -> str:
        """The environment's name in records."""
        return self.environment.label or self.environment.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Seating:
    """The player of each seat, and whether it is trained there."""

    seats: Sequence[PlayerRef | str | Mixture]  # [num_seats]; names become references
    trained: tuple[bool, ...]  # [num_seats]

    def __post_init__(self) -> None:
        object.__setattr__(self, "seats", _as_references(self.seats))

    @property
    def players(self) -> tuple[PlayerRef | Mixture, ...]:
        """The player of each seat, [num_seats]."""
        return cast("tuple[PlayerRef | Mixture, ...]", self.seats)


def _as_references(seats: Sequence[PlayerRef | str | Mixture]) -> tuple[PlayerRef | Mixture, ...]:
    if isinstance(seats, Sequence) and any(isinstance(player, Mixture) for player in seats):
        return tuple(player if isinstance(player, Mixture) else ref(player) for player in seats)
    names: Any = seats
    return refs(names)


def self_play(request: MatchRequest) -> Seating:
    """Return a seating with the learner in every seat, trained in all of them."""
    return Seating(
        seats=(request.learner,) * request.num_seats, trained=(True,) * request.num_seats
    )


def seat_vs(request: MatchRequest, opponent: Callable[[int], PlayerRef]) -> Seating:
    """Return a seating with the learner in one side, and opponents in all other sides.

    The learner's side rotates from one initial state to the next, and only this side is trained.

    Args:
        request: the input of the matchmaker.
        opponent: returns the player of a side, given the side's first seat.
    """
    learner_side = request.trained_sides[request.number % len(request.trained_sides)]
    seats = dict.fromkeys(range(request.num_seats), request.learner)
    for side in request.sides:
        if side != learner_side:
            seats.update(dict.fromkeys(side, opponent(side[0])))
    trained = tuple(seat in learner_side for seat in range(request.num_seats))
    return Seating(seats=tuple(seats[seat] for seat in range(request.num_seats)), trained=trained)


def draw_member(members: Sequence[T], weights: Sequence[float], draw: float) -> T:
    """Return the member at the quantile ``draw`` of the weights; ``draw`` is in [0, 1)."""
    ends = list(accumulate(weights))
    return members[bisect(ends, min(draw * ends[-1], math.nextafter(ends[-1], 0.0)))]


def check_output(matchmaker: BoundPlugin, seating: Any, request: MatchRequest) -> None:
    """Check the result of a matchmaker, after every call.

    Raises:
        PluginError: the result does not fill every seat with a player that exists.
    """
    if not isinstance(seating, Seating):
        raise PluginError(
            f"The {matchmaker} must return a Seating; it returned {type(seating).__name__}."
        )
    if not len(seating.seats) == len(seating.trained) == request.num_seats:
        counts_text = (
            f"{len(seating.seats)} seats and {len(seating.trained)} values for whether they are "
            "trained"
        )
        raise PluginError(
            f"The {matchmaker} must fill {request.num_seats} seats here; it returned {counts_text}."
        )
    for seat, (player, is_trained) in enumerate(zip(seating.players, seating.trained, strict=True)):
        if player is LEARNER or player is request.learner:
            continue  # the learner always exists
        players = player.shares(request.members) if isinstance(player, Mixture) else (player,)
        for member in players:
            if not _exists(member, request):
                raise PluginError(
                    f"The {matchmaker} put {str(member)!r} into seat {seat}, and there is no such "
                    f"player. {_advice(member, request)}"
                )
        if is_trained and (isinstance(player, Mixture) or player.for_policy(MAIN) != LEARNER):
            learners = (request.learner, *request.other_learners)
            raise PluginError(
                f"The {matchmaker} trains {str(player)!r} in seat {seat}; only "
                f"{' or '.join(repr(str(learner)) for learner in learners)} is trained."
            )


def _exists(player: PlayerRef, request: MatchRequest) -> bool:
    if player.kind == "bot":
        return player.name in request.bots or registry.is_known("players", player.name)
    if request.tags:  # each policy is a player
        return player in request.members or player in (
            LEARNER,
            *map(LEARNER.for_policy, request.tags),
        )
    is_seated = player.for_policy(MAIN) == LEARNER or player.for_policy(MAIN) in request.members
    return is_seated and player.name in ("", *request.policies)


def _advice(player: PlayerRef, request: MatchRequest) -> str:
    bots = [f"bot-{name}" for name in (*request.bots, *registry.names("players"))]
    similar = nearest(
        str(player), [str(LEARNER), *map(str, (*request.other_learners, *request.members)), *bots]
    )
    suggestion = f"Did you mean {' or '.join(map(repr, similar))}? " if similar else ""
    members = ", ".join(map(str, request.members)) or "none yet"
    return (
        f"{suggestion}Seat {str(LEARNER)!r}, a snapshot of request.members ({members}), or a bot "
        "(bot-NAME; `sparring list players`)."
    )
