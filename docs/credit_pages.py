"""docs/credit-lab.md and docs/credit-race.md, from their files in benchmarks/results."""

from __future__ import annotations

import re
from typing import Any

import measured

from sparring.report import credit_page, credit_race_page, race_claims
from sparring.types import Interval

LAB, RACE = measured.ROOT / "docs" / "credit-lab.md", measured.ROOT / "docs" / "credit-race.md"
CHARTS = ["credit-race.svg", "credit-race-lab.svg"]
ENDS = re.compile(r"(\S+) \[(\S+), (\S+)\]")


def lab_page() -> str:
    """Return the page of the lab."""
    found = measured.document("credit-lab")
    reports = [
        {**game, "check": ends(game["check"]), "rows": lab_rows(game["game"])}
        for game in found["games"]
    ]
    result = {"settings": found["setting"], "games": reports}
    images = credit_page.image_paths(result, LAB)
    return credit_page.page(result, found["command"], images=images, note=note("credit-lab"))


def ends(kept: Any) -> dict[str, float]:
    """Return an interval as the library's pages want it."""
    return kept if isinstance(kept, dict) else dict(zip(("mean", "low", "high"), kept, strict=True))


def lab_rows(game: str) -> list[dict[str, Any]]:
    """Return the rows of a game as the lab made them."""
    found = []
    for one in measured.rows("credit-lab", game=game):
        row = {"estimator": one["estimator"]}
        if "refused" in one:
            found.append({**row, "refused": one["refused"]})
            continue
        for key in credit_page.KEYS:
            low, high = one["intervals"].get(key, (None, None))
            mean = one["values"][key]["0"] if key in one["values"] else None
            row[key] = {"mean": mean, "low": low, "high": high}
        found.append(row)
    return found


def race_page() -> str:
    """Return the page of the race."""
    found = measured.document("credit-race")
    rows = [race_row(one) for one in found["rows"]]
    result = {"settings": found["setting"], "rows": rows}
    lab = {
        one["estimator"]: {key: {"mean": value} for key, value in one["lab"].items()}
        for one in found["rows"]
        if any(value is not None for value in one.get("lab", {}).values())
    }
    said = kept_claims(found) if "claims" in found else None
    options = {"said": said, "note": note("credit-race")}
    return credit_race_page.page(result, found["command"], CHARTS, lab, **options)


def race_row(one: measured.Row) -> dict[str, Any]:
    """Return a row as the race made it; without values per seed, with its figures as printed."""
    if "refused" in one:
        return {"estimator": one["estimator"], "refused": one["refused"]}
    if "values" not in one:
        printed = {key: text_ends(value) for key, value in one["text"].items()}
        return {"estimator": one["estimator"], **printed}
    spans = {key: measured.interval(one, key) for key in ("final", "mean")}
    shown = {key: {"mean": s.mean, "low": s.low, "high": s.high} for key, s in spans.items()}
    return {"estimator": one["estimator"], "ends": measured.values(one, "final"), **shown}


def text_ends(text: str) -> dict[str, float]:
    """Return the numbers of "0.2 [0.1, 0.3]"."""
    found = ENDS.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is no interval; write e.g. '0.2 [0.1, 0.3]'.")
    return ends([float(part) for part in found.groups()])


def kept_claims(found: dict[str, Any]) -> list[dict[str, str]]:
    """Return what comparisons say of which the differences alone were kept."""
    spans = [text_ends(claim["difference"]) for claim in found["claims"]]
    gains = [Interval(**span, count=found["setting"]["seeds"], level=0.95) for span in spans]
    said = race_claims.judged(gains)
    return [{**verdict, **claim} for claim, verdict in zip(found["claims"], said, strict=True)]


def note(name: str) -> str:
    """Return where a page's figures come from, without the command."""
    return "At " + measured.source(name).partition("` at ")[2]
