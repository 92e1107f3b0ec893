"""AlphaStar's league, draw by draw: main agents, main exploiters and league exploiters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from pydantic import Field

from sparring.core.records import PlayerRef
from sparring.core.rng import Stream
from sparring.league.matchmakers.base import MatchRequest, Seating, against, draw_member, self_play
from sparring.league.payoffs import AS_PUBLISHED, weights

T = TypeVar("T")
MAIN, EXPLOITER, LEAGUE = "main", "main_exploiter", "league_exploiter"  # tags
BEATEN = 0.7  # win rates against verified snapshots below this are too low
PRESETS = {"paper": {"prior": 0.0}}


def alphastar(request: MatchRequest, *, prior: Annotated[float, Field(ge=0)] = 2.0) -> Seating:
    """Seat the learner as AlphaStar's league does, by its tag.

    What: a learner with the tag main meets all snapshots, by their strength against it (half of the
    states), snapshots that it may have forgotten how to beat (0.15), and itself or another main
    learner (the rest). A main_exploiter meets the current weights of a main learner as long as it
    sometimes wins, and else its snapshots. Any other learner is a league_exploiter, and meets all
    snapshots.
    When to use: with ``league.learners`` of these tags, with the schedule ``gate``, and exploiters
    that restart from initial weights; recipe league/alphastar-tiny.
    Mathematics: p_j is the learner's win rate against j, and PFSP f over a set S draws j with
    probability f(p_j) / sum over i in S of f(p_i):

        main              0.50  PFSP (1 - p)^2 over all snapshots
                          0.15  with X the snapshots of main exploiters:
                                PFSP (1 - p)^2 over X                if min over X of p < 0.3
                                else, with M the snapshots of a random main learner without the
                                newest, over which p only falls:
                                PFSP (1 - p)^2 over M                if min over M of p < 0.7
                                else as the rest
                          rest  a random main learner m as it is     if p_m > 0.3
                                else PFSP p (1 - p) over its snapshots
        main_exploiter          a random main learner m as it is     if p_m > 0.1
                                else PFSP p (1 - p) over its snapshots
        league_exploiter        PFSP min(1/2, 1 - p) over all snapshots

    Pitfalls: rates are those of the payoff book; let them fade by ``league.payoff_decay``, as the
    learners change. Where there are no snapshots, the learner plays itself.
    Reference: the pseudo-code published with Vinyals et al., 2019 (Nature 575). There a result
    fades by 0.99 with each further one of the same pair, and an unseen pair has 1/2, as here with
    prior 0 (preset paper). There both agents learn where a main agent meets another; here only the
    requested learner does, and both seats where it meets itself.
    Verified by: tests/league/matchmakers/test_alphastar.py.

    Args:
        prior: number of draws added to every record, at least 0, against decisions by one play.
            Default 2.
    """
    mains = [who for who in (request.learner, *request.others) if request.tag(who) == MAIN]
    player = opponent(
        request.tag(request.learner),
        mains=mains or [request.learner],
        frozen=list(request.members),
        tag=request.tag,
        past=lambda main: [old for old in request.members if old.name == main.name],
        rate=lambda who: _rate(request, who, prior),
        stream=request.stream,
    )
    if player is None or player == request.learner:
        return self_play(request)
    return against(request, lambda seat: player)


def _rate(request: MatchRequest, who: PlayerRef, prior: float) -> float:
    """Return the learner's win rate against a player; 1/2 against itself."""
    return 0.5 if who == request.learner else request.results(who).win_rate(prior)


def opponent(
    kind: str,
    *,
    mains: Sequence[T],
    frozen: Sequence[T],
    tag: Callable[[T], str],
    past: Callable[[T], Sequence[T]],
    rate: Callable[[T], float],
    stream: Stream,
) -> T | None:
    """Return the next opponent of an agent of the league, or None where there is none.

    Args:
        kind: the agent's tag.
        mains: the main agents with current weights.
        frozen: all checkpoints.
        tag: returns the tag of a checkpoint.
        past: returns the checkpoints of a main agent, oldest first.
        rate: returns the agent's win rate against another one.
        stream: of all draws.
    """

    def pfsp(among: Sequence[T], weighting: str) -> T | None:
        if not among:
            return None
        hard = weights([rate(checkpoint) for checkpoint in among], *AS_PUBLISHED[weighting])
        return draw_member(among, hard, stream.uniform(1))

    if kind not in (MAIN, EXPLOITER):
        return pfsp(frozen, "linear_capped")
    coin, main = stream.uniform(0), mains[int(stream.uniform(2) * len(mains))]
    if kind == EXPLOITER:
        return main if rate(main) > 0.1 or not past(main) else pfsp(past(main), "variance")
    if coin < 0.5:
        return pfsp(frozen, "squared")
    if coin < 0.65:
        exploiters = [checkpoint for checkpoint in frozen if tag(checkpoint) == EXPLOITER]
        if exploiters and min(map(rate, exploiters)) < 0.3:
            return pfsp(exploiters, "squared")
        checkpoints = past(main)
        forgotten = checkpoints[
            : without_monotonic_suffix([rate(checkpoint) for checkpoint in checkpoints])
        ]
        if forgotten and min(map(rate, forgotten)) < BEATEN:
            return pfsp(forgotten, "squared")
    return main if rate(main) > 0.3 or not past(main) else pfsp(past(main), "variance")


def without_monotonic_suffix(rates: Sequence[float]) -> int:
    """Return the number of checkpoints before the final ones over which win rates only fall.

    Args:
        rates: win rates, of the oldest checkpoint first.
    """
    for last in range(len(rates) - 1, 0, -1):
        if rates[last - 1] < rates[last]:
            return last + 1
    return 0
