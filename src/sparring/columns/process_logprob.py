"""Column: the reward model's log-probability of each turn."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray

ASKS = {"process"}
NEEDS = {"old_logprob"}  # what the reward model is trained against


def process_logprob(source: Source) -> FloatArray:
    """Say how probable the reward model holds the turn's reply, after its training in this step.

    What: the sum over the turn's sampled tokens of log pi_process(token), [N], nats. The process
    model is trained on pairs of plays at the estimator's option ``beta``; see the configuration's
    section ``process``.
    """
    return source.logprobs("process")
