"""Self-play mixed with games against snapshots and bots, to prevent collapse."""

from __future__ import annotations

from sparring.core.errors import ConfigError
from sparring.core.records import PlayerRef, bot
from sparring.league.matchmakers.base import MatchRequest, Seating, seat_vs, self_play


def mixed(
    request: MatchRequest, *, past: float = 0.25, bots: dict[str, float] | None = None
) -> Seating:
    """Seat the learner against itself, a snapshot or a bot, by fixed shares.

    What: with probability ``past`` the opponents are snapshots, drawn uniformly and independently
    for each team (for each seat if all seats are one team). With the probabilities in ``bots`` they
    are a bot. Otherwise the learner plays itself.
    When to use: wherever pure self-play visits few positions, so that the rare ones are never
    trained on.
    Pitfalls: against others only one side is trained, so a step has fewer trained turns than with
    self-play. The learner's team rotates between initial states. As long as there is no snapshot,
    the share of snapshots goes to self-play.
    Reference: fixed anchors against collapse in self-play; mixture shares as in fictitious
    self-play.

    Args:
        past: share of the initial states with snapshots, in [0, 1]. Default 0.25; 0 plays none.
        bots: share of the initial states per bot, by name, such as ``{random: 0.25}``. Together
            with ``past`` at most 1; the rest is self-play. null (default): no bots.

    Raises:
        ConfigError: a share is negative, or the shares sum to more than 1.
    """
    shares = [past, *(bots or {}).values()]
    if min(shares) < 0 or sum(shares) > 1 + 1e-9:
        raise ConfigError(
            f"matchmaker 'mixed': past={past} and bots={bots} must be shares that sum to at most 1."
        )
    draw, players = request.stream.uniform(0), [None, *map(bot, bots or {})]
    for player, share in zip(players, shares, strict=True):
        if draw < share:
            return _against(request, player)
        draw -= share
    return self_play(request)


def _against(request: MatchRequest, player: PlayerRef | None) -> Seating:
    if player is not None:
        return seat_vs(request, lambda seat: player)
    if not request.members:
        return self_play(request)
    members, stream = request.members, request.stream
    return seat_vs(request, lambda seat: members[stream.child(seat).integer(0, len(members))])
