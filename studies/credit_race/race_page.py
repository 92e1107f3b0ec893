"""The page of the race, docs/credit-race.md.

What was raced, curves, a table, and what it says of published claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.report.svg import Series, line_chart, scatter_chart
from studies.common.claims import LAB_KEYS, correlations, verdicts
from studies.common.result_figures import LEVEL

SHOWN = 8  # curves in the chart: as many as there are colours


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return an estimator's final and mean distance as they are shown."""
    return [_interval(row["final"]), _interval(row["mean"])]


def chart(result: Mapping[str, Any], *, standalone: bool = True) -> str:
    """Return the mean curves of the best estimators, and of the worst, as an <svg> element.

    They are those that end best.
    """
    rows = [row for row in result["rows"] if "refused" not in row]
    chosen = rows if len(rows) <= SHOWN else [*rows[: SHOWN - 1], rows[-1]]
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


def page(
    result: Mapping[str, Any],
    command: str,
    charts: Sequence[str],
    lab: Mapping[str, Mapping[str, Any]] | None,
    *,
    verdict_rows: Sequence[Mapping[str, str]] | None = None,
    note: str = "",
) -> str:
    """Return the page as Markdown.

    Args:
        result: of the race: `settings` and `rows`.
        command: the command line that makes the page.
        charts: names of the charts, in the folder ``images`` beside the page.
        lab: of ``lab_rows``; without it the page has no figures of the lab.
        verdict_rows: of ``verdicts``; None: from the result.
        note: a line on where the figures come from.
    """
    settings = result["settings"]
    lines = [
        "# Does truth pay? The race",
        "",
        f"Made by `{command}`.",
        "",
        *([note, ""] if note else []),
        (
            f"Every estimator trains the recipe `{settings['recipe']}` "
            f"with {', '.join(settings['overrides']) or 'no changes'},"
        ),
        (
            f"over {settings['seeds']} seeds, with the same games, model, loss and step size. "
            "Those with a critic also get the loss `value_loss`."
        ),
        (
            "Those that read judged turns also get the reward `best_action`, from the oracle "
            "`cfr` unless the recipe has one."
        ),
        (
            "Distance is NashConv (in cooperative games the optimality gap), in the game's units, "
            "and 0 at the best play. *final* is at the end"
        ),
        (
            "of the run, *mean* is over all measurements of a run. Brackets are Student's 95 % "
            "intervals over seeds."
        ),
        "",
        *(f"![{name}](images/{name})\n" for name in charts),
    ]
    heads = [
        "estimator",
        "final",
        "mean",
        *(["bias, scaled", "variance, scaled", "cosine"] if lab else []),
    ]
    lines += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in result["rows"]:
        if "refused" not in row:
            lab_cells = (
                [_lab_cell(lab.get(row["estimator"]), key) for key in LAB_KEYS] if lab else []
            )
            lines.append(f"| {' | '.join([row['estimator'], *cells(row), *lab_cells])} |")
    refused = [row for row in result["rows"] if "refused" in row]
    lines += ["", *(f"Not raced: `{row['estimator']}`: {row['refused']}\n" for row in refused)]
    lines += claims_table(verdicts(result) if verdict_rows is None else verdict_rows)
    if lab:
        coefficients = ", ".join(
            f"{key.replace('_', ', ')} {value:.2f}"
            for key, value in correlations(result, lab).items()
        )
        lines += [
            "",
            "## Truth and success",
            "",
            "Spearman's rank correlation of the lab's figures with the final distance is: "
            f"{coefficients}.",
        ]
    return "\n".join(lines) + "\n"


def claims_table(verdict_rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the part of the page on published claims, from what ``verdicts`` gives."""
    columns = ("claim", "compared", "difference", "p", "corrected", "verdict")
    return [
        "## Published claims, here",
        "",
        "Comparisons are paired by seed; a positive difference favours the claim.",
        (
            f"There are {len(verdict_rows)} comparisons. p is from Student's t, and corrected for "
            "their number by Holm's"
        ),
        f"method. A claim is held if the corrected p is below {LEVEL}.",
        "",
        "| claim | compared | difference of final distance | p | p, corrected | verdict |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(verdict[key] for key in columns)} |" for verdict in verdict_rows),
    ]


def _interval(interval: Mapping[str, float | None]) -> str:
    """Return a mean with its interval."""
    if interval["low"] is None or interval["high"] is None:
        return f"{interval['mean']:.3f}"
    return f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


def _lab_cell(row: Mapping[str, Any] | None, key: str) -> str:
    """Return one of the lab's figures, or a dash."""
    value = None if row is None else row[key]["mean"]
    return "-" if value is None else f"{value:.3g}"
