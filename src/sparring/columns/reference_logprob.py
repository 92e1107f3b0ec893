"""Column: the reference policy's log-probability of each turn."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray

ASKS = {"reference"}


def reference_logprob(source: Source) -> FloatArray:
    """Say how probable the policy before the first step holds the turn's reply.

    What: the sum over the turn's sampled tokens of log pi_ref(token), [N], nats. It takes a frozen
    copy of the model.
    """
    return source.logprobs("reference")
