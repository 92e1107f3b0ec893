"""The opponents of AlphaStar's league: main agents, main exploiters and league exploiters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from pydantic import Field

from sparring.core.records import PlayerRef
from sparring.core.rng import Stream
from sparring.league.matchmakers.base import MatchRequest, Seating, draw_member, seat_vs, self_play
from sparring.league.payoffs import WEIGHTINGS, opponent_weights

T = TypeVar("T")
MAIN, EXPLOITER, LEAGUE = "main", "main_exploiter", "league_exploiter"  # tags
BEATEN_RATE = 0.7  # below this win rate the learner may have forgotten how to beat a snapshot
PRESETS = {"paper": {"prior": 0.0}}


def alphastar(request: MatchRequest, *, prior: Annotated[float, Field(ge=0)] = 2.0) -> Seating:
    """Seat the learner as AlphaStar's league does, by its tag.

    What: a learner with the tag main plays against all snapshots, by their strength against it
    (half of the initial states), against snapshots that it may have forgotten how to beat (0.15),
    and against itself or another main learner (0.35). A main_exploiter plays against the current
    weights of a main learner as long as it sometimes wins, and otherwise against snapshots of that
    learner. Any other learner is a league_exploiter, and plays against all snapshots.
    When to use: with ``league.learners`` of these tags, with the schedule ``gate``, and exploiters
    that restart from initial weights; recipe league/alphastar-tiny.
    Mathematics: p_j is the learner's win rate against j, and "PFSP f over S" draws a
    snapshot j of the set S with probability f(p_j) / sum over i in S of f(p_i):

        main              0.50  PFSP (1 - p)^2 over all snapshots
                          0.15  with X the snapshots of main exploiters:
                                PFSP (1 - p)^2 over X                if min over X of p < 0.3
                                else, with M the snapshots of a random main learner, without
                                the newest run of snapshots over which p only falls:
                                PFSP (1 - p)^2 over M                if min over M of p < 0.7
                                else as in "rest"
                          rest  random main m, current weights       if p_m > 0.3
                                else PFSP p (1 - p) over its snapshots
        main_exploiter          random main m, current weights       if p_m > 0.1
                                else PFSP p (1 - p) over its snapshots
        league_exploiter        PFSP min(1/2, 1 - p) over all snapshots

    Pitfalls: win rates come from the payoff book; let old results fade by ``league.payoff_decay``,
    as the learners change. Without snapshots the learner plays itself.
    Reference: the pseudo-code published with Vinyals et al., 2019 (Nature 575). There a result
    fades by 0.99 with each later result of the same pair, and a pair without results has 1/2, as
    here with prior 0 (preset paper). There both agents learn if a main agent plays another. Here
    only the requested learner is trained, in both seats if it plays itself.
    Verified by: tests/league/matchmakers/test_alphastar.py.

    Args:
        prior: number of draws added to every record, at least 0, so that one episode has little
            effect. Default 2.
    """
    learners = (request.learner, *request.other_learners)
    main_learners = [player for player in learners if request.tag(player) == MAIN]
    player = draw_opponent(
        request.tag(request.learner),
        mains=main_learners or [request.learner],
        snapshots=list(request.members),
        tag_of=request.tag,
        past_of=lambda main: [member for member in request.members if member.name == main.name],
        rate=lambda player: _rate(request, player, prior),
        stream=request.stream,
    )
    if player is None or player == request.learner:
        return self_play(request)
    return seat_vs(request, lambda seat: player)


def _rate(request: MatchRequest, player: PlayerRef, prior: float) -> float:
    """Return the learner's win rate against a player; 1/2 against itself."""
    return 0.5 if player == request.learner else request.results(player).win_rate(prior)


def draw_opponent(
    learner_tag: str,
    *,
    mains: Sequence[T],
    snapshots: Sequence[T],
    tag_of: Callable[[T], str],
    past_of: Callable[[T], Sequence[T]],
    rate: Callable[[T], float],
    stream: Stream,
) -> T | None:
    """Return the next opponent of an agent of the league, or None if there is none.

    Args:
        learner_tag: the agent's tag.
        mains: the main agents with current weights.
        snapshots: all snapshots.
        tag_of: returns the tag of a snapshot.
        past_of: returns the snapshots of a main agent, oldest first.
        rate: returns the agent's win rate against another agent.
        stream: the stream of all draws.
    """

    def pfsp(pool: Sequence[T], weighting: str) -> T | None:
        if not pool:
            return None
        draw_weights = opponent_weights([rate(member) for member in pool], *WEIGHTINGS[weighting])
        return draw_member(pool, draw_weights, stream.uniform(1))

    if learner_tag not in (MAIN, EXPLOITER):
        return pfsp(snapshots, "linear_capped")
    draw, main = stream.uniform(0), mains[int(stream.uniform(2) * len(mains))]
    if learner_tag == EXPLOITER:
        return main if rate(main) > 0.1 or not past_of(main) else pfsp(past_of(main), "variance")
    if draw < 0.5:
        return pfsp(snapshots, "squared")
    if draw < 0.65:
        exploiters = [snapshot for snapshot in snapshots if tag_of(snapshot) == EXPLOITER]
        if exploiters and min(map(rate, exploiters)) < 0.3:
            return pfsp(exploiters, "squared")
        main_snapshots = past_of(main)
        earlier_snapshots = main_snapshots[
            : num_before_falling_rates([rate(snapshot) for snapshot in main_snapshots])
        ]
        if earlier_snapshots and min(map(rate, earlier_snapshots)) < BEATEN_RATE:
            return pfsp(earlier_snapshots, "squared")
    return main if rate(main) > 0.3 or not past_of(main) else pfsp(past_of(main), "variance")


def num_before_falling_rates(rates: Sequence[float]) -> int:
    """Return the number of snapshots before the newest run over which win rates only fall.

    Args:
        rates: win rates, the oldest snapshot's first.
    """
    for last in range(len(rates) - 1, 0, -1):
        if rates[last - 1] < rates[last]:
            return last + 1
    return 0
