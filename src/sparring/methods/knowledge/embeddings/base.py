"""What turns statements into vectors.

An embedding is given the statements of a kind of action, in small letters and with "@" for names
and "#" for numbers, and returns a vector for each. A statement has the same vector whatever stands
beside it, in every step of a run: what was clustered in one step is compared with in later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import FloatArray


def check_output(embedding: BoundPlugin, given: Any, texts: Sequence[str]) -> None:
    """Check what an embedding has given; every call of one ends here.

    Raises:
        PluginError: it is no finite vector for each text.
    """
    shape, kind = np.shape(given), np.asarray(given).dtype.kind
    if len(shape) != 2 or shape[0] != len(texts) or kind != "f" or not np.isfinite(given).all():
        raise PluginError(
            f"The {embedding} must give a vector of finite numbers for each of {len(texts)} texts, "
            f"an array [{len(texts)}, d]; it gave {kind!r} of shape {shape}."
        )


def of_length_one(rows: Sequence[Sequence[float] | FloatArray]) -> FloatArray:
    """Return vectors divided by their lengths, [n, d]; 0 stays 0."""
    vectors = np.array(rows, dtype=np.float64).reshape(len(rows), -1 if len(rows) else 0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: FloatArray = vectors / np.where(lengths > 0, lengths, 1.0)
    return found
