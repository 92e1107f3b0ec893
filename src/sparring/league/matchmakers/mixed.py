"""Self-play mixed with snapshots and bots.

It prevents the collapse of playing nobody but the mirror.
"""

from __future__ import annotations

from sparring.errors import ConfigError
from sparring.league.matchmakers.base import BOT, LEARNER, PAST, MatchRequest, Seating
from sparring.rng import Stream


def mixed(
    request: MatchRequest, *, past: float = 0.25, bots: dict[str, float] | None = None
) -> Seating:
    """Seat the learner against itself, a snapshot or a bot, by fixed shares.

    What: with probability ``past`` the other seats go to snapshots; each seat is an independent,
    uniform choice. With the shares in ``bots`` they go to a bot. Otherwise they go to the learner
    itself.
    When to use: wherever mirror self-play narrows to its own habits, so that rare positions are
    never met in training.
    Pitfalls: against others only one seat is trained, so a step holds fewer trained turns than
    mirror play. The learner's seat rotates from start to start. As long as there is no snapshot,
    its share is played against the mirror.
    Reference: the fixed anchors that the collapse reports ask for; mixture shares as in fictitious
    self-play.

    Args:
        past: share of the starts that are played against snapshots, in [0, 1]. Default 0.25; 0
            plays none.
        bots: share of the starts per bot, by name, such as ``{random: 0.25}``. Together with
            ``past`` at most 1; what is left is mirror self-play. null (default): no bots.

    Raises:
        ConfigError: shares that are negative or exceed one.
    """
    shares = {PAST: past, **{BOT + name: share for name, share in (bots or {}).items()}}
    if min(shares.values()) < 0 or sum(shares.values()) > 1 + 1e-9:
        raise ConfigError(
            f"matchmaker 'mixed': past={past} and bots={bots} must be shares that sum to at most 1."
        )
    draw, opponent = request.stream.uniform(0), LEARNER
    for name, share in shares.items():
        if draw < share:
            opponent = name
            break
        draw -= share
    if opponent == LEARNER or (opponent == PAST and not request.members):
        return Seating(seats=(LEARNER,) * request.num_seats, trained=(True,) * request.num_seats)
    own = request.number % request.num_seats
    seats = tuple(
        LEARNER if seat == own else _member(request, opponent, seat)
        for seat in range(request.num_seats)
    )
    return Seating(seats=seats, trained=tuple(seat == own for seat in range(request.num_seats)))


def _member(request: MatchRequest, opponent: str, seat: int) -> str:
    """Return who sits in another seat."""
    if opponent != PAST:
        return opponent
    stream: Stream = request.stream.child(seat)
    return request.members[stream.integer(0, len(request.members))]
