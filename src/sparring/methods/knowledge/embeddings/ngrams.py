"""Embedding: hashed counts of words and of runs of letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sparring.core.records import FloatArray
from sparring.ops.clusters import embed_texts


def ngrams(texts: Sequence[str], *, size: Annotated[int, Field(ge=8, le=4096)] = 256) -> FloatArray:
    """Hashed counts of words, pairs of words and runs of three letters, without a model.

    What: statements that share words and letters have similar vectors.
    When to use: the default. The vectors need no model and are the same on every machine.
    Mathematics: each feature f of a text adds sign(f) to entry h(f) of a vector x of fixed size;
        the vector is x / |x|.
    Shapes: texts, n; vectors, [n, size].
    Pitfalls: paraphrases get distant vectors. Two features may share an entry; a smaller ``size``
    makes this more frequent.
    Reference: Weinberger et al., 2009, "Feature hashing for large scale multitask learning".
    Verified by: tests/ops/test_clusters.py, tests/methods/knowledge/test_embeddings.py.

    Args:
        texts: the texts to embed.
        size: size of a vector, 8 to 4096. Default 256.
    """
    return embed_texts(texts, size=size)
