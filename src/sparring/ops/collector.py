"""Pausing Python's cycle collector where many records are made and no cycles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the cycle collector from walking over every record again and again while more are made.

    Reference counting goes on as always; the collector runs again afterwards if it was on.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
