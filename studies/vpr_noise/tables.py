"""The table of studies/vpr_methods/page.md on an oracle that makes errors."""

from __future__ import annotations

from typing import Any

from studies.common.result_figures import Maker, Results, markdown
from studies.common.vpr_figures import format_share

NAMES = ("return over the run", "return, end")


def noise(results: Results) -> str:
    """Return the returns for each pair of error rates, ordered by TPR - FPR."""
    head = ("TPR", "FPR", "TPR - FPR", "accuracy at first", *NAMES)
    rows = [row for row in results.rows(starts="seen") if "TPR" in row]
    lines = []
    for row in sorted(rows, key=order):
        right, wrong = row["TPR"], row["FPR"]
        accuracy = right / 4 + (1 - wrong) * 3 / 4  # one legal digit of four is right
        labels = (f"{right:g}", f"{wrong:g}", f"{right - wrong:.1f}", f"{accuracy:.2f}")
        lines.append((*labels, *(format_share(row, name) for name in NAMES)))
    for row in results.rows(starts="seen", learns_by="outcome"):
        lines.append(("outcome", "-", "-", "-", *(format_share(row, name) for name in NAMES)))
    return markdown(head, lines)


def order(row: dict[str, Any]) -> tuple[float, float]:
    """Return the sort key of a pair of rates: the largest difference comes first."""
    return -round(row["TPR"] - row["FPR"], 6), row["FPR"]


MARKERS: dict[str, Maker] = {"vpr noise": noise, "vpr noise source": Results.source}
SECTIONS = {"Rates of an oracle that errs": "vpr noise"}
