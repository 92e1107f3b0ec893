"""The page of the race, docs/credit-race.md, from its results file."""

from __future__ import annotations

import re
from typing import Any

from sparring.core.records import Interval
from studies.common import claims as race_claims
from studies.common.result_figures import Maker, Results, Row, interval, values
from studies.credit_lab.tables import capitalised, ends
from studies.credit_race import race_page as credit_race_page

CHARTS = ["credit-race.svg", "credit-race-lab.svg"]
ENDS = re.compile(r"(\S+) \[(\S+), (\S+)\]")


def page(results: Results) -> str:
    """Return the page, with links to the charts in the folder ``images`` beside it."""
    found = results.document
    said = kept_claims(results) if "claims" in found else None
    options: dict[str, Any] = {"said": said, "note": capitalised(results)}
    return credit_race_page.page(race(results), found["command"], CHARTS, lab(results), **options)


def race(results: Results) -> dict[str, Any]:
    """Return the race that the file is of, `settings` and `rows`."""
    rows = [race_row(one) for one in results.rows()]
    return {"settings": results.document["setting"], "rows": rows}


def lab(results: Results) -> dict[str, dict[str, Any]]:
    """Return what the lab says of each estimator that raced."""
    return {
        one["estimator"]: {key: {"mean": value} for key, value in one["lab"].items()}
        for one in results.rows()
        if any(value is not None for value in one.get("lab", {}).values())
    }


def race_row(one: Row) -> dict[str, Any]:
    """Return a row as the race made it; without values per seed, with its figures as printed."""
    if "refused" in one:
        return {"estimator": one["estimator"], "refused": one["refused"]}
    if "values" not in one:
        printed = {key: text_ends(value) for key, value in one["text"].items()}
        return {"estimator": one["estimator"], **printed}
    spans = {key: interval(one, key) for key in ("final", "mean")}
    shown = {key: {"mean": s.mean, "low": s.low, "high": s.high} for key, s in spans.items()}
    return {"estimator": one["estimator"], "ends": values(one, "final"), **shown}


def text_ends(text: str) -> dict[str, float]:
    """Return the numbers of "0.2 [0.1, 0.3]"."""
    found = ENDS.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is no interval; write e.g. '0.2 [0.1, 0.3]'.")
    return ends([float(part) for part in found.groups()])


def kept_claims(results: Results) -> list[dict[str, str]]:
    """Return what comparisons say of which the differences alone were kept."""
    found = results.document
    spans = [text_ends(claim["difference"]) for claim in found["claims"]]
    gains = [Interval(**span, count=found["setting"]["seeds"], level=0.95) for span in spans]
    said = race_claims.judged(gains)
    return [{**verdict, **claim} for claim, verdict in zip(found["claims"], said, strict=True)]


def charts(results: Results) -> dict[str, str]:
    """Return the charts by file name; none where the file has no curves."""
    result, curves = race(results), {one["estimator"]: one.get("curve") for one in results.rows()}
    if not any(curves.values()):
        return {}
    rows = [{**one, "curve": curves[one["estimator"]]} for one in result["rows"]]
    drawn = {**result, "rows": rows}
    first = credit_race_page.chart(drawn)
    return dict(zip(CHARTS, (first, credit_race_page.lab_chart(drawn, lab(results))), strict=True))


MADE: dict[str, Maker] = {}
SHOWN: dict[str, str] = {}
