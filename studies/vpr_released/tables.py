"""The tables of studies/vpr_methods/page.md on VPR as released."""

from __future__ import annotations

from studies.common.result_figures import (
    Maker,
    Results,
    interval_text,
    markdown,
    paired_difference,
    spread,
    table_with_words,
    words_of_differences,
)
from studies.common.vpr_figures import format_share

ARMS = {
    "start": "nothing yet: after the warm-up",
    "released": "VPR as released",
    "random": "the same, any reply committed",
    "outcome": "outcome, GRPO",
    "vine": "VinePPO",
    "older": "VPR, older form",
}


def learnt(results: Results) -> str:
    """Return the figures of each arm at equal sampled tokens, on unseen initial states."""
    head = ("puzzle", "learns by", "starts", "solved", "completion", "illegal", "tokens", "steps")
    lines = []
    for row in results.rows():
        sums = (spread(row, name, 0) for name in ("tokens", "steps"))
        parts = (format_share(row, name) for name in ("success", "completion", "illegal"))
        lines.append((row["game"], ARMS[row["arm"]], row["starts"], *parts, *sums))
    return markdown(head, lines)


def claims(results: Results) -> str:
    """Return the differences between VPR as released and each other arm, paired by seed."""
    head = ("puzzle", "VPR as released minus", "solved", "completion", "verdict")
    lines, gains = [], []
    for row in results.rows():
        if row["arm"] in ("released", "start"):
            continue
        best = results.row(game=row["game"], arm="released")
        gains_of = [paired_difference(best, row, name) for name in ("success", "completion")]
        gains.append(gains_of[0])
        lines.append((row["game"], ARMS[row["arm"]], *map(interval_text, gains_of)))
    return table_with_words(head, lines, words_of_differences(gains, "held", "refuted"))


MARKERS: dict[str, Maker] = {
    "vpr released": learnt,
    "vpr released claims": claims,
    "vpr released source": Results.source,
}
SECTIONS = {"At equal sampled tokens": "vpr released", "Claim by claim": "vpr released claims"}
