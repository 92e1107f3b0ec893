"""Published claims, and the verdicts of a race of estimators on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparring.core.records import Interval
from sparring.ops.statistics import mean_interval
from studies.common.result_figures import decide_comparisons
from studies.common.significance import holm, rank_correlation, zero_probability

LAB_KEYS = ("bias_scaled", "variance_scaled", "cosine")
MIN_SEEDS = 3  # seeds needed for a verdict; with fewer, differences may agree by chance
CLAIMS = (
    ("mars", "rae", "turn-level returns beat one return per game and role (MARS)"),
    ("mars", "grpo", "turn-level, agent-specific credit beats GRPO (MARS)"),
    (
        "mars",
        "mars:no_turn_level",
        "turn-level credit beats credit by trajectory (MARS's ablation)",
    ),
    ("mars", "mars:no_agent_specific", "a mean per role beats one mean (MARS's ablation)"),
    ("mars", "mars:as_released", "the paper's estimator beats the released one"),
    ("rae", "outcome", "a baseline per role beats none (SPIRAL)"),
    ("gigpo", "grpo", "step-level groups beat whole-trajectory groups (GiGPO)"),
    ("hgpo", "gigpo", "contexts of several lengths beat one (HGPO)"),
    ("grpo:dr_grpo", "grpo", "no division by the deviation is better (Dr. GRPO)"),
    ("rloo", "grpo", "the unbiased leave-one-out mean is no worse (RLOO)"),
    ("salt", "grpo", "merging shared steps beats GRPO (SALT)"),
    ("spo_tree", "grpo", "values along the tree beat one value per trajectory (SPO)"),
    ("mc_grpo", "grpo", "the median beats the mean (MC-GRPO)"),
    ("ngrpo", "grpo", "a virtual best member beats GRPO (NGRPO)"),
    ("gae", "outcome", "a critic beats none"),
    ("bi_level_gae", "gae", "turns then tokens beat turns alone (VAGEN)"),
    ("exact_advantage", "mars", "the exact advantage is the best there is"),
)


def judge_claims(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return for every claim the difference by seed and the verdict.

    Claims without results of both estimators are omitted.
    """
    ends = {row["estimator"]: row["ends"] for row in result["rows"] if "refused" not in row}
    raced = [claim for claim in CLAIMS if claim[0] in ends and claim[1] in ends]
    pairs = [zip(ends[better], ends[worse], strict=True) for better, worse, _ in raced]
    gains = [mean_interval([b - a for a, b in pair]) for pair in pairs]
    return [
        {"claim": claim, "compared": f"{worse} - {better}", **verdict}
        for (better, worse, claim), verdict in zip(raced, judge_differences(gains), strict=True)
    ]


def judge_differences(gains: Sequence[Interval], digits: int = 3) -> list[dict[str, str]]:
    """Return difference, p, corrected p and verdict of each comparison.

    With fewer than ``FEWEST`` seeds, p is 1.

    Args:
        gains: paired differences over seeds; above 0 is in favour of the claim.
        digits: of the differences.
    """
    chances = [zero_probability(gain) if gain.count >= MIN_SEEDS else 1.0 for gain in gains]
    words = [
        ("held" if gain.mean > 0 else "the reverse") if known else "not decided"
        for gain, known in zip(gains, decide_comparisons(chances), strict=True)
    ]
    return [
        {
            "difference": _span(gain, digits),
            "p": _probability(chance),
            "corrected": _probability(corrected),
            "verdict": word,
        }
        for gain, chance, corrected, word in zip(gains, chances, holm(chances), words, strict=True)
    ]


def _span(gain: Interval, digits: int) -> str:
    """Return a difference with its interval, or without one for a single seed."""
    low, high = (f"{end:.{digits}f}" for end in (gain.low, gain.high))
    return f"{gain.mean:.{digits}f}" + (
        f" [{low}, {high}]" if math.isfinite(gain.high - gain.low) else ""
    )


def correlations(
    result: Mapping[str, Any], lab: Mapping[str, Mapping[str, Any]]
) -> dict[str, float]:
    """Return Spearman's rank correlation of each of the lab's figures with the final distance.

    It is nan for fewer than three, or all equal.
    """
    ends = {
        row["estimator"]: row["final"]["mean"] for row in result["rows"] if "refused" not in row
    }
    coefficients = {}
    for key in LAB_KEYS:
        pairs = [
            (lab[name][key]["mean"], end)
            for name, end in ends.items()
            if name in lab and lab[name][key]["mean"] is not None
        ]
        known = rank_correlation(pairs) if len(pairs) > 2 else None
        coefficients[key] = math.nan if known is None else known
    return coefficients


def _probability(value: float) -> str:
    """Return a p value as text."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
