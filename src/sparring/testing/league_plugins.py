"""What the plug-ins of a league must keep: keeping rules, matchmakers, meta-solvers, schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparring.config.plugins.registry import Bound
from sparring.core.errors import GameError
from sparring.core.records import (
    LEARNER,
    EnvironmentSpec,
    FloatArray,
    PlayerRef,
    ref,
    refs,
    snapshot,
)
from sparring.core.rng import Stream
from sparring.league.keeping.base import KeepRequest
from sparring.league.matchmakers.base import MatchRequest
from sparring.league.meta_game import MetaGame, of_matrix
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.league.schedules.base import ScheduleRequest
from sparring.testing.bound_plugin import bound, same

MOST_SNAPSHOTS = 9  # snapshots that are asked about


def keep_request(
    steps: Sequence[int], keep: int, *, payoffs: Payoffs | None = None, seed: int = 0
) -> KeepRequest:
    """Return a question to a keeping rule, for tests.

    Args:
        steps: that the snapshots were taken at, ascending; the last one is new.
        keep: how many may stay.
        payoffs: the payoff book; None: an empty one. The environment's label is "kuhn_poker".
        seed: of what the rule draws.
    """
    return KeepRequest(
        members=tuple(map(snapshot, steps)),
        keep=keep,
        payoffs=payoffs or Payoffs(),
        step=steps[-1],
        stream=Stream.from_seed(seed),
    )


def check_keeping(
    rule: Callable[..., Any] | Bound, *, requests: int = 200, seed: int = 0, **options: Any
) -> None:
    """Check a keeping rule on up to nine snapshots, with results of any kind.

    It keeps at least one, at most as many as may stay, and all of them where they may; it names
    snapshots that there are, each once; it answers the same when it is asked the same.

    Args:
        rule: the function, or the plug-in bound.
        requests: how many are tried.
        seed: of these, and of what the rule draws.
        options: of the function.

    Raises:
        AssertionError: it keeps none, lets one go without need, or answers otherwise when it is
            asked again.
        PluginError: it raised, or gave what a run refuses.
    """
    plugin = bound("league.keeping", rule, options)
    for number in range(requests):
        request = _request(Stream.from_seed(seed).child("keeping").child(number), seed)
        members = plugin(request)
        suffix = f"of the snapshots of steps {request.steps}, of which {request.keep} may stay"
        assert members, f"The {plugin} keeps none {suffix}."
        assert len(request.members) > request.keep or set(members) == set(request.members), (
            f"The {plugin} keeps {', '.join(map(str, members))} {suffix}; all may stay."
        )
        same(
            members,
            plugin(request),
            f"The {plugin} must answer the same when it is asked the same",
        )


def _request(stream: Stream, seed: int) -> KeepRequest:
    """Return a question that is drawn: snapshots, how many may stay, and results."""
    count = 1 + stream.integer(0, MOST_SNAPSHOTS)
    steps = [0] * count
    for place in range(count):
        steps[place] = (
            (steps[place - 1] if place else 0) + 1 + stream.child("gap").integer(place, 50)
        )
    rows = {}
    has_results = stream.child("met").integer(0, 5) > 0  # else the book is empty
    for place, step in enumerate(steps if has_results else ()):
        wins, losses = (stream.child(name).integer(place, 5) for name in ("wins", "losses"))
        if wins + losses:
            results = Results(
                games=wins + losses, wins=wins, losses=losses, returns=float(wins - losses)
            )
            rows[Row("kuhn_poker", 0, LEARNER, snapshot(step))] = results
    keep = 1 + stream.child("keep").integer(0, MOST_SNAPSHOTS)
    return keep_request(steps, keep, payoffs=Payoffs(rows), seed=seed)


MEMBERS = refs(("past-000010", "past-000020", "past-000030"))
TAGS = {"main": "main", "counter": "exploiter"}  # of a league of two learners
LEAGUE = refs(("past-counter-000010", "past-counter-000030"))
TEAMS = ((0,), (0, 1), (0, 0), (0, 1, 2), (0, 1, 0, 1), (0, 1, 2, 3))  # of one to four seats


def match_request(
    seats: int = 2,
    *,
    members: Sequence[PlayerRef | str] = (),
    teams: Sequence[int] | None = None,
    payoffs: Payoffs | None = None,
    number: int = 0,
    seed: int = 0,
    learner: PlayerRef | str = LEARNER,
    tags: Mapping[str, str] | None = None,
) -> MatchRequest:
    """Return a question to a matchmaker, for tests.

    Args:
        seats: how many there are.
        members: snapshots, oldest first.
        teams: the team of each seat; None: each is one of its own.
        payoffs: the payoff book; None: an empty one. The environment's label is "kuhn_poker".
        number: of the initial state, counted over the run.
        seed: of what the matchmaker draws, together with ``number``.
        learner: who is to learn.
        tags: tag of each policy that learns in the league, by its name; None: one learns.
    """
    return MatchRequest(
        environment=EnvironmentSpec(name="kuhn_poker"),
        roles=tuple(f"role {seat}" for seat in range(seats)),
        teams=tuple(range(seats)) if teams is None else tuple(teams),
        members=refs(members),
        payoffs=payoffs or Payoffs(),
        step=number // 10,
        number=number,
        stream=Stream.from_seed(seed).child(number),
        learner=ref(learner),
        tags=dict(tags or {}),
    )


def check_matchmaker(
    matchmaker: Callable[..., Any] | Bound, *, starts: int = 200, seed: int = 0, **options: Any
) -> None:
    """Check a matchmaker on initial states of one to four seats.

    There are teams and none, snapshots and none, results of any kind and none, one learner and a
    league of several. It fills every seat with a learner, a snapshot that there is, or a bot; it
    trains the learner that is asked for, in at least one seat; it answers the same when it is asked
    the same.

    Args:
        matchmaker: the function, or the plug-in bound.
        starts: how many are tried.
        seed: of what the matchmaker draws.
        options: of the function.

    Raises:
        AssertionError: it trains no seat, or answers otherwise when it is asked again.
        PluginError: it raised, returned no Seating, or one that a run refuses.
    """
    plugin = bound("league.matchmakers", matchmaker, options)
    for number in range(starts):
        teams, kind = TEAMS[number % len(TEAMS)], number // len(TEAMS) % 3
        several = kind > 0
        members = [*MEMBERS, *LEAGUE] if several else MEMBERS
        request = match_request(
            len(teams),
            members=members[: number // len(TEAMS) % (len(members) + 1)],
            teams=teams,
            payoffs=_matches(Stream.from_seed(seed).child("payoffs").child(number)),
            number=number,
            seed=seed,
            learner=LEARNER.of(list(TAGS)[kind - 1]) if several else LEARNER,
            tags=TAGS if several else None,
        )
        seating = plugin(request)
        pairs = zip(seating.trained, seating.players, strict=True)
        assert any(trained and who == request.learner for trained, who in pairs), (
            f"The {plugin} trains {request.learner} in no seat of start {number}: "
            f"{', '.join(map(str, seating.seats))}. Seat request.learner."
        )
        same(
            seating,
            plugin(request),
            f"The {plugin} must answer the same when it is asked the same",
        )


def _matches(stream: Stream) -> Payoffs:
    rows = {}
    for number, member in enumerate(MEMBERS):
        wins, draws, losses = (stream.child(number).integer(draw, 4) for draw in range(3))
        if wins + draws + losses:
            results = Results(
                games=wins + draws + losses,
                wins=wins,
                draws=draws,
                losses=losses,
                returns=float(wins - losses),
            )
            rows[Row("kuhn_poker", 0, LEARNER, member)] = results
    return Payoffs(rows)


MOST_MEMBERS = 5  # members of a side that are asked about


def check_meta_solver(
    solver: Callable[..., Any] | Bound, *, games: int = 40, seed: int = 0, **options: Any
) -> None:
    """Check a meta-solver on meta-games of one to five members a side.

    Of a symmetric one of payoffs in [-1, 1] that sum to 0 it gives distributions. Of others, of two
    sides or three, it does so too, or says by GameError what it is for. It answers the same when it
    is asked the same, and changes no payoffs.

    Args:
        solver: the function, or the plug-in bound.
        games: how many are tried.
        seed: of their payoffs.
        options: of the function.

    Raises:
        AssertionError: it changed payoffs, or answers otherwise when it is asked again.
        GameError: it refuses a symmetric meta-game of payoffs that sum to 0.
        PluginError: it raised something else, or gave no distributions.
    """
    plugin = bound("league.meta_solvers", solver, options)
    for number in range(games):
        stream = Stream.from_seed(seed).child("meta-games").child(number)
        draws, top = stream.child("payoffs"), MOST_MEMBERS
        if number % 3 == 0:  # of one population; some payoffs are equal
            size = 1 + stream.integer(0, top)
            half = np.triu(_cells(draws, (size, size)), 1)
            game = of_matrix(half - half.T)
        elif number % 3 == 1:  # of two, the second pays what the first earns
            rows, columns = 1 + stream.integer(0, top), 1 + stream.integer(1, top)
            game = of_matrix(1000 * _cells(draws, (rows, columns)))
        else:
            shape = tuple(1 + stream.integer(side, 3) for side in range(2 + stream.integer(9, 2)))
            tables = (_cells(draws.child(side), shape) for side in range(len(shape)))
            game = MetaGame(payoffs=tuple(tables))
        before = [table.copy() for table in game.payoffs]
        try:
            first, second = plugin(game), plugin(game)
        except GameError:
            if game.symmetric:
                raise
            continue
        pairs = zip((*first.sides, first.joint), (*second.sides, second.joint), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs), (
            f"The {plugin} must answer the same when it is asked the same."
        )
        assert all(map(np.array_equal, before, game.payoffs)), (
            f"The {plugin} must not change the payoffs that it is given."
        )


def _cells(stream: Stream, shape: tuple[int, ...]) -> FloatArray:
    """Return payoffs in [-1, 1], fifths, of which many are equal."""
    count = int(np.prod(shape))
    return np.array([stream.integer(cell, 11) / 5 - 1 for cell in range(count)]).reshape(shape)


SCHEDULE_MEMBERS = refs(("past-000000", "past-000010", "past-counter-000010"))


def schedule_request(
    age: int,
    every: int = 10,
    *,
    learner: PlayerRef | str = LEARNER,
    members: Sequence[PlayerRef | str] = (),
    tags: Mapping[str, str] | None = None,
    payoffs: Payoffs | None = None,
    returns: Sequence[float] = (),
) -> ScheduleRequest:
    """Return a question to a schedule, for tests.

    Args:
        age: steps since the last snapshot.
        every: ``league.every``.
        learner: of whom it is asked.
        members: snapshots, oldest first.
        tags: tag of each policy that learns in the league, by its name; None: one learns.
        payoffs: the payoff book; None: an empty one.
        returns: mean return of each step since the last snapshot.
    """
    return ScheduleRequest(
        age=age,
        every=every,
        learner=ref(learner),
        members=refs(members),
        tags=dict(tags or {"main": "main"}),
        payoffs=payoffs or Payoffs(),
        returns=tuple(returns),
    )


def check_schedule(
    schedule: Callable[..., Any] | Bound, *, requests: int = 200, seed: int = 0, **options: Any
) -> None:
    """Check a schedule on ages up to ten times ``league.every``, with results of any kind.

    It answers yes or no, the same when it is asked the same, and yes some time: a learner that
    grows old becomes a member.

    Args:
        schedule: the function, or the plug-in bound.
        requests: how many are tried.
        seed: of these.
        options: of the function.

    Raises:
        AssertionError: it answers otherwise when it is asked again, or never yes.
        PluginError: it raised, or gave what a run refuses.
    """
    plugin, due = bound("league.schedules", schedule, options), False
    for number in range(requests):
        stream = Stream.from_seed(seed).child("schedule").child(number)
        every = 1 + stream.integer(0, 9)
        age = 1 + stream.integer(1, 10 * every)
        request = schedule_request(
            age,
            every,
            learner=LEARNER.of(list(TAGS)[number % 2]),
            members=SCHEDULE_MEMBERS[: stream.integer(2, len(SCHEDULE_MEMBERS) + 1)],
            tags=TAGS,
            payoffs=_results(stream.child("payoffs")),
            returns=[stream.child("returns").uniform(step) for step in range(age)],
        )
        answer = plugin(request)
        same(
            answer,
            plugin(request),
            f"The {plugin} must answer the same when it is asked the same",
        )
        due = due or answer
    assert due, f"The {plugin} takes no snapshot in {requests} questions, however old the last is."


def _results(stream: Stream) -> Payoffs:
    rows = {}
    for number, name in enumerate(TAGS):
        for place, other in enumerate((*SCHEDULE_MEMBERS, *map(LEARNER.of, TAGS))):
            draws = stream.child(number).child(place)
            wins, losses = draws.integer(0, 60), draws.integer(1, 60)
            if wins + losses:
                results = Results(games=wins + losses, wins=wins, losses=losses)
                rows[Row("kuhn_poker", 0, LEARNER.of(name), other)] = results
    return Payoffs(rows)
