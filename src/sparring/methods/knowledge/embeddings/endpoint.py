"""Embedding: vectors of an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sparring.core.endpoint_connection import Connection, MalformedError
from sparring.core.errors import RolloutError
from sparring.core.records import FloatArray
from sparring.methods.knowledge.embeddings.base import scale_to_unit_length

# number of characters of a text that are sent; they fit into every embedding model's context
MAX_CHARACTERS = 8_000


def endpoint(
    texts: Sequence[str],
    *,
    model: str,
    base_url: str = "https://api.openai.com/v1",
    key_variable: str = "OPENAI_API_KEY",
    batch: Annotated[int, Field(ge=1, le=2048)] = 128,
    timeout: Annotated[float, Field(gt=0)] = 60.0,
    retries: Annotated[int, Field(ge=0, le=100)] = 5,
) -> FloatArray:
    """Vectors of a model behind an OpenAI-compatible endpoint of embeddings.

    What: each distinct text is sent once per process, ``batch`` texts per request.
    When to use: for free text, where an embedding model is served (OpenAI, vLLM, Ollama). LSPO
    as published uses text-embedding-3-small. Needs the extra ``endpoint``.
    Mathematics: the endpoint's vectors, divided by their lengths.
    Shapes: texts, n; vectors, [n, d] with the endpoint's d.
    An empty text is not sent, because endpoints reject empty texts; its vector is zero. Only the
    first 8,000 characters of a text are sent.
    Pitfalls: a run is reproducible only if the endpoint returns the same vectors again. The cost
    of the requests is not counted.
    Reference: OpenAI API reference, "Create embeddings"; Xu et al., 2025, arXiv:2502.04686.
    Verified by: tests/methods/knowledge/test_embeddings.py.

    Args:
        texts: the texts to embed.
        model: the model's name at the endpoint, e.g. text-embedding-3-small.
        base_url: address of the API, without "/embeddings". The host is this machine, the provider
            of the key, or a host in the environment variable SPARRING_ENDPOINT_HOSTS.
        key_variable: name of the environment variable that holds the key. Addresses of this machine
            need no key.
        batch: texts per request, 1 to 2048. Default 128.
        timeout: timeout of one try in seconds. Default 60.
        retries: tries after the first one. Default 5.

    Raises:
        ConfigError: the key, the permission for the address, or the package openai is missing.
        RolloutError: the endpoint did not return one vector per text.
    """
    cache, connection = _cache_and_connection(base_url, key_variable, timeout, retries, model)
    texts = [text.strip()[:MAX_CHARACTERS] for text in texts]
    new_texts = sorted({*texts} - cache.keys() - {""})
    for chunk in (new_texts[start : start + batch] for start in range(0, len(new_texts), batch)):
        request = {"model": model, "input": chunk, "encoding_format": "float"}
        parse = partial(_parse_vectors, num_texts=len(chunk))
        vectors = connection.send("/embeddings", request, parse, "embeddings")
        cache.update(zip(chunk, vectors, strict=True))
    sizes = {len(cache[text]) for text in texts if text} or {1}
    if len(sizes) > 1:
        raise RolloutError(
            f"Endpoint {base_url} (model {model!r}) returned vectors of several sizes."
        )
    return scale_to_unit_length([cache[text] if text else [0.0] * min(sizes) for text in texts])


@lru_cache(maxsize=8)
def _cache_and_connection(
    base_url: str, key_variable: str, timeout: float, retries: int, model: str
) -> tuple[dict[str, list[float]], Connection]:
    return {}, Connection(
        base_url=base_url, key_variable=key_variable, timeout=timeout, retries=retries
    )


def _parse_vectors(body: str, num_texts: int) -> list[list[float]]:
    try:
        data: list[dict[str, Any]] = json.loads(body)["data"]
        vector_of = {int(entry["index"]): [float(x) for x in entry["embedding"]] for entry in data}
        vectors = [vector_of[index] for index in range(num_texts)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise MalformedError(body.strip() or "an empty body") from None
    if not all(vector and np.isfinite(vector).all() for vector in vectors):
        raise MalformedError(body.strip())
    return vectors
