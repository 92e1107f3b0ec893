"""Process reward: whether the action is one of the best."""

from __future__ import annotations

from sparring.core.records import Episode
from sparring.methods.oracles.judge import is_best

NEEDS = {"verdicts"}
READS = "turn"


def best_action(
    episode: Episode, *, right: float = 1.0, wrong: float = 0.0
) -> tuple[float | None, ...]:
    """Whether the oracle holds the action for one of the best: VPR's verifiable process reward.

    What: every turn is paid for itself, however the game ends.
    When to use: where an oracle can tell right actions from wrong ones; with credit ``vpr``, or any
    estimator of returns.
    Mathematics:
        r_t = right if a_t is in argmax_a Q(s_t, a), else wrong
    Q and its ties are the oracle's.
    Shapes: one number per turn, None where the oracle abstained.
    Pitfalls: a large error and a small one cost the same (see ``regret``). Where every action is
    equally good, in a lost position too, each of them is right. The sum over a game is larger in
    long games: set outcome_weight, or use credit that looks at one turn. It is shaping: set
    ``reorder_outcomes`` to have it whole.
    Reference: arXiv 2605.10325 (VPR).
    Verified by: tests/methods/rewards/test_verdict_rewards.py.

    Args:
        right: reward of a turn whose action is one of the best. Default 1.
        wrong: reward of a turn with any other action, or with a reply that is no legal action.
            Default 0.
    """
    found = map(is_best, episode.turns)
    return tuple(None if best is None else right if best else wrong for best in found)
