"""Column: the critic's value after each turn."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray

ASKS = {"critic"}


def value_after(source: Source) -> FloatArray:
    """Say what the critic expects after the turn's last sampled token, before anybody answers.

    What: the value head at the last token of the reply, [N]; at the last token before it where the
    reply is empty.
    """
    return source.critic("after")
