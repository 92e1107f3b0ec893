"""What a matchmaker must keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparring.league.matchmakers.base import BOT, LEARNER, MEMBER, MatchRequest
from sparring.registry import Bound
from sparring.rng import Stream
from sparring.testing.given import bound, same

MEMBERS = ("past-000010", "past-000020", "past-000030")


def check_matchmaker(
    matchmaker: Callable[..., Any] | Bound, *, starts: int = 200, seed: int = 0, **options: Any
) -> None:
    """Check a matchmaker on starts of one to four seats, with and without snapshots.

    It fills every seat with the learner, a snapshot that there is, or a bot; it trains the learner
    alone, in at least one seat; it answers the same when it is asked the same.

    Args:
        matchmaker: the function, or the plug-in bound.
        starts: how many are tried.
        seed: of what the matchmaker draws.
        options: of the function.

    Raises:
        AssertionError: it does not keep one of these.
        PluginError: it raised, or returned no Seating.
    """
    made, root = bound("league.matchmakers", matchmaker, options), Stream.from_seed(seed)
    for number in range(starts):
        members = MEMBERS[: number % (len(MEMBERS) + 1)]
        request = MatchRequest(
            num_seats=1 + number % 4, number=number, stream=root.child(number), members=members
        )
        seating = made(request)
        for seat, (player, trained) in enumerate(zip(seating.seats, seating.trained, strict=True)):
            there = (
                player == LEARNER
                or player.startswith(BOT)
                or (MEMBER.fullmatch(player) and player in members)
            )
            assert there, (
                f"The {made} put {player!r} into seat {seat}; there are {LEARNER!r}, bots "
                f"({BOT}NAME) and {members}."
            )
            assert not trained or player == LEARNER, (
                f"The {made} trains {player!r}; only {LEARNER!r} is trained."
            )
        assert any(seating.trained), (
            f"The {made} trains no seat of start {number}: {seating.seats}."
        )
        same(seating, made(request), f"The {made} must answer the same when it is asked the same")
