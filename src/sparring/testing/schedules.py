"""What a schedule must keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparring.config.plugins.registry import Bound
from sparring.core.refs import LEARNER, PlayerRef, ref, refs
from sparring.core.rng import Stream
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.league.schedules.base import ScheduleRequest
from sparring.testing.given import bound, same

MEMBERS = refs(("past-000000", "past-000010", "past-counter-000010"))
TAGS = {"main": "main", "counter": "exploiter"}


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
    made, due = bound("league.schedules", schedule, options), False
    for number in range(requests):
        stream = Stream.from_seed(seed).child("schedule").child(number)
        every = 1 + stream.integer(0, 9)
        age = 1 + stream.integer(1, 10 * every)
        asked = schedule_request(
            age,
            every,
            learner=LEARNER.of(list(TAGS)[number % 2]),
            members=MEMBERS[: stream.integer(2, len(MEMBERS) + 1)],
            tags=TAGS,
            payoffs=_book(stream.child("payoffs")),
            returns=[stream.child("returns").uniform(step) for step in range(age)],
        )
        answer = made(asked)
        same(answer, made(asked), f"The {made} must answer the same when it is asked the same")
        due = due or answer
    assert due, f"The {made} takes no snapshot in {requests} questions, however old the last is."


def _book(stream: Stream) -> Payoffs:
    """Return results of the learners against some players, drawn from a stream."""
    rows = {}
    for number, name in enumerate(TAGS):
        for place, other in enumerate((*MEMBERS, *map(LEARNER.of, TAGS))):
            own = stream.child(number).child(place)
            wins, losses = own.integer(0, 60), own.integer(1, 60)
            if wins + losses:
                found = Results(games=wins + losses, wins=wins, losses=losses)
                rows[Row("kuhn_poker", 0, LEARNER.of(name), other)] = found
    return Payoffs(rows)
