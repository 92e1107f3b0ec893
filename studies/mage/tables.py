"""The tables of studies/mage/page.md."""

from __future__ import annotations

from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    chance_beyond,
    decide_comparisons,
    interval,
    interval_text,
    markdown,
    paired_difference,
    spread,
    table_with_words,
    words_of_differences,
)
from studies.mage.study import ARMS, CUMULATIVE, SINGLE

NAMES = {
    "cumulative": "cumulative returns, by attempt",
    "differential": "differential returns, by attempt",
    "released": "MAGE as released",
    "shared": "cumulative, attempts compared with each other",
    "mixed": "cumulative, groups that mix opponents",
    "single": "single plays, as many",
}
LAST = 3


def learnt(results: Results) -> str:
    """Return the share of the headroom that every attempt closes, by arm, role and pool."""
    attempts = (f"attempt {index}" for index in range(1, LAST + 1))
    head = ("game", "learns by", "role", "opponents", *attempts, "at most, attempts 2 and 3")
    lines = []
    for row in results.rows():
        count = len(row["ceiling"])
        shares = [spread(row, f"closed {index}") for index in range(1, count + 1)]
        most = " ".join(f"{share:.2f}" for share in row["ceiling"][1:]) or "-"
        cells = (*shares, *["-"] * (LAST - count), most)
        lines.append((row["game"], NAMES[row["arm"]], row["role"], status(row), *cells))
    return markdown(head, lines)


def adapts(results: Results) -> str:
    """Return for the recipes whether the last attempt closes more than the first, and than none."""
    head = ("game", "role", "opponents", "attempt 3 less attempt 1", "attempt 3", "verdict")
    lines, chances = [], []
    for row in results.rows(arm=CUMULATIVE):
        first, last = row["values"]["closed 1"], row["values"][f"closed {LAST}"]
        gain = paired_difference({"values": {"x": last}}, {"values": {"x": first}}, "x")
        every = all(last[seed] > first[seed] for seed in last)
        parts = (chance_beyond(gain), chance_beyond(interval(row, f"closed {LAST}")))
        chances.append(max(parts) if every else 1.0)
        cells = (interval_text(gain), spread(row, f"closed {LAST}"))
        lines.append((row["game"], row["role"], status(row), *cells))
    words = ("held" if known else "not held" for known in decide_comparisons(chances))
    return table_with_words(head, lines, words)


def claims(results: Results) -> str:
    """Return how far the recipes are ahead of each other arm in the last attempt, by seed."""
    head = ("game", "role", "opponents", "cumulative, by attempt, less", "attempt 3", "verdict")
    lines, gaps = [], []
    for row in results.rows(arm=CUMULATIVE):
        for arm in ARMS[1:]:
            place = {name: row[name] for name in ("game", "role", "met")}
            for other in results.rows(arm=arm, **place):
                last = 1 if arm == SINGLE else LAST  # of single plays all are first attempts
                theirs = {"values": {"x": other["values"][f"closed {last}"]}}
                ahead = paired_difference(
                    {"values": {"x": row["values"][f"closed {LAST}"]}}, theirs, "x"
                )
                gaps.append(ahead)
                lines.append(
                    (row["game"], row["role"], status(row), NAMES[arm], interval_text(ahead))
                )
    return table_with_words(head, lines, words_of_differences(gaps, "ahead", "behind"))


def status(row: Row) -> str:
    """Return whether training met the opponents of a row."""
    return "met in training" if row["met"] else "held out"


MARKERS: dict[str, Maker] = {
    "mage": learnt,
    "mage adapting": adapts,
    "mage arms": claims,
    "mage source": Results.source,
}
SECTIONS = {"Share of the headroom": learnt, "Adapting": adapts, "Arm by arm": claims}
