"""The tables of the race, from its results file."""

from __future__ import annotations

import re
from typing import Any

from sparring.core.records import Interval
from studies.common import claims as race_claims
from studies.common.result_figures import CORRECTION_NOTE, Maker, Results, Row, interval, values
from studies.credit_lab.tables import interval_fields
from studies.credit_race import race_page as credit_race_page

CHARTS = ["credit-race.svg", "credit-race-lab.svg"]
INTERVAL_TEXT = re.compile(r"(\S+) \[(\S+), (\S+)\]")


def race(results: Results) -> dict[str, Any]:
    """Return the result of the race in the file: `settings` and `rows`."""
    rows = [race_row(row) for row in results.rows()]
    return {"settings": results.document["setting"], "rows": rows}


def lab(results: Results) -> dict[str, dict[str, Any]]:
    """Return the lab's figures of each estimator in the race."""
    return {
        row["estimator"]: {key: {"mean": value} for key, value in row["lab"].items()}
        for row in results.rows()
        if any(value is not None for value in row.get("lab", {}).values())
    }


def race_row(row: Row) -> dict[str, Any]:
    """Return a row in the format of the race; a row without values per seed has printed figures."""
    if "refused" in row:
        return {"estimator": row["estimator"], "refused": row["refused"]}
    if "values" not in row:
        printed = {key: parse_interval(value) for key, value in row["text"].items()}
        return {"estimator": row["estimator"], **printed}
    spans = {key: interval(row, key) for key in ("final", "mean")}
    intervals = {key: {"mean": s.mean, "low": s.low, "high": s.high} for key, s in spans.items()}
    return {"estimator": row["estimator"], "ends": values(row, "final"), **intervals}


def parse_interval(text: str) -> dict[str, float]:
    """Return the numbers in a text such as "0.2 [0.1, 0.3]"."""
    match = INTERVAL_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no interval; write e.g. '0.2 [0.1, 0.3]'.")
    return interval_fields([float(part) for part in match.groups()])


def judge_stored_differences(results: Results) -> list[dict[str, str]]:
    """Return the verdicts on comparisons of which only the differences were stored."""
    document = results.document
    spans = [parse_interval(claim["difference"]) for claim in document["claims"]]
    gains = [Interval(**span, count=document["setting"]["seeds"], level=0.95) for span in spans]
    verdict_rows = race_claims.judge_differences(gains)
    return [
        {**verdict, **claim}
        for claim, verdict in zip(document["claims"], verdict_rows, strict=True)
    ]


def charts(results: Results) -> dict[str, str]:
    """Return the charts by file name; no charts if the file has no curves."""
    result, curves = race(results), {row["estimator"]: row.get("curve") for row in results.rows()}
    if not any(curves.values()):
        return {}
    rows = [{**row, "curve": curves[row["estimator"]]} for row in result["rows"]]
    page_result = {**result, "rows": rows}
    first = credit_race_page.chart(page_result)
    return dict(
        zip(CHARTS, (first, credit_race_page.lab_chart(page_result, lab(results))), strict=True)
    )


def table(results: Results) -> str:
    """Return the table of all estimators, with the figures of the credit lab."""
    return credit_race_page.race_table(race(results), lab(results))


def claims(results: Results) -> str:
    """Return the table of published claims."""
    has_only_differences = "claims" in results.document
    rows = (
        judge_stored_differences(results)
        if has_only_differences
        else race_claims.judge_claims(race(results))
    )
    return f"{credit_race_page.claims_table(rows)}\n\n{CORRECTION_NOTE}"


def lab_correlations(results: Results) -> str:
    """Return the correlations of the lab's figures with the final distance."""
    return credit_race_page.lab_correlations(race(results), lab(results))


MARKERS: dict[str, Maker] = {
    "credit-race": table,
    "credit-race claims": claims,
    "credit-race correlations": lab_correlations,
    "credit-race source": Results.source,
}
SECTIONS = {"Claims": claims, "All estimators": table}
