"""What a matchmaker is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.rng import Stream

SUPPORT = True

LEARNER = "learner"
PAST = "past-"  # a member's name is PAST followed by the step it was taken at
BOT = "bot-"  # a bot's name is BOT followed by the agent plug-in's name


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchRequest:
    """One start that wants seats filled. Games that share a start share the answer."""

    num_seats: int
    number: int  # counts starts over the whole run; used to balance seats
    stream: Stream
    members: tuple[str, ...]  # past selves, oldest first; may be empty


@dataclass(frozen=True, kw_only=True, slots=True)
class Seating:
    """Who sits where, and whose tokens are trained on."""

    seats: tuple[str, ...]  # [num_seats]
    trained: tuple[bool, ...]  # [num_seats]
