"""The table of docs/team-credit.md on shared and per-worker rewards."""

from __future__ import annotations

from sparring.report.credit_page import number
from studies.common.result_figures import Maker, Results, Row, markdown

HEADS = ("workers", "policy", "paid by", "estimator", "bias", "cosine", "variance", "batch cosine")
SHOWN_OF = ("exact_advantage", "rloo", "grpo")
PAID = {
    "team": "the team's return",
    "difference": "difference",
    "shapley": "Shapley",
    "own": "own cells",
}
FIGURES = ("bias_scaled", "cosine", "variance_scaled", "batch_cosine")


def credit(results: Results) -> str:
    """Return bias, cosine and variance for each kind of reward; exact values come first."""
    rows = [row for row in results.rows() if row["estimator"] in SHOWN_OF]
    lines = [
        (
            str(row["workers"]),
            row["policy"],
            PAID[row["paid"]],
            f"`{row['estimator']}`",
            *(figure_text(row, name) for name in FIGURES),
        )
        for row in sorted(rows, key=order)
    ]
    return markdown(HEADS, lines)


def order(row: Row) -> tuple[int, bool, int, int]:
    """Return the sort key of a row: the order of the study, with exact values before estimates."""
    return (
        row["workers"],
        row["policy"] != "random",
        SHOWN_OF.index(row["estimator"]),
        [*PAID].index(row["paid"]),
    )


def figure_text(row: Row, name: str) -> str:
    """Return a figure as text, with its interval if it has one."""
    mean = number(row["values"][name]["0"])
    if name not in row["intervals"] or name == "batch_cosine":
        return mean
    low, high = row["intervals"][name]
    return f"{mean} [{number(low)}, {number(high)}]"


MARKERS: dict[str, Maker] = {"team credit": credit, "team credit source": Results.source}
SECTIONS = {"Whom the credit goes to": "team credit"}
