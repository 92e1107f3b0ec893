"""Interface of embedding plug-ins, which turn statements into vectors.

The input is the statements of a kind of action, in lower case, with "@" for names and "#" for
numbers. The output is a vector for each statement. The vector must not depend on the batch or the
step, because later steps compare statements with the clusters of earlier steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import FloatArray


def check_output(embedding: BoundPlugin, output: Any, texts: Sequence[str]) -> None:
    """Check the output of an embedding, after every call.

    Raises:
        PluginError: the output is not one finite vector per text.
    """
    shape, kind = np.shape(output), np.asarray(output).dtype.kind
    if len(shape) != 2 or shape[0] != len(texts) or kind != "f" or not np.isfinite(output).all():
        raise PluginError(
            f"The {embedding} must return a vector of finite numbers for each of {len(texts)} "
            f"texts, an array [{len(texts)}, d]; it returned {kind!r} of shape {shape}."
        )


def scale_to_unit_length(rows: Sequence[Sequence[float] | FloatArray]) -> FloatArray:
    """Return the vectors divided by their lengths, [n, d]; a zero vector stays 0."""
    vectors = np.array(rows, dtype=np.float64).reshape(len(rows), -1 if len(rows) else 0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit_vectors: FloatArray = vectors / np.where(lengths > 0, lengths, 1.0)
    return unit_vectors
