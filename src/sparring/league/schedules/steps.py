"""Schedule: a snapshot every ``league.every`` steps."""

from __future__ import annotations

from sparring.league.schedules.base import ScheduleRequest


def steps(request: ScheduleRequest) -> bool:
    """Take a snapshot every ``league.every`` steps.

    What: a snapshot is due as soon as the learner's last one is ``league.every`` steps old.
    When to use: the default: phases of equal length, with a known number of episodes.
    Mathematics: with a the steps since the last snapshot,

        due = (a >= every)

    Pitfalls: a learner that has not improved yet also becomes a member.
    Reference: the timer of policy-space response oracles, Lanctot et al., 2017 (arXiv 1711.00832).
    Verified by: tests/league/schedules/test_steps.py.
    """
    return request.age >= request.every
