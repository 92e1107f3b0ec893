"""Reward: share of the workers called by a lead that were successful."""

from __future__ import annotations

from sparring.core.records import Episode
from sparring.environments.base import Environment
from sparring.methods.rewards.counts import pay_leads

NEEDS = {"game"}


def subtasks_finished(episode: Episode, game: Environment) -> tuple[float | None, ...]:
    """Pay a lead for the share of successful workers: r_finish of Agent Swarm (PARL).

    What: the number of successful workers, divided by the number of called workers.
    When to use: beside ``spawn``, against spurious parallelism (useless calls of workers). A
    schedule should lower the ``weight`` to 0; set ``reorder_outcomes``.
    Mathematics: on the last turn of the lead
        r = F / sum over t of w_t
    w_t is the number of workers in wave t, and F the number of successful workers in all waves. In
    ``dag_search`` a worker is successful if it finishes its sub-task, in ``wide_search`` if it
    notes a new right cell.
    Shapes: one number per turn, in [0, 1]; None on all turns but the lead's last one, and in
    environments without a lead.
    Pitfalls: one successful worker earns as much as many, so without another reward few calls are
    best. Without workers the reward is 0; the published text does not define this case.
    Reference: Kimi K2.5 (arXiv 2602.02276). The report names the rewarded quantity; form, weight
    and schedule are not published. This form is ours.
    Verified by: tests/methods/rewards/test_lead_rewards.py.

    Raises:
        RewardError: the environment is a combinator, such as ``trial``, of an environment with a
            lead.
    """
    return pay_leads(episode, game, "finished_share", "subtasks_finished")
