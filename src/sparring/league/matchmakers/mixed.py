"""Self-play mixed with past selves and bots, against the collapse of playing nobody but the mirror."""

from __future__ import annotations

from sparring.errors import ConfigError
from sparring.league.matchmakers.base import BOT, LEARNER, PAST, MatchRequest, Seating
from sparring.rng import Stream


def mixed(request: MatchRequest, *, past: float = 0.25, bots: dict[str, float] | None = None) -> Seating:
    """Seat the learner against itself, a past self or a bot, by fixed shares.

    What: with probability ``past`` the other seats go to past selves (each seat an independent, uniform choice), with
    the shares in ``bots`` to a bot (e.g. ``{random: 0.25}``), otherwise to the learner itself.
    When to use: wherever mirror self-play narrows to its own habits: rare positions are then never met in training.
    Pitfalls: against others only one seat is trained, so a step holds fewer trained turns than mirror play; the
    learner's seat rotates from start to start. Without a past self yet, its share is played against the mirror.
    Reference: the fixed anchors that the collapse reports ask for; mixture shares as in fictitious self-play.

    Raises:
        ConfigError: shares that are negative or exceed one.
    """
    shares = {PAST: past, **{BOT + name: share for name, share in (bots or {}).items()}}
    if min(shares.values()) < 0 or sum(shares.values()) > 1 + 1e-9:
        raise ConfigError(f"matchmaker 'mixed': past={past} and bots={bots} must be shares that sum to at most 1.")
    draw, opponent = request.stream.uniform(0), LEARNER
    for name, share in shares.items():
        if draw < share:
            opponent = name
            break
        draw -= share
    if opponent == LEARNER or (opponent == PAST and not request.members):
        return Seating(seats=(LEARNER,) * request.num_seats, trained=(True,) * request.num_seats)
    own = request.number % request.num_seats
    seats = tuple(LEARNER if seat == own else _member(request, opponent, seat) for seat in range(request.num_seats))
    return Seating(seats=seats, trained=tuple(seat == own for seat in range(request.num_seats)))


def _member(request: MatchRequest, opponent: str, seat: int) -> str:
    """Return who sits in another seat."""
    if opponent != PAST:
        return opponent
    stream: Stream = request.stream.child(seat)
    return request.members[stream.integer(0, len(request.members))]
