"""The parts of the race's page: curves, a table, and verdicts on published claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.report.svg import Series, line_chart, scatter_chart
from studies.common.claims import LAB_KEYS, correlations

MAX_CURVES = 8  # curves in the chart; there are eight colours


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return the texts of an estimator's final and mean distance."""
    return [_interval(row["final"]), _interval(row["mean"])]


def chart(result: Mapping[str, Any], *, standalone: bool = True) -> str:
    """Return the mean curves of the estimators with the smallest final distances, and of the worst,
    as an <svg> element.
    """
    rows = [row for row in result["rows"] if "refused" not in row]
    chosen = rows if len(rows) <= MAX_CURVES else [*rows[: MAX_CURVES - 1], rows[-1]]
    series = [
        Series(name=row["estimator"], points=[(games, value) for games, value in row["curve"]])
        for row in chosen
    ]
    note = f"mean over {result['settings']['seeds']} seeds; smaller is better"
    return line_chart(
        series,
        title=f"Distance from the best play, {result['settings']['recipe']}",
        note=note,
        x_label="games",
        standalone=standalone,
    )


def lab_chart(result: Mapping[str, Any], lab: Mapping[str, Mapping[str, Any]]) -> str:
    """Return final distance against the lab's variance as an <svg> element."""
    points = []
    for row in result["rows"]:
        variance = lab.get(row["estimator"], {}).get("variance_scaled")
        if "refused" not in row and variance is not None and variance["mean"] is not None:
            points.append((row["estimator"], variance["mean"], row["final"]["mean"]))
    return scatter_chart(
        points,
        title="Does truth pay?",
        note="lower is better",
        x_label="variance of a batch's gradient at equal progress, in the lab",
        y_label="final distance in the race",
        standalone=True,
    )


def race_table(result: Mapping[str, Any], lab: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of final and mean distances, with the figures of the credit lab.

    Args:
        result: result of the race: `settings` and `rows`.
        lab: rows of the credit lab, by estimator.
    """
    heads = ["estimator", "final", "mean", "bias, scaled", "variance, scaled", "cosine"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in result["rows"]:
        if "refused" not in row:
            lab_cells = [_lab_cell(lab.get(row["estimator"]), key) for key in LAB_KEYS]
            lines.append(f"| {' | '.join([row['estimator'], *cells(row), *lab_cells])} |")
    refused = [row for row in result["rows"] if "refused" in row]
    lines += ["", *(f"Not raced: `{row['estimator']}`: {row['refused']}\n" for row in refused)]
    return "\n".join(lines).rstrip()


def lab_correlations(result: Mapping[str, Any], lab: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the rank correlations (Spearman) of the lab's figures with the final distance."""
    return ", ".join(
        f"{key.replace('_', ', ')} {value:.2f}" for key, value in correlations(result, lab).items()
    )


def claims_table(verdict_rows: Sequence[Mapping[str, str]]) -> str:
    """Return the table of published claims, from the rows of ``judge_claims``."""
    columns = ("claim", "compared", "difference", "p", "corrected", "verdict")
    return "\n".join(
        [
            "| claim | compared | difference of final distance | p | p, corrected | verdict |",
            "|---|---|---|---|---|---|",
            *(f"| {' | '.join(verdict[key] for key in columns)} |" for verdict in verdict_rows),
        ]
    )


def _interval(interval: Mapping[str, float | None]) -> str:
    """Return a mean with its interval."""
    if interval["low"] is None or interval["high"] is None:
        return f"{interval['mean']:.3f}"
    return f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


def _lab_cell(row: Mapping[str, Any] | None, key: str) -> str:
    """Return one figure of the lab as text, or a dash."""
    value = None if row is None else row[key]["mean"]
    return "-" if value is None else f"{value:.3g}"
