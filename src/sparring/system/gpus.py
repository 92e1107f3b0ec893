"""Which GPUs of this machine a process is given: it sees those alone, counted from 0."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sparring.errors import ConfigError

VARIABLE = "CUDA_VISIBLE_DEVICES"  # names the GPUs that CUDA shows a process, in order


def seeing(gpus: Sequence[int], key: str) -> dict[str, str]:
    """Return the variable of a process that is to see some of the GPUs that this one sees.

    Args:
        gpus: their numbers here.
        key: of the configuration that names them, for the error.

    Raises:
        ConfigError: this process does not see one of them.
    """
    return {VARIABLE: ",".join(_name(gpu, key) for gpu in gpus)}


def _name(gpu: int, key: str) -> str:
    """Return the name of one of the GPUs that this process sees, which may not be all."""
    seen = os.environ.get(VARIABLE)
    if seen is None:
        return str(gpu)
    names = [name.strip() for name in seen.split(",") if name.strip()]
    if gpu >= len(names):
        raise ConfigError(
            f"{key} names GPU {gpu}, and {VARIABLE}={seen} leaves {len(names)}, "
            "which are counted from 0. Write fewer GPUs, or unset that variable."
        )
    return names[gpu]
