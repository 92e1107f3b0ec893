"""Reward: each seat of a team is paid for its own part of what the team has made."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.core.errors import RewardError
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment, HasCounterfactual, temporary_play
from sparring.methods.rewards.counts import around, within
from sparring.ops.normal_form import MAX_PLAYERS, shapley_values
from sparring.play.replay import final_play

NEEDS = {"game"}


def contribution(
    episode: Episode,
    game: Environment,
    *,
    by: Literal["difference", "shapley", "own"] = "difference",
) -> tuple[float | None, ...]:
    """Pay each worker of a team for its own part of the result, not for all of it.

    What: what the play would have been worth without a seat's work is known here, by scoring what
    the others did alone: no other play and no model is asked. Seats whose work has no part of its
    own, such as a lead, are paid the play's return.
    When to use: in teams whose result is made of parts (``wide_search``; ``dag_search``, in which a
    sub-task counts with all that it needs), with ``outcome_weight`` 0, so that the game's return is
    not paid besides, and ``reorder_outcomes``. Every credit estimator compares what it pays, e.g.
    ``grpo``.
    Mathematics: G(S) is the result with the work of the seats S alone, N all that have a part.
        difference:  r_i = G(N) - G(N without i)
        shapley:     r_i = sum over S in N without i of
                           |S|! (|N| - |S| - 1)! / |N|! (G(S with i) - G(S))
        own:         r_i = what i did right / what i was asked for
    paid at the last turn of the seat.
    Shapes: one number per turn: 0 but for the last of each seat; None where the play was cut or
    forfeited, or its environment does not say what each seat has done (metric ``abstained``).
    Pitfalls: with "difference" the gradient of a seat is that of the return, in expectation,
    exactly where the others' work does not depend on what the seat does: in ``wide_search`` with
    one wave, no limit of critical steps and no forfeits. ``grpo`` divides by the deviation of each
    seat's own pay, which weighs the seats anew; write ``divide_by_std: false``. With more waves
    others do later what a worker leaves open, and it is paid nothing for that. "shapley" and "own"
    are other aims: a seat's work is paid also where the others' makes it worth less, and "own" pays
    the same for a cell of a short list as for the whole of it. Where the lead of ``wide_search``
    writes the answer, what it writes is not made of parts: all seats are paid the return. "shapley"
    scores 2^n tables a play, so at most 8 seats.
    Reference: Wolpert and Tumer, 2002 (difference); Shapley, 1953. WideSeek-R1 (arXiv 2602.04634),
    with which this is compared, pays all agents the same.
    Verified by: tests/methods/rewards/test_lead_rewards.py.

    Args:
        by: how a part is measured: "difference" (default), "shapley" or "own".

    Raises:
        RewardError: over 8 seats have a part, with "shapley"; or the environment is a combinator,
            such as ``trial``, of one whose seats have parts.
    """
    if not _is_parted(game, episode.seed):
        inner = within(game)
        if inner is not game and _is_parted(inner, episode.seed):
            raise around(game, inner, "contribution")
        return (None,) * len(episode.turns)
    if episode.forfeited_by is not None or episode.cut:
        return (None,) * len(episode.turns)
    with final_play(game, episode) as end:
        paid = dict(enumerate(episode.returns)) | _parts(end, by)
    last = {turn.seat: number for number, turn in enumerate(episode.turns)}
    return tuple(
        paid[turn.seat] if last[turn.seat] == number else 0.0
        for number, turn in enumerate(episode.turns)
    )


def _is_parted(game: Environment, seed: int) -> bool:
    with temporary_play(game, Stream(seed)) as play:
        return isinstance(play, HasCounterfactual)


def _parts(end: HasCounterfactual, by: str) -> dict[int, float]:
    """Return what each seat that has a part is paid."""
    seats = end.parts()
    if by == "own":
        return {seat: end.own_share(seat) for seat in seats}
    if by == "difference":
        whole = end.worth(seats)
        return {seat: whole - end.worth([one for one in seats if one != seat]) for seat in seats}
    if len(seats) > MAX_PLAYERS:
        raise RewardError(
            f"rewards 'contribution': {len(seats)} seats have a part, and by: shapley is for at "
            f"most {MAX_PLAYERS}; write by: difference."
        )
    coalitions = range(1 << len(seats))
    worth = [
        end.worth([seat for place, seat in enumerate(seats) if one >> place & 1])
        for one in coalitions
    ]
    values = shapley_values(np.array(worth))
    return dict(zip(seats, values.tolist(), strict=True))
