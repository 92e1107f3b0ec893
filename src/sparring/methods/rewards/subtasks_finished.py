"""Reward: share of a lead's calls that ended well."""

from __future__ import annotations

from sparring.core.records import Episode
from sparring.environments.base import Environment
from sparring.methods.rewards.counts import pay_leads

NEEDS = {"game"}


def subtasks_finished(episode: Episode, game: Environment) -> tuple[float | None, ...]:
    """Pay a lead for the share of its calls that ended well: r_finish of Agent Swarm (PARL).

    What: the share of called workers that finished something.
    When to use: beside ``spawn``, against spurious parallelism (useless calls of workers). A
    schedule should lower the ``weight`` to 0; set ``reorder_outcomes``.
    Mathematics: on the last turn of the lead, with w_t workers in wave t, F of whom ended well
        r = F / sum over t of w_t
    and 0 without calls. In ``dag_search`` a call ended well if it finished its sub-task, in
    ``wide_search`` if it noted a new right cell.
    Shapes: one number per turn, in [0, 1]; None on all turns but the lead's last one, and in
    environments without a lead.
    Pitfalls: one call that ends well pays as much as many, so without another reward few calls are
    best. An empty call earns 0; the published text does not define this.
    Reference: Kimi K2.5 (arXiv 2602.02276). The report names the rewarded quantity; form, weight
    and schedule are not published. This form is ours.
    Verified by: tests/methods/rewards/test_lead_rewards.py.

    Raises:
        RewardError: the environment is a combinator, such as ``trial``, of an environment with a
            lead.
    """
    return pay_leads(episode, game, "finished_share", "subtasks_finished")
