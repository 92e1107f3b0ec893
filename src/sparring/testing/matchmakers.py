"""What a matchmaker must keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparring.config.plugins.registry import Bound
from sparring.core.records import EnvironmentSpec
from sparring.core.refs import LEARNER, PlayerRef, ref, refs
from sparring.core.rng import Stream
from sparring.league.matchmakers.base import MatchRequest
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.testing.given import bound, same

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
    made = bound("league.matchmakers", matchmaker, options)
    for number in range(starts):
        teams, kind = TEAMS[number % len(TEAMS)], number // len(TEAMS) % 3
        several = kind > 0
        members = [*MEMBERS, *LEAGUE] if several else MEMBERS
        asked = match_request(
            len(teams),
            members=members[: number // len(TEAMS) % (len(members) + 1)],
            teams=teams,
            payoffs=_book(Stream.from_seed(seed).child("payoffs").child(number)),
            number=number,
            seed=seed,
            learner=LEARNER.of(list(TAGS)[kind - 1]) if several else LEARNER,
            tags=TAGS if several else None,
        )
        seating = made(asked)
        pairs = zip(seating.trained, seating.players, strict=True)
        assert any(trained and who == asked.learner for trained, who in pairs), (
            f"The {made} trains {asked.learner} in no seat of start {number}: "
            f"{', '.join(map(str, seating.seats))}. Seat request.learner."
        )
        same(seating, made(asked), f"The {made} must answer the same when it is asked the same")


def _book(stream: Stream) -> Payoffs:
    """Return results of the learner against some snapshots, drawn from a stream."""
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
