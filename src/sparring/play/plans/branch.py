"""Plan: branch at turns of high entropy (ARPO, AEPO)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from statistics import fmean
from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import Turn
from sparring.core.rng import Stream
from sparring.play.plans.base import FRESH, Origin, PlannedEpisode

PRESETS = {"aepo": {"penalty": 0.05, "balance": 0.5}}


def branch(
    num_left: int,
    episodes: Sequence[PlannedEpisode],
    stream: Stream,
    *,
    initial: Annotated[int, Field(ge=1)] | None = None,
    extra: Annotated[int, Field(ge=1)] = 1,
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5,
    entropy_weight: Annotated[float, Field(ge=0)] = 0.2,
    first_tokens: Annotated[int, Field(ge=1)] = 20,
    penalty: Annotated[float, Field(ge=0, le=1)] = 0.0,
    balance: Annotated[float, Field(ge=0)] | None = None,
) -> list[Origin]:
    """Play some episodes of a group from the initial state, and others from turns of high entropy.

    What: after each wave of finished episodes the rule is applied to the trained turns that were
    sampled in this wave. If a turn branches, another episode begins before this turn, until the
    group is complete. If no turn branches, the remaining episodes begin at the initial state.
    When to use: with credit ``branch_grpo``, groups of 8 or more, and episodes of several turns.
    Mathematics:
        H = mean of -log p over the turn's first tokens
        dH = H - its mean over the first trained turns of episodes from the initial state
        q = u - entropy_weight * dH
        f = max(0, 1 - penalty * l)
    p is the sampler's probability of the sampled token, u is uniform in [0, 1), and l is the number
    of branching turns in a row just before this turn. q becomes
        1 - (1 - q) * f
    and an episode branches before the turn if
        clip(q, 0, 1) <= threshold
    If l = 0, this has probability threshold + entropy_weight * dH, clipped to [0, 1]. The first
    trained turn of an episode never branches. Turns are considered in order of depth, then of
    episodes, until the group is complete.
    Pitfalls: H is the surprise of the sampled tokens: an unbiased but noisy estimate of the
    sampler's entropy in nats. Lines of play with high entropy get more episodes, which biases group
    means and the gradient of earlier turns. Turns without sampled tokens never
    branch. The paper divides the entropy of the ten likeliest tokens by log |V|, so its weight 0.2
    is 0.2 / log |V| here. ARPO's code compares with the first turn of the same line, and
    branches one turn after the measured one, while other episodes are still played. AEPO's code
    discards its first episode and counts l over the whole group. Here the first episode stays, and
    l is counted along the line of play.
    Reference: ARPO (arXiv 2507.19849) and AEPO (arXiv 2510.14545, literal reading), code of
    dongguanting/ARPO, vllm_rollout_with_tools.py.
    Verified by: tests/play/plans/test_plans.py, tests/play/plans/test_credit_on_trees.py.

    Args:
        num_left: number of episodes of the group that have not begun.
        episodes: the finished episodes.
        stream: the group's stream; episode n draws u of its turns from child n.
        initial: episodes that begin at the initial state, at least 1. null (default): half of the
            group, rounded up.
        extra: episodes that a branching turn adds, at least 1 (ARPO's beam size less one).
        threshold: probability of branching where dH is 0, in [0, 1].
        entropy_weight: change of that probability per nat of entropy, at least 0.
        first_tokens: H is the mean over this number of tokens at the beginning of a turn, at least
            1.
        penalty: decrease of the factor f for each branching turn just before, in [0, 1]. 0
            (default): none; preset ``aepo`` has 0.05.
        balance: weight of entropies in the number of episodes from the initial state, at least 0.
            null (default): the number is ``initial``. With a value (preset ``aepo``: 0.5) one
            episode is played first. The number is then group_size * sigmoid(balance * (H of the
            first trained turn minus the mean H of the other turns)), rounded, at least 1.

    Raises:
        ConfigError: the group has only one episode or fewer than ``initial``, or ``initial`` and
            ``balance`` are both given.
    """
    group_size = num_left + len(episodes)
    _check_options(group_size, initial, balance)
    surprises = [
        [_surprise(planned.episode.turns[turn], first_tokens) for turn in planned.decisions]
        for planned in episodes
    ]
    num_initial = -(-group_size // 2) if initial is None else initial
    if balance is not None:
        num_initial = _count_initial(group_size, balance, surprises[0]) if episodes else 1
    if len(episodes) < num_initial:
        return [FRESH] * (num_initial - len(episodes))
    first_surprises = [
        turn_surprises[0]
        for turn_surprises, planned in zip(surprises, episodes, strict=True)
        if turn_surprises and turn_surprises[0] is not None and planned.origin == FRESH
    ]
    if not first_surprises:
        return []
    mean_first = fmean(first_surprises)

    def is_branching(episode: int, turn: int, surprise: float | None, streak: int) -> bool:
        draw, factor = stream.child(episode).uniform(turn), max(0.0, 1.0 - penalty * streak)
        return surprise is not None and _is_chosen(
            draw, entropy_weight * (surprise - mean_first), threshold, factor
        )

    known_origins = {planned.origin for planned in episodes}
    origins = _branch_origins(episodes, surprises, is_branching)
    return [origin for origin in origins if origin not in known_origins for _ in range(extra)]


def _branch_origins(
    episodes: Sequence[PlannedEpisode],
    surprises: Sequence[Sequence[float | None]],
    is_branching: Callable[[int, int, float | None, int], bool],
) -> list[Origin]:
    branches: list[tuple[int, Origin]] = []
    streaks = {FRESH: 0}  # branching turns in a row, by the origin of an episode
    for index, planned in enumerate(episodes):
        streak = streaks[planned.origin]
        for depth, (turn, surprise) in enumerate(
            zip(planned.decisions, surprises[index], strict=True)
        ):
            if depth == 0 or (planned.origin != FRESH and turn <= planned.origin.turn):
                continue
            streak = streak + 1 if is_branching(index, turn, surprise, streak) else 0
            if streak:
                streaks[Origin(index, turn)] = streak
                branches.append((depth, Origin(index, turn)))
    return [origin for _, origin in sorted(branches)]


def _check_options(group_size: int, initial: int | None, balance: float | None) -> None:
    if group_size == 1:
        raise ConfigError(
            "rollout.plan 'branch': rollout.group_size=1 leaves no episodes to branch; write "
            "rollout.group_size=8, or rollout.plan.name=none."
        )
    if initial is not None and initial > group_size:
        raise ConfigError(
            f"rollout.plan 'branch': initial={initial} episodes from the initial state are more "
            f"than rollout.group_size={group_size}; write "
            f"rollout.plan.initial={-(-group_size // 2)}, or a larger group."
        )
    if initial is not None and balance is not None:
        raise ConfigError(
            f"rollout.plan 'branch': initial={initial} and balance={balance} both say how many "
            "episodes begin at the initial state; leave one out."
        )


def _surprise(turn: Turn, first_tokens: int) -> float | None:
    """Return the mean of -log p over the turn's first sampled tokens; None without any."""
    all_logprobs = (
        logprob
        for segment in turn.segments
        if segment.kind == "sampled"
        for logprob in segment.logprobs
    )
    logprobs = list(islice(all_logprobs, first_tokens))
    return -fmean(logprobs) if logprobs else None


def _count_initial(group_size: int, balance: float, surprises: Sequence[float | None]) -> int:
    """Return the number of episodes from the initial state, by the first episode's surprises."""
    tail = [surprise for surprise in surprises[1:] if surprise is not None]
    head = surprises[0] if surprises else None
    gap = head - fmean(tail) if tail and head is not None else 0.0
    return max(1, round(group_size / (1.0 + math.exp(min(-balance * gap, 700.0)))))


def _is_chosen(draw: float, rise: float, threshold: float, factor: float) -> bool:
    """Return whether to branch, by a draw in [0, 1) and a weighted rise of entropy."""
    value = draw - rise
    value += (1.0 - factor) * (1.0 - value)
    return min(max(value, 0.0), 1.0) <= threshold
