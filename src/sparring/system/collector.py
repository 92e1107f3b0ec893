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


@contextlib.contextmanager
def settled_heap() -> Iterator[None]:
    """Leave what is there already out of the cycle collector's walks.

    Libraries and models, a million objects that stay.

    A full walk over them takes a third of a second, every ten steps or so of a small run. They are
    given back at the end, unless somebody else had set objects aside before.
    """
    ours = gc.get_freeze_count() == 0
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()
