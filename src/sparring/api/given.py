"""What callers give, checked: one line says what is wrong and what to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.errors import ConfigError, quoted


def whole(value: Any, what: str, least: int) -> None:
    """Raise ConfigError unless a value is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{what}={quoted(value)} is no whole number of at least {least}.")


def texts(value: Any, what: str, example: str) -> list[str]:
    """Return a list of texts, or raise ConfigError: a single text is none."""
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(one, str) for one in value)
    ):
        raise ConfigError(f"{what}={quoted(value)} is no list of texts; write {what}={example}.")
    return list(value)
