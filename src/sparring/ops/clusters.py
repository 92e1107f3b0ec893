"""Embeds texts as vectors without a model, and clusters weighted points.

A text is converted to lower case, and its numbers and names are masked, so that statements are
compared by content and not by speaker. Each feature f of a text adds sign(f) to entry h(f) of a
vector of fixed size, which is then divided by its length:

    x[h(f)] += sign(f) for every f;   x / |x|

The features of a text are its words, pairs of neighbouring words, and runs of three letters of a
word with its ends marked (Weinberger et al., 2009). h and sign are the same on every machine.

k-means is seeded. Initial centres are drawn as in k-means++: the next centre is a point, with
probability in proportion to its weight times its squared distance from the nearest centre (Arthur
and Vassilvitskii, 2007); of several runs, the (first) run with the smallest inertia is returned:

    inertia = sum over points of weight * |point - its centre|^2

A point at equal distance from two centres belongs to the first.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import linear_sum_assignment

from sparring.core.records import FloatArray, IntArray
from sparring.core.rng import Stream

LETTERS_PER_FEATURE = 3  # letters in a run of neighbouring letters
_WORD = re.compile(r"[^\W_]+(?:[-'_][^\W_]+)*|[@#]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def embed_texts(
    texts: Sequence[str], *, size: int = 256, names: Sequence[str] = (), salt: int = 0
) -> FloatArray:
    """Return texts as vectors of length 1, [n, size]; zeros for a text without words.

    Args:
        texts: the texts.
        size: length of a vector.
        names: names of players; all of them become the same token.
        salt: seed of the hash.
    """
    pattern = name_pattern(tuple(names))
    vectors = np.zeros((len(texts), size))
    for row, text in enumerate(texts):
        for feature in _features(mask_text(text, pattern)):
            index, sign = _hash_feature(feature, size, salt)
            vectors[row, index] += sign
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def mask_text(text: str, names: re.Pattern[str] | None = None) -> str:
    """Return a text in lower case, with "@" for each name and "#" for each number."""
    lower_case = text.lower()
    return _NUMBER.sub("#", lower_case if names is None else names.sub("@", lower_case))


@lru_cache(maxsize=64)
def name_pattern(names: tuple[str, ...], flags: int = 0) -> re.Pattern[str] | None:
    """Return the pattern that matches whole names, the longest first; None without names.

    Args:
        names: the names, in lower case.
        flags: flags of ``re``; ``re.IGNORECASE`` matches capital letters too.
    """
    words = sorted({name.lower() for name in names if name}, key=lambda name: (-len(name), name))
    if not words:
        return None
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", flags)


def _features(text: str) -> Iterator[str]:
    words = _WORD.findall(text)
    for word in words:
        yield f"w {word}"
        marked_word = f"^{word}$"
        for begin in range(len(marked_word) - LETTERS_PER_FEATURE + 1):
            yield f"c {marked_word[begin : begin + LETTERS_PER_FEATURE]}"
    for first, second in itertools.pairwise(words):
        yield f"p {first} {second}"


@lru_cache(maxsize=65536)
def _hash_feature(feature: str, size: int, salt: int) -> tuple[int, float]:
    """Return the entry of the vector to which a feature adds, and the feature's sign."""
    hash_value = Stream.from_seed(salt).child(feature).key
    return (hash_value >> 1) % size, 1.0 if hash_value & 1 else -1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Clusters:
    """Centres [k, d], the cluster of each point [n], and the inertia."""

    centres: FloatArray
    cluster_of: IntArray
    inertia: float


def nearest(points: FloatArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return each point's nearest centre and its squared distance from this centre, [n] each."""
    distances = squared_distances(points, centres)
    nearest_centres = distances.argmin(axis=1)
    return nearest_centres, distances[np.arange(len(points)), nearest_centres]


def squared_distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return the squared distance of each point from each centre, [n, k]."""
    distances: FloatArray = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    return distances


def k_means(
    points: FloatArray,
    weights: FloatArray,
    k: int,
    stream: Stream,
    *,
    starts: int = 16,
    steps: int = 100,
) -> Clusters:
    """Return k clusters, the heaviest first; fewer if there are fewer distinct points.

    Args:
        points: [n, d], n at least 1.
        weights: weights of the points, above 0, [n].
        k: number of clusters, at least 1.
        stream: the stream of the draws of initial centres.
        starts: number of runs, each from different initial centres.
        steps: largest number of steps of a run.
    """
    sites, distinct_of = np.unique(points, axis=0, return_inverse=True)
    mass = np.bincount(distinct_of.reshape(-1), weights=weights).astype(np.float64)
    runs = [
        _descend(sites, mass, _draw_centres(sites, mass, k, stream.child(run_index)), steps)
        for run_index in range(starts)
    ]
    best_run = min(runs, key=lambda fit: fit.inertia)
    masses = np.bincount(best_run.cluster_of, weights=mass, minlength=len(best_run.centres))
    order = np.lexsort((*best_run.centres.T[::-1], -masses))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Clusters(
        centres=best_run.centres[order],
        cluster_of=rank[best_run.cluster_of][distinct_of.reshape(-1)],
        inertia=best_run.inertia,
    )


def _draw_centres(points: FloatArray, weights: FloatArray, k: int, stream: Stream) -> FloatArray:
    indices: list[int] = []
    chances = weights
    while len(indices) < min(k, len(points)):
        sums = np.cumsum(chances)
        target = stream.uniform(len(indices)) * sums[-1]
        indices.append(int(np.searchsorted(sums, target, side="right").clip(0, len(points) - 1)))
        chances = weights * nearest(points, points[indices])[1]
    return points[indices]


def _descend(points: FloatArray, weights: FloatArray, centres: FloatArray, steps: int) -> Clusters:
    centre_of, distances = nearest(points, centres)
    for _ in range(steps):
        mass = np.bincount(centre_of, weights=weights, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, centre_of, weights[:, None] * points)
        centres = np.where(
            mass[:, None] > 0, sums / np.where(mass > 0, mass, 1.0)[:, None], centres
        )
        next_centre_of, distances = nearest(points, centres)
        if np.array_equal(next_centre_of, centre_of):
            break
        centre_of = next_centre_of
    return Clusters(centres=centres, cluster_of=centre_of, inertia=float(weights @ distances))


def match_to_earlier(centres: FloatArray, earlier: FloatArray) -> IntArray:
    """Return an order of centres: first the centres that are paired with earlier ones, [k].

    The pairs have the smallest sum of squared distances. Centres without a partner come last;
    earlier centres without a partner are ignored.

    Args:
        centres: [k, d].
        earlier: [j, d].
    """
    rows, columns = linear_sum_assignment(squared_distances(earlier, centres))
    pairs = sorted(zip(rows.tolist(), columns.tolist(), strict=True))
    paired_centres = [int(centre) for _, centre in pairs]
    other_centres = [centre for centre in range(len(centres)) if centre not in paired_centres]
    return np.array([*paired_centres, *other_centres], dtype=np.int64)
