"""Column: the learner's log-probability of each turn, before its update."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray


def old_logprob(source: Source) -> FloatArray:
    """Say how probable the learner holds the turn's reply, before the step's update.

    What: the sum over the turn's sampled tokens of log pi(token), [N], nats. It differs from the
    column ``logprob``, the sampler's, where a play is older than the weights, or where another
    engine sampled it.
    """
    return source.logprobs("learner")
