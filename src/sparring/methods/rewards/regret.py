"""Process reward: the loss of value against the best action."""

from __future__ import annotations

from typing import Literal

from sparring.core.records import Episode, Turn
from sparring.environments.base import Environment
from sparring.methods.oracles.judge import regret as value_lost

NEEDS = {"verdicts", "game"}
READS = "turn"


def regret(
    episode: Episode,
    game: Environment,
    *,
    scale: Literal["units", "state", "game"] = "units",
    positive: bool = False,
) -> tuple[float | None, ...]:
    """Charge each turn its regret: the best action's value minus that of the played action.

    What: the reward of a turn is proportional to its error and does not depend on the outcome.
    When to use: with an oracle of values, if a large error should cost more than a small one; with
    credit ``vpr``, or any estimator of returns.
    Mathematics:
        r_t = -(max_a Q(s_t, a) - Q(s_t, a_t)) / w
    plus 1 if ``positive``. Q is the oracle's. w depends on ``scale``:
        "units":   w = 1
        "state":   w = max_a Q(s_t, a) - min_a Q(s_t, a)
        "game":    w = the game's largest utility minus its smallest
    Shapes: one number per turn, None where the oracle abstained.
    Pitfalls:
        - With "state" a choice between nearly equal actions counts as much as a decisive one.
        - If all actions are equally good the regret is 0.
        - The sum over an episode favours short episodes, or long ones with ``positive``.
        - An illegal reply costs as much as the worst action.
        - The reward is shaping: set ``reorder_outcomes`` for the unscaled reward.
    Reference: none; arXiv 2605.10325 (VPR) pays the indicator, ``best_action``.
    Verified by: tests/methods/rewards/test_verdict_rewards.py.

    Args:
        scale: divisor of the regret. "units" (default): 1, for regret in the game's units. "state":
            the worst action of any turn costs 1. "game": games with different units compare.
        positive: false (default): the best action gets 0. true: 1 is added, so with "state" and
            "game" the reward is in [0, 1], 1 for the best action.
    """
    divisor = game.max_utility - game.min_utility if scale == "game" else 1.0
    return tuple(
        _turn_reward(turn, divisor, by_state=scale == "state", offset=1.0 if positive else 0.0)
        for turn in episode.turns
    )


def _turn_reward(turn: Turn, divisor: float, *, by_state: bool, offset: float) -> float | None:
    turn_regret = value_lost(turn)
    if turn_regret is None or turn.verdict is None:
        return None
    if by_state:
        divisor = max(turn.verdict.values) - min(turn.verdict.values)
    return offset - turn_regret / divisor if turn_regret else offset
