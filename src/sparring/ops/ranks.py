"""Ranks; apart from other statistics, as ``scipy.stats`` takes half a second to import."""

from __future__ import annotations

from collections.abc import Sequence

from scipy.stats import spearmanr

__all__ = ["rank_correlation"]


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Spearman's rank correlation of pairs; None where one side never changes."""
    sides = [set(side) for side in zip(*pairs, strict=True)]
    if len(sides) < 2 or any(len(side) < 2 for side in sides):
        return None
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)
