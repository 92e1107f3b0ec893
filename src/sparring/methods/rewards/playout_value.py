"""Process reward: the value of the state after the turn, by playouts."""

from __future__ import annotations

from sparring.core.records import Episode

NEEDS = {"playouts"}


def playout_value(episode: Episode) -> tuple[float | None, ...]:
    """Pay the mean return of playouts that start after the turn (MC-PR, a process reward).

    What: the reward of a turn is the value of the next state under the current policy.
    When to use: without an oracle, as the baseline of VPR. rollout.playouts is the number of
    playouts per turn.
    Mathematics:
        r_t = (1/K) sum over k of R_k
    with R_k the seat's return of a playout that shares all turns up to t. After the last turn r_t
    is the episode's return.
    Shapes: one number per turn, None if the playouts failed.
    Pitfalls:
        - Every turn of the batch costs K playouts, and a small K gives a noisy mean.
        - The numbers are values of states, not gains: compare them at the same turn of the group
          (credit ``vpr``), do not sum them.
        - The reward is shaping: set ``reorder_outcomes`` for the unscaled reward.
    Reference: MC-PR, the baseline of arXiv 2605.10325; Kazemnejad et al., 2024 (VinePPO, arXiv
    2410.01679) estimates values in the same way.
    Verified by: tests/methods/rewards/test_verdict_rewards.py, tests/play/test_playouts.py.
    """
    return tuple(turn.playout for turn in episode.turns)
