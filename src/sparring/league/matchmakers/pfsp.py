"""Prioritised fictitious self-play: snapshots that beat the learner are met more often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.league.matchmakers.base import MatchRequest, Seating, draw_member, seat_vs, self_play
from sparring.league.payoffs import opponent_weights


def pfsp(
    request: MatchRequest,
    *,
    past: Annotated[float, Field(ge=0, le=1)] = 0.5,
    weighting: Literal["hard", "capped", "variance"] = "hard",
    power: Annotated[float, Field(ge=0)] = 2.0,
    prior: Annotated[float, Field(ge=0)] = 2.0,
) -> Seating:
    """Seat the learner against snapshots by its win rates against them, or against itself.

    What: with probability ``past`` the opponents are snapshots; otherwise the learner plays itself.
    A snapshot is drawn for each team (for each seat if all seats are one team) with weight f(p),
    where p is the learner's win rate against it in this environment, from the payoff book.
    When to use: a league whose old members are too weak: "hard" meets those that still win,
    "variance" prefers snapshots of about the learner's strength.
    Mathematics: with w wins, d draws and l losses of the learner against snapshot j, from any seat,

        p_j = (w + d/2 + prior/2) / (w + d + l + prior)
        P(j) = f(p_j) / sum over i of f(p_i)
        f(p) = (1 - p)^power     "hard"
        f(p) = min(1/2, 1 - p)   "capped"
        f(p) = p (1 - p)         "variance"

    p_j is 1/2 without decided episodes if prior is 0. If all weights are 0, or power is 0, the draw
    is uniform and equals that of ``mixed`` with the same ``past``.
    Pitfalls: the rates count all training episodes since the snapshot, in which the learner has
    changed, so a snapshot that once was strong stays likely for a while. Without a prior, a
    snapshot that lost its first game is never drawn again. If all seats are one team nobody wins,
    and the draw is uniform. Against opponents only one team is trained.
    Reference: Vinyals et al., 2019 (AlphaStar, Nature 575), "Prioritized fictitious self-play";
    there power is 2, unmet opponents have p = 1/2 and draws are half a win.
    Verified by: tests/league/matchmakers/test_pfsp.py.

    Args:
        past: share of the initial states with snapshots, in [0, 1]. Default 0.5; self-play as long
            as there is no snapshot.
        weighting: the function f above. "hard" (default) prefers snapshots that win; "capped" all
            that win at least half of the time, equally; "variance" those with p near 1/2.
        power: the exponent of "hard", at least 0; 1 is linear, and 0 uniform. Default 2.
        prior: number of draws added to every record, at least 0, against the noise of few episodes.
            Default 2; AlphaStar's is 0.
    """
    if not request.members or request.stream.uniform(0) >= past:
        return self_play(request)
    rates = [request.results(member).win_rate(prior) for member in request.members]
    shares = opponent_weights(rates, weighting, power)
    return seat_vs(
        request,
        lambda seat: draw_member(request.members, shares, request.stream.child(seat).uniform(0)),
    )
