"""Texts as vectors without a model: hashed counts of words and of runs of letters.

A text is made small, numbers and names are masked, so that statements are alike by what they say
and not by whom. Each feature f of a text adds sign(f) to place h(f) of a vector of fixed size,
which is then divided by its length:

    x[h(f)] += sign(f) for every f;   x / |x|

Features are its words, pairs of neighbouring words, and runs of three letters of a word with its
ends marked (Weinberger et al., 2009). h and sign are the same on every machine.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from sparring.core.records import FloatArray
from sparring.core.rng import Stream

LETTERS = 3  # of a run
_WORD = re.compile(r"[^\W_]+(?:[-'_][^\W_]+)*|[@#]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def embedded(
    texts: Sequence[str], *, size: int = 256, names: Sequence[str] = (), salt: int = 0
) -> FloatArray:
    """Return texts as vectors of length 1, [n, size]; 0 where a text has no word.

    Args:
        texts: to embed.
        size: of a vector.
        names: words that stand for players; all of them become one and the same.
        salt: another one gives another table of places.
    """
    masking = finder(tuple(names))
    found = np.zeros((len(texts), size))
    for row, text in enumerate(texts):
        for feature in _features(masked(text, masking)):
            place, sign = _place(feature, size, salt)
            found[row, place] += sign
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return found / np.where(lengths > 0, lengths, 1.0)


def masked(text: str, names: re.Pattern[str] | None = None) -> str:
    """Return a text in small letters, with "@" for each name and "#" for each number."""
    small = text.lower()
    return _NUMBER.sub("#", small if names is None else names.sub("@", small))


@lru_cache(maxsize=64)
def finder(names: tuple[str, ...], flags: int = 0) -> re.Pattern[str] | None:
    """Return what finds whole names, the longest first; None where there are none.

    Args:
        names: to find, in small letters.
        flags: of ``re``; with ``re.IGNORECASE`` large letters are found too.
    """
    words = sorted({name.lower() for name in names if name}, key=lambda name: (-len(name), name))
    if not words:
        return None
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", flags)


def _features(text: str) -> Iterator[str]:
    """Yield the features of a masked text, each as often as it is there."""
    words = _WORD.findall(text)
    for word in words:
        yield f"w {word}"
        ends = f"^{word}$"
        for begin in range(len(ends) - LETTERS + 1):
            yield f"c {ends[begin : begin + LETTERS]}"
    for first, second in itertools.pairwise(words):
        yield f"p {first} {second}"


@lru_cache(maxsize=65536)
def _place(feature: str, size: int, salt: int) -> tuple[int, float]:
    """Return where a feature is counted, and with which sign."""
    number = Stream.from_seed(salt).child(feature).key
    return (number >> 1) % size, 1.0 if number & 1 else -1.0
