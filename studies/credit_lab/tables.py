"""The page of the credit lab, docs/credit-lab.md, from its results file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.report import credit_page
from sparring.report.credit_page import chart
from studies.common.result_figures import Maker, Results


def page(results: Results) -> str:
    """Return the page, with links to the charts in the folder ``images`` beside it."""
    result, document = comparison(results), results.document
    images = credit_page.image_paths(result, Path("credit-lab.md"))
    note = capitalised(results)
    return credit_page.page(result, document["command"], images=images, note=note)


def capitalised(results: Results) -> str:
    """Return where a page's figures come from, as a sentence of its own."""
    line = results.source().partition("` ")[2]
    return line[:1].upper() + line[1:]


def comparison(results: Results) -> dict[str, Any]:
    """Return the comparison that the file is of, as ``credit_lab.compare`` returned it."""
    reports = [
        {**game, "check": ends(game["check"]), "rows": rows(results, game["game"])}
        for game in results.document["games"]
    ]
    return {"settings": results.document["setting"], "games": reports}


def ends(figure: Any) -> dict[str, float]:
    """Return an interval as the library's pages want it."""
    return (
        figure
        if isinstance(figure, dict)
        else dict(zip(("mean", "low", "high"), figure, strict=True))
    )


def rows(results: Results, game: str) -> list[dict[str, Any]]:
    """Return the rows of a game as the lab made them."""
    entries = []
    for result_row in results.rows(game=game):
        row: dict[str, Any] = {"estimator": result_row["estimator"]}
        if "refused" in result_row:
            entries.append({**row, "refused": result_row["refused"]})
            continue
        for key in credit_page.KEYS:
            low, high = result_row["intervals"].get(key, (None, None))
            mean = result_row["values"][key]["0"] if key in result_row["values"] else None
            row[key] = {"mean": mean, "low": low, "high": high}
        entries.append(row)
    return entries


def charts(results: Results) -> dict[str, str]:
    """Return the chart of each game by file name."""
    result = comparison(results)
    images = credit_page.image_paths(result, Path("credit-lab.md"))
    return {Path(images[report["game"]]).name: chart(report) for report in result["games"]}


MADE: dict[str, Maker] = {}
SHOWN: dict[str, str] = {}
