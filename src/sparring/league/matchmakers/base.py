"""What a matchmaker is asked, and what it answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sparring.errors import PluginError
from sparring.registry import Bound
from sparring.rng import Stream

LEARNER = "learner"
PAST = "past-"  # a member's name is PAST followed by the step it was taken at
MEMBER = re.compile(PAST + "[0-9]{1,18}")
BOT = "bot-"  # a bot's name is BOT followed by the agent plug-in's name


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchRequest:
    """One start that wants seats filled. Games that share a start share the answer."""

    num_seats: int
    number: int  # counts starts over the whole run; used to balance seats
    stream: Stream
    members: tuple[str, ...]  # snapshots, oldest first; may be empty


@dataclass(frozen=True, kw_only=True, slots=True)
class Seating:
    """Who sits where, and whose tokens are trained on."""

    seats: tuple[str, ...]  # [num_seats]
    trained: tuple[bool, ...]  # [num_seats]


def check_output(matchmaker: Bound, seating: Any, request: MatchRequest) -> None:
    """Check that a matchmaker has filled every seat; every call of one ends here.

    Raises:
        PluginError: it gave something else.
    """
    if not isinstance(seating, Seating):
        raise PluginError(
            f"The {matchmaker} must return a Seating; it returned {type(seating).__name__}."
        )
    if not len(seating.seats) == len(seating.trained) == request.num_seats:
        given = (
            f"{len(seating.seats)} seats and {len(seating.trained)} answers whether they are "
            "trained"
        )
        raise PluginError(
            f"The {matchmaker} must fill {request.num_seats} seats here; it gave {given}."
        )
