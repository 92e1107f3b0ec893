"""Reward: a lead's use of parallel workers."""

from __future__ import annotations

from sparring.core.records import Episode
from sparring.environments.base import Environment
from sparring.methods.rewards.counts import pay_leads

NEEDS = {"game"}


def spawn(episode: Episode, game: Environment) -> tuple[float | None, ...]:
    """Pay a lead for calling several workers at once: r_parallel of Agent Swarm (PARL).

    What: the width of the widest wave, independent of its result.
    When to use: against serial collapse, a lead that never tries more than one worker. A schedule
    should lower the ``weight`` to 0; set ``reorder_outcomes``.
    Mathematics: on the last turn of the lead, with w_t workers in wave t, at most W
        r = (max over t of w_t - 1) / (W - 1)
    and 0 where W is 1.
    Shapes: one number per turn, in [0, 1]; None on all turns but the lead's last one, and in
    environments without a lead.
    Pitfalls:
        - The reward also pays for idle workers; add ``subtasks_finished``, which does not.
        - With a constant weight the reward pays for width without a use (spurious parallelism).
        - The bound on shaping would scale the reward down, unless ``reorder_outcomes`` is set.
    Reference: Kimi K2.5 (arXiv 2602.02276). The report names the rewarded quantity; form, weight
    and schedule are not published. This form is ours.
    Verified by: tests/methods/rewards/test_lead_rewards.py.

    Raises:
        RewardError: the environment is a combinator, such as ``trial``, of an environment with a
            lead.
    """
    return pay_leads(episode, game, "parallel", "spawn")
