"""What torch says of this machine, and how fast it is here."""

from __future__ import annotations

import time
from typing import Any

import torch

MATRIX, REPEATS = 1024, 3  # of the product that is timed


def facts() -> dict[str, Any]:
    """Return the threads that torch takes, and whether there is a GPU that it can use."""
    return {"torch_threads": torch.get_num_threads(), "cuda": torch.cuda.is_available()}


def operations_per_second() -> float:
    """Return the rate of a matrix product on this machine's CPU, in floating-point operations per
    second.
    """
    matrix = torch.ones(MATRIX, MATRIX)
    began = time.perf_counter()
    for _ in range(REPEATS):
        matrix @ matrix
    return REPEATS * 2 * MATRIX**3 / (time.perf_counter() - began)
