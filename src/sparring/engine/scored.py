"""What scoring plays again has found, and the metrics of it; see ``sameness``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

SAME = ("logprob_difference_max", "logprob_difference_mean")


class Scored(NamedTuple):
    """The |learner - sampler| log-probabilities of a policy's tokens in one play."""

    policy: str
    tokens: int
    total: float  # their sum
    largest: float


def metrics(plays: Sequence[Scored], policy: str) -> Mapping[str, float]:
    """Return a policy's ``logprob_difference_max`` and ``_mean``; nothing where none was scored."""
    own = [one for one in plays if one.policy == policy]
    if not own:
        return {}
    mean = sum(one.total for one in own) / sum(one.tokens for one in own)
    return dict(zip(SAME, (max(one.largest for one in own), mean), strict=True))
