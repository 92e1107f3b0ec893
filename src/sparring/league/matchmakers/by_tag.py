"""Opponents by tags: learners and snapshots of a league."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import PlayerRef
from sparring.league.matchmakers.base import MatchRequest, Seating, draw_member, seat_vs, self_play
from sparring.league.payoffs import opponent_weights

ANY = "any"  # stands for all tags

PRESETS = {
    "fxp_main": {"past": {"main": 0.4, "counter": 0.4}},
    "fxp_counter": {"past": {"main": 1.0}},
}


def by_tag(
    request: MatchRequest,
    *,
    live: dict[str, float] | None = None,
    past: dict[str, float] | None = None,
    weighting: Literal["uniform", "hard", "capped", "variance"] = "uniform",
    power: Annotated[float, Field(ge=0)] = 2.0,
    prior: Annotated[float, Field(ge=0)] = 2.0,
) -> Seating:
    """Seat the learner against other learners, snapshots or itself, by shares of their tags.

    What: ``live`` gives by tag the probability that the opponents are learners of this tag, with
    current weights. ``past`` gives by tag the probability that they are snapshots of such learners.
    Each team is drawn independently. Otherwise the learner plays itself. "any" means all tags.
    When to use: leagues of several learners (``league.learners``): exploiters that meet the main
    learner, a main learner that meets them and its own snapshots, Fictitious Cross-Play.
    Mathematics: with S the snapshots of the drawn tag, and p_j the learner's win rate against j (as
    in ``pfsp``),

        P(j) = f(p_j) / sum over i in S of f(p_i)
        f(p) = 1                "uniform"
        f(p) = (1 - p)^power    "hard"
        f(p) = min(1/2, 1 - p)  "capped"
        f(p) = p (1 - p)        "variance"

    Pitfalls: the share of a tag without players goes to self-play. Only the requested learner is
    trained; a live opponent learns from other initial states. If all seats are one team, each seat
    is an independent draw.
    Reference: Xu et al., 2023 (arXiv 2310.03354), as in their gridworld code: presets fxp_main
    and fxp_counter. The exploiters follow Vinyals et al., 2019 (Nature 575).
    Verified by: tests/league/matchmakers/test_by_tag.py.

    Args:
        live: share of the initial states by the tag of a learner, such as ``{main: 1.0}``. null
            (default): none.
        past: share of the initial states by the tag of snapshots, such as ``{any: 0.5}``. Together
            with ``live`` at most 1. null (default): none.
        weighting: the function f above, by which snapshots of a tag are drawn. Default "uniform".
        power: the exponent of "hard", at least 0. Default 2.
        prior: number of draws added to every record, at least 0. Default 2.

    Raises:
        ConfigError: a share is negative, or the shares sum to more than 1.
    """
    shares = [(True, tag, share) for tag, share in (live or {}).items()]
    shares += [(False, tag, share) for tag, share in (past or {}).items()]
    total = sum(share for *_, share in shares)
    if any(share < 0 for *_, share in shares) or total > 1 + 1e-9:
        raise ConfigError(
            f"matchmaker 'by_tag': live={live} and past={past} must be shares that sum to at most "
            "1."
        )
    draw = request.stream.uniform(0)
    for is_current, tag, share in shares:
        if draw < share:
            return _against_tag(request, is_current, tag, (weighting, power, prior))
        draw -= share
    return self_play(request)


def _against_tag(
    request: MatchRequest, is_current: bool, tag: str, weight_options: tuple[str, float, float]
) -> Seating:
    """Return a seating against players of a tag, or self-play if there are none."""
    candidates = request.other_learners if is_current else tuple(request.members)
    players = [player for player in candidates if tag in (ANY, request.tag(player))]
    if not players:
        return self_play(request)
    shares = [1.0] * len(players) if is_current else _weights(request, players, *weight_options)
    return seat_vs(
        request, lambda seat: draw_member(players, shares, request.stream.child(seat).uniform(0))
    )


def _weights(
    request: MatchRequest, players: list[PlayerRef], weighting: str, power: float, prior: float
) -> list[float]:
    if weighting == "uniform":
        return [1.0] * len(players)
    rates = [request.results(player).win_rate(prior) for player in players]
    return opponent_weights(rates, weighting, power)
