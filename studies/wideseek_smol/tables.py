"""The tables of SmolLM2 in studies/wideseek/page.md."""

from __future__ import annotations

import math

from sparring.core.records import Interval
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    interval_text,
    markdown,
    mean,
    paired_difference,
    seeds_of,
    spread,
    table_with_words,
    words_of_differences,
)
from studies.common.self_played import TOKENS_FIGURE
from studies.wideseek_smol.study import (
    BARE,
    PRETRAINED,
    TEACHER,
    TRAINED,
    WARM_UP,
)

NAMES = {
    PRETRAINED: "as downloaded",
    TEACHER: "the scripted team that the warm-up imitates",
    WARM_UP: "after the warm-up",
    TRAINED: "trained by reward from there",
}
SHARES = (BARE, "item_f1", "success", "legal")
COUNTS = ("width", "critical_steps", "total_steps")


def figures_by_model(results: Results) -> str:
    """Return F1 and cost of each model's team on tables unseen in training."""
    head = ("model", "non-key F1", "item F1", "whole tables", "legal replies", "width")
    more = ("critical steps", "total steps", "thousand tokens sampled", "minutes")
    lines = []
    for arm_row in (row for arm in NAMES for row in results.rows(arm=arm)):
        shares = (spread(arm_row, name, low=0.0, high=1.0) for name in SHARES)
        counts = (spread(arm_row, name) for name in COUNTS)
        costs = (
            f"{mean(arm_row, TOKENS_FIGURE) / 1e3:.0f}",
            f"{mean(arm_row, 'seconds') / 60:.0f}",
        )
        lines.append((NAMES[arm_row["arm"]], *shares, *counts, *costs))
    return markdown((*head, *more), lines)


def apart(results: Results) -> str:
    """Return non-key F1 before and after, seed by seed with intervals over plays, and the gain."""
    head = ("compared with", "seed", "its non-key F1", "non-key F1 after training", "verdict")
    lines, gaps = list[tuple[str, ...]](), list[Interval]()
    for after in results.rows(arm=TRAINED):
        for before in (row for arm in NAMES if arm != TRAINED for row in results.rows(arm=arm)):
            name, is_paired = NAMES[before["arm"]], seeds_of(before) == seeds_of(after)
            for seed in seeds_of(after):
                first, other = _plays(after, seed), _plays(before, seed if is_paired else "0")
                gaps.append(_gap(first, other))
                lines.append((name, seed, interval_text(other), interval_text(first)))
            if is_paired:
                gaps.append(paired_difference(after, before, BARE))
                lines.append((name, "all: difference", "", interval_text(gaps[-1])))
    return table_with_words(head, lines, words_of_differences(gaps, "above", "below"))


def _gap(first: Interval, other: Interval) -> Interval:
    """Return the difference of two means over as many plays each, as if these were independent."""
    mean, halves = (
        first.mean - other.mean,
        ((estimate.high - estimate.low) / 2 for estimate in (first, other)),
    )
    half = math.hypot(*halves)
    return Interval(mean=mean, low=mean - half, high=mean + half, count=first.count)


def _plays(row: Row, seed: str) -> Interval:
    """Return non-key F1 of a seed with its interval over plays."""
    share, low, high = (row["values"][f"{BARE}{end}"][seed] for end in ("", " low", " high"))
    return Interval(mean=share, low=low, high=high, count=row["plays"])


MARKERS: dict[str, Maker] = {
    "wideseek smol": figures_by_model,
    "wideseek smol apart": apart,
    "wideseek smol source": Results.source,
}
SECTIONS = {"SmolLM2 before and after": figures_by_model, "Seed by seed": apart}
