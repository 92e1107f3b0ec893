"""Process reward: what the position after the turn is worth, by playing on from it."""

from __future__ import annotations

from sparring.core.records import Episode

NEEDS = {"playouts"}


def playout_value(episode: Episode) -> tuple[float | None, ...]:
    """The mean return of games played on from after the turn (MC-PR).

    It is the rollout-based process reward.

    What: every turn is paid what its position is worth to the policy as it plays now.
    When to use: where there is no oracle. It is the baseline that VPR is compared with. Set
    rollout.playouts to the number of games per turn.
    Mathematics:
        r_t = (1/K) sum over k of R_k
    with R_k the seat's return of a game that shares all turns up to t. After the last turn it is
    the game's own return.
    Shapes: one number per turn, None where the games failed.
    Pitfalls: it costs K games for every turn of the batch, and a small K gives a noisy mean. These
    are values of positions, not gains: compare them at the same turn of the group (credit ``vpr``),
    do not sum them. It is shaping: set ``reorder_outcomes`` to have it whole.
    Reference: MC-PR, the baseline of arXiv 2605.10325; Kazemnejad et al., 2024 (VinePPO, arXiv
    2410.01679) estimates values so.
    Verified by: tests/methods/rewards/test_verdict_rewards.py, tests/play/test_playouts.py.
    """
    return tuple(turn.playout for turn in episode.turns)
