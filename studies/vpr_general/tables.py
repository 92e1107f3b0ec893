"""The tables of studies/vpr_methods/page.md on Sudoku with thousands of puzzles."""

from __future__ import annotations

from studies.common.result_figures import (
    Maker,
    Results,
    interval_text,
    markdown,
    paired_difference,
    points,
    values,
)
from studies.common.vpr_figures import METHODS, format_share


def general(results: Results) -> str:
    """Return the shares of new puzzles solved after training on thousands of puzzles."""
    head = ("learns by", "empty cells", "starts", "solved, first step", "solved, end", "by seed")
    lines = []
    for row in results.rows():
        seeds = ", ".join(f"{value:.2f}" for value in values(row, "solved"))
        figures = (
            format_share(row, points(row, "solved after ")[0][1]),
            format_share(row, "solved"),
        )
        labels = (METHODS[row["learns by"]], str(row["empty cells"]), row["starts"])
        lines.append((*labels, *figures, seeds))
    return markdown(head, lines)


def general_paired(results: Results) -> str:
    """Return the share of unseen puzzles solved by VPR minus that by outcomes, paired by seed."""
    head = ("empty cells", "VPR minus outcome, unseen", "by seed")
    lines = []
    for row in results.rows(learns_by="vpr", starts="unseen"):
        empty = row["empty cells"]
        for other in results.rows(learns_by="outcome", starts="unseen", empty_cells=empty):
            pairs = zip(values(row, "solved"), values(other, "solved"), strict=True)
            seeds = ", ".join(f"{first - second:+.2f}" for first, second in pairs)
            lines.append(
                (str(empty), interval_text(paired_difference(row, other, "solved")), seeds)
            )
    return markdown(head, lines)


MARKERS: dict[str, Maker] = {
    "vpr general": general,
    "vpr general source": Results.source,
    "vpr general paired": general_paired,
}
SECTIONS = {"Puzzles solved": "vpr general", "Paired by seed": "vpr general paired"}
