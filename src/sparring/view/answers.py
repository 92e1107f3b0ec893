"""Answers of the viewer: JSON as browsers read it, and refusals of one line."""

from __future__ import annotations

import json
from typing import Any

from sparring.core.errors import SparringError
from sparring.report.episode_record import finite

LONGEST = 300  # characters of a line that says what is wrong


class Refused(SparringError):
    """A request that is answered by an error.

    Args:
        status: of HTTP.
        message: one line.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON in ASCII, so that no half character can break it."""
    return json.dumps(finite(value), allow_nan=False, separators=(",", ":")).encode("ascii")


def one_line(error: BaseException) -> str:
    """Return what an error says as a line of at most 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
