"""What torch says of this machine, and what the bits of a computation depend on here."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy
import torch

import sparring
from sparring.errors import RunError


def facts() -> dict[str, Any]:
    """Return the threads that torch takes, and whether there is a GPU that it can use."""
    return {"torch_threads": torch.get_num_threads(), "cuda": torch.cuda.is_available()}


def fingerprint() -> dict[str, str]:
    """Return what the bits of a computation depend on here: versions, processor, and compilers."""
    return {
        "sparring": sparring.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "compiler": os.environ.get("CC", ""),
    }


def check_same(theirs: object) -> None:
    """Refuse a worker that computes other bits.

    Raises:
        RunError: it runs on another processor, or other versions.
    """
    ours = fingerprint()
    if theirs == ours:
        return
    known: Mapping[Any, Any] = theirs if isinstance(theirs, dict) else {}
    name = next(name for name in ours if ours[name] != known.get(name))
    raise RunError(
        f"A worker has {name} {known.get(name)!r} and the training process {ours[name]!r}, so that "
        "its replies would have other bits. Install the same on both, or leave that machine out; "
        "scale.mixed=true lets it play, and no bytes are promised."
    )
