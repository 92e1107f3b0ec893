"""Column: the critic's value before each sampled token."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray

ASKS, PER = {"critic"}, "token"


def token_value(source: Source) -> FloatArray:
    """Say what the critic expects before each sampled token.

    What: the value head at the token before it, one number per sampled token, in the order of the
    table's rows.
    """
    return source.critic("token")
