"""Embedding: hashed counts of words and of runs of letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sparring.core.records import FloatArray
from sparring.ops.clusters import embedded


def ngrams(texts: Sequence[str], *, size: Annotated[int, Field(ge=8, le=4096)] = 256) -> FloatArray:
    """Hashed counts of words, pairs of words and runs of three letters, without a model.

    What: statements are near each other where they share words and letters.
    When to use: the default. It needs nothing, and is the same on every machine.
    Mathematics: each feature f of a text adds sign(f) to place h(f) of a vector x of fixed size;
        the vector is x / |x|.
    Shapes: texts, n; vectors, [n, size].
    Pitfalls: what means the same in other words is apart. Two features may share a place, more
    often the smaller ``size`` is.
    Reference: Weinberger et al., 2009, "Feature hashing for large scale multitask learning".
    Verified by: tests/ops/test_clusters.py, tests/methods/knowledge/test_embeddings.py.

    Args:
        texts: to embed.
        size: of a vector, 8 to 4096. Default 256.
    """
    return embedded(texts, size=size)
