"""Process reward: whether the action is one of the best actions."""

from __future__ import annotations

from sparring.core.records import Episode
from sparring.methods.oracles.judge import is_best

NEEDS = {"verdicts"}
READS = "turn"


def best_action(
    episode: Episode, *, right: float = 1.0, wrong: float = 0.0
) -> tuple[float | None, ...]:
    """Reward the oracle's best actions: VPR's verifiable process reward.

    What: the reward of a turn does not depend on the outcome.
    When to use: with an oracle that distinguishes right from wrong actions; with credit ``vpr``, or
    any estimator of returns.
    Mathematics:
        r_t = right if a_t is in argmax_a Q(s_t, a), else wrong
    Q and its ties are the oracle's.
    Shapes: one number per turn, None where the oracle abstained.
    Pitfalls:
        - Large and small errors cost the same (see ``regret``).
        - If all actions are equally good, also in a lost position, each of them is right.
        - The sum is larger in long episodes: set outcome_weight, or use credit per turn.
        - The reward is shaping: set ``reorder_outcomes`` for the unscaled reward.
    Reference: arXiv 2605.10325 (VPR).
    Verified by: tests/methods/rewards/test_verdict_rewards.py.

    Args:
        right: reward of a turn whose action is one of the best. Default 1.
        wrong: reward of a turn with any other action, or with an illegal reply. Default 0.
    """
    flags = map(is_best, episode.turns)
    return tuple(None if best is None else right if best else wrong for best in flags)
