"""Checks the contracts of a league's keeping rules, matchmakers, meta-solvers and schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
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
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.league.schedules.base import ScheduleRequest
from sparring.testing.bound_plugin import bind_plugin, require_equal

MAX_SNAPSHOTS = 9  # largest number of snapshots in a request


def keep_request(
    steps: Sequence[int], keep: int, *, payoffs: Payoffs | None = None, seed: int = 0
) -> KeepRequest:
    """Return a request to a keeping rule, for tests.

    Args:
        steps: steps of the snapshots, ascending; the last one is new.
        keep: number of snapshots that may stay.
        payoffs: results of matches; None: no results. The environment's label is "kuhn_poker".
        seed: seed of the rule's random draws.
    """
    return KeepRequest(
        members=tuple(map(snapshot, steps)),
        keep=keep,
        payoffs=payoffs or Payoffs(),
        step=steps[-1],
        stream=Stream.from_seed(seed),
    )


def check_keeping(
    rule: Callable[..., Any] | BoundPlugin, *, requests: int = 200, seed: int = 0, **options: Any
) -> None:
    """Check a keeping rule on random requests with up to nine snapshots.

    The rule must keep at least one snapshot, at most the allowed number, and all if all may stay;
    it must name existing snapshots, each once. Equal requests must get equal results.

    Args:
        rule: the function, or the bound plug-in.
        requests: number of requests.
        seed: seed of the requests and of the rule's draws.
        options: options of the function.

    Raises:
        AssertionError: the rule keeps no snapshot, drops a snapshot without need, or returns
            different results for equal requests.
        PluginError: the rule raised, or returned what a run does not accept.
    """
    plugin = bind_plugin("league.keeping", rule, options)
    for number in range(requests):
        request = _random_keep_request(Stream.from_seed(seed).child("keeping").child(number), seed)
        members = plugin(request)
        suffix = f"of the snapshots of steps {request.steps}, of which {request.keep} may stay"
        assert members, f"The {plugin} keeps none {suffix}."
        assert len(request.members) > request.keep or set(members) == set(request.members), (
            f"The {plugin} keeps {', '.join(map(str, members))} {suffix}; all may stay."
        )
        require_equal(members, plugin(request), f"The {plugin} must answer equal requests equally")


def _random_keep_request(stream: Stream, seed: int) -> KeepRequest:
    num_snapshots = 1 + stream.integer(0, MAX_SNAPSHOTS)
    steps = [0] * num_snapshots
    for index in range(num_snapshots):
        steps[index] = (
            (steps[index - 1] if index else 0) + 1 + stream.child("gap").integer(index, 50)
        )
    rows = {}
    has_results = stream.child("met").integer(0, 5) > 0
    for index, step in enumerate(steps if has_results else ()):
        wins, losses = (stream.child(name).integer(index, 5) for name in ("wins", "losses"))
        if wins + losses:
            results = Results(
                games=wins + losses, wins=wins, losses=losses, returns=float(wins - losses)
            )
            rows[RowKey("kuhn_poker", 0, LEARNER, snapshot(step))] = results
    keep = 1 + stream.child("keep").integer(0, MAX_SNAPSHOTS)
    return keep_request(steps, keep, payoffs=Payoffs(rows), seed=seed)


MEMBERS = refs(("past-000010", "past-000020", "past-000030"))
TAGS = {"main": "main", "counter": "exploiter"}  # tags in a league of two learners
COUNTER_MEMBERS = refs(("past-counter-000010", "past-counter-000030"))
TEAMS = ((0,), (0, 1), (0, 0), (0, 1, 2), (0, 1, 0, 1), (0, 1, 2, 3))  # one to four seats


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
    """Return a request to a matchmaker, for tests.

    Args:
        seats: number of seats.
        members: snapshots, oldest first.
        teams: team of each seat; None: each seat is a separate team.
        payoffs: results of matches; None: no results. The environment's label is "kuhn_poker".
        number: number of the initial state in the run.
        seed: seed of the matchmaker's draws, together with ``number``.
        learner: the policy that learns.
        tags: tag of each learner of the league, by its name; None: there is one learner.
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
    matchmaker: Callable[..., Any] | BoundPlugin,
    *,
    starts: int = 200,
    seed: int = 0,
    **options: Any,
) -> None:
    """Check a matchmaker on initial states of one to four seats.

    Requests are with and without teams, snapshots and results, and with one learner or several. The
    matchmaker must fill every seat with a learner, an existing snapshot or a bot, train the
    requested learner in at least one seat, and answer equal requests equally.

    Args:
        matchmaker: the function, or the bound plug-in.
        starts: number of initial states.
        seed: seed of the matchmaker's draws.
        options: options of the function.

    Raises:
        AssertionError: the matchmaker trains no seat, or answers equal requests differently.
        PluginError: the matchmaker raised, or returned no Seating that a run accepts.
    """
    plugin = bind_plugin("league.matchmakers", matchmaker, options)
    for number in range(starts):
        # learner_number 0: the only learner; 1 and 2: one of the two learners in TAGS
        teams, learner_number = TEAMS[number % len(TEAMS)], number // len(TEAMS) % 3
        has_two = learner_number > 0
        members = [*MEMBERS, *COUNTER_MEMBERS] if has_two else MEMBERS
        request = match_request(
            len(teams),
            members=members[: number // len(TEAMS) % (len(members) + 1)],
            teams=teams,
            payoffs=_random_match_results(Stream.from_seed(seed).child("payoffs").child(number)),
            number=number,
            seed=seed,
            learner=LEARNER.for_policy(list(TAGS)[learner_number - 1]) if has_two else LEARNER,
            tags=TAGS if has_two else None,
        )
        seating = plugin(request)
        pairs = zip(seating.trained, seating.players, strict=True)
        assert any(trained and player == request.learner for trained, player in pairs), (
            f"The {plugin} trains {request.learner} in no seat of start {number}: "
            f"{', '.join(map(str, seating.seats))}. Seat request.learner."
        )
        require_equal(seating, plugin(request), f"The {plugin} must answer equal requests equally")


def _random_match_results(stream: Stream) -> Payoffs:
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
            rows[RowKey("kuhn_poker", 0, LEARNER, member)] = results
    return Payoffs(rows)


MAX_MEMBERS = 5  # largest number of members of a side


def check_meta_solver(
    solver: Callable[..., Any] | BoundPlugin, *, games: int = 40, seed: int = 0, **options: Any
) -> None:
    """Check a meta-solver on meta-games with one to five members per side.

    The solver must return distributions. In games other than symmetric zero-sum games with payoffs
    in [-1, 1], GameError is allowed too. Equal requests must have equal answers, and
    the payoffs must not change.

    Args:
        solver: the function, or the bound plug-in.
        games: number of meta-games.
        seed: seed of the payoffs.
        options: options of the function.

    Raises:
        AssertionError: the solver changed payoffs, or answers equal requests differently.
        GameError: the solver refuses a symmetric zero-sum meta-game.
        PluginError: the solver raised another error, or did not return distributions.
    """
    plugin = bind_plugin("league.meta_solvers", solver, options)
    for number in range(games):
        stream = Stream.from_seed(seed).child("meta-games").child(number)
        payoff_stream = stream.child("payoffs")
        if number % 3 == 0:  # one population for both sides, in a symmetric zero-sum game
            size = 1 + stream.integer(0, MAX_MEMBERS)
            triangle = np.triu(_random_payoffs(payoff_stream, (size, size)), 1)
            game = of_matrix(triangle - triangle.T)
        elif number % 3 == 1:  # two populations in a zero-sum game
            rows, columns = (1 + stream.integer(side, MAX_MEMBERS) for side in range(2))
            game = of_matrix(1000 * _random_payoffs(payoff_stream, (rows, columns)))
        else:
            shape = tuple(1 + stream.integer(side, 3) for side in range(2 + stream.integer(9, 2)))
            tables = (
                _random_payoffs(payoff_stream.child(side), shape) for side in range(len(shape))
            )
            game = MetaGame(payoffs=tuple(tables))
        original = [table.copy() for table in game.payoffs]
        try:
            first, second = plugin(game), plugin(game)
        except GameError:
            if game.symmetric:
                raise
            continue
        pairs = zip((*first.sides, first.joint), (*second.sides, second.joint), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs), (
            f"The {plugin} must answer equal requests equally."
        )
        assert all(map(np.array_equal, original, game.payoffs)), (
            f"The {plugin} must not change the payoffs of the request."
        )


def _random_payoffs(stream: Stream, shape: tuple[int, ...]) -> FloatArray:
    num_cells = int(np.prod(shape))
    return np.array([stream.integer(cell, 11) / 5 - 1 for cell in range(num_cells)]).reshape(shape)


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
    """Return a request to a schedule, for tests.

    Args:
        age: steps since the last snapshot.
        every: ``league.every``.
        learner: the learner whose snapshot may be due.
        members: snapshots, oldest first.
        tags: tag of each learner of the league, by its name; None: there is one learner.
        payoffs: results of matches; None: no results.
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
    schedule: Callable[..., Any] | BoundPlugin,
    *,
    requests: int = 200,
    seed: int = 0,
    **options: Any,
) -> None:
    """Check a schedule on random requests, at most 10 ``league.every`` steps after a snapshot.

    The schedule must answer equal requests equally, and must return true for some requests.

    Args:
        schedule: the function, or the bound plug-in.
        requests: number of requests.
        seed: seed of the requests.
        options: options of the function.

    Raises:
        AssertionError: the schedule answers equal requests differently, or never returns true.
        PluginError: the schedule raised, or returned what a run does not accept.
    """
    plugin, any_due = bind_plugin("league.schedules", schedule, options), False
    for number in range(requests):
        stream = Stream.from_seed(seed).child("schedule").child(number)
        every = 1 + stream.integer(0, 9)
        age = 1 + stream.integer(1, 10 * every)
        request = schedule_request(
            age,
            every,
            learner=LEARNER.for_policy(list(TAGS)[number % 2]),
            members=SCHEDULE_MEMBERS[: stream.integer(2, len(SCHEDULE_MEMBERS) + 1)],
            tags=TAGS,
            payoffs=_random_schedule_results(stream.child("payoffs")),
            returns=[stream.child("returns").uniform(step) for step in range(age)],
        )
        is_snapshot_due = plugin(request)
        require_equal(
            is_snapshot_due, plugin(request), f"The {plugin} must answer equal requests equally"
        )
        any_due = any_due or is_snapshot_due
    assert any_due, f"The {plugin} takes no snapshot in {requests} requests; some must return true."


def _random_schedule_results(stream: Stream) -> Payoffs:
    rows = {}
    for number, name in enumerate(TAGS):
        for index, opponent in enumerate((*SCHEDULE_MEMBERS, *map(LEARNER.for_policy, TAGS))):
            result_stream = stream.child(number).child(index)
            wins, losses = result_stream.integer(0, 60), result_stream.integer(1, 60)
            if wins + losses:
                results = Results(games=wins + losses, wins=wins, losses=losses)
                rows[RowKey("kuhn_poker", 0, LEARNER.for_policy(name), opponent)] = results
    return Payoffs(rows)
