"""Reward: each seat of a team is paid for its contribution to the team's result."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.core.errors import RewardError
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment, HasCounterfactual, temporary_play
from sparring.methods.rewards.counts import combinator_error, innermost_environment
from sparring.ops.normal_form import MAX_PLAYERS, shapley_values
from sparring.play.replay import final_play

NEEDS = {"game"}


def contribution(
    episode: Episode,
    game: Environment,
    *,
    by: Literal["difference", "shapley", "own"] = "difference",
) -> tuple[float | None, ...]:
    """Pay each worker of a team for its contribution, not for the whole result.

    What: the environment scores any part of the team's work alone, for example all work except that
    of one seat. This needs no further episode and no model. Seats without a part of the result,
    such as a lead, get the episode's return.
    When to use: in teams whose result has parts: ``wide_search``, or ``dag_search``, where a
    sub-task counts with all its requirements. Set ``reorder_outcomes``, and ``outcome_weight`` 0 so
    that the game's return is not paid too. Any credit estimator can follow, e.g. ``grpo``.
    Mathematics: G(S) is the result of the work of the seats S only, N all seats with a part.
        difference:  r_i = G(N) - G(N without i)
        shapley:     r_i = sum over S in N without i of
                           |S|! (|N| - |S| - 1)! / |N|! (G(S with i) - G(S))
        own:         r_i = i's right cells or tasks / i's requested cells or tasks
    paid at the last turn of the seat.
    Shapes: one number per turn: 0 except for the last turn of each seat; None if the episode was
    truncated or forfeited, or its environment has no counterfactuals (metric ``abstained``).
    Pitfalls:
        - With "difference" a seat's expected gradient is that of the return if the others' work
          does not depend on the seat. In ``wide_search`` this holds with one wave, no limit of
          critical steps and no forfeits.
        - ``grpo`` divides by the standard deviation of each seat's reward, which changes the
          weights of the seats; write ``divide_by_std: false``.
        - With several waves, other workers later do the work that a worker leaves open. The first
          worker is not charged for it.
        - "shapley" and "own" pay for work even if the others' work makes it less useful. "own" pays
          the same for one cell of a short list as for the complete list.
        - If the lead of ``wide_search`` writes the answer, all seats get the return.
        - "shapley" scores 2^n tables per episode, for at most 8 seats.
    Reference: Wolpert and Tumer, 2002 (difference); Shapley, 1953. The comparison is WideSeek-R1
    (arXiv 2602.04634), which pays all agents the same.
    Verified by: tests/methods/rewards/test_lead_rewards.py.

    Args:
        by: measure of a seat's contribution: "difference" (default), "shapley" or "own".

    Raises:
        RewardError: more than 8 seats have a part, with "shapley"; or the environment is a
            combinator, such as ``trial``, of an environment whose seats have parts.
    """
    if not _has_parts(game, episode.seed):
        inner = innermost_environment(game)
        if inner is not game and _has_parts(inner, episode.seed):
            raise combinator_error(game, inner, "contribution")
        return (None,) * len(episode.turns)
    if episode.forfeited_by is not None or episode.cut:
        return (None,) * len(episode.turns)
    with final_play(game, episode) as final_state:
        reward_of_seat = dict(enumerate(episode.returns)) | _contributions(final_state, by)
    last_index_of = {turn.seat: index for index, turn in enumerate(episode.turns)}
    return tuple(
        reward_of_seat[turn.seat] if last_index_of[turn.seat] == index else 0.0
        for index, turn in enumerate(episode.turns)
    )


def _has_parts(game: Environment, seed: int) -> bool:
    with temporary_play(game, Stream(seed)) as play:
        return isinstance(play, HasCounterfactual)


def _contributions(final_state: HasCounterfactual, by: str) -> dict[int, float]:
    seats = final_state.parts()
    if by == "own":
        return {seat: final_state.own_share(seat) for seat in seats}
    if by == "difference":
        total = final_state.worth(seats)
        return {
            seat: total - final_state.worth([other for other in seats if other != seat])
            for seat in seats
        }
    if len(seats) > MAX_PLAYERS:
        raise RewardError(
            f"rewards 'contribution': {len(seats)} seats have a part, and by: shapley is for at "
            f"most {MAX_PLAYERS}; write by: difference."
        )
    coalitions = range(1 << len(seats))
    results = [
        final_state.worth([seat for index, seat in enumerate(seats) if coalition >> index & 1])
        for coalition in coalitions
    ]
    values = shapley_values(np.array(results))
    return dict(zip(seats, values.tolist(), strict=True))
