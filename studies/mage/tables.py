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
LAST_ATTEMPT = 3


def table_of_headroom(results: Results) -> str:
    """Return the share of the headroom that every attempt closes, by arm, role and pool."""
    attempts = (f"attempt {index}" for index in range(1, LAST_ATTEMPT + 1))
    head = ("game", "learns by", "role", "opponents", *attempts, "at most, attempts 2 and 3")
    lines = []
    for row in results.rows():
        count = len(row["ceiling"])
        shares = [spread(row, f"closed {index}") for index in range(1, count + 1)]
        ceiling_text = " ".join(f"{share:.2f}" for share in row["ceiling"][1:]) or "-"
        cells = (*shares, *["-"] * (LAST_ATTEMPT - count), ceiling_text)
        lines.append((row["game"], NAMES[row["arm"]], row["role"], pool_text(row), *cells))
    return markdown(head, lines)


def table_of_adaptation(results: Results) -> str:
    """Return whether the last attempt of the recipes closes more than the first attempt, and than
    0.
    """
    head = ("game", "role", "opponents", "attempt 3 minus attempt 1", "attempt 3", "verdict")
    lines, chances = [], []
    for row in results.rows(arm=CUMULATIVE):
        first, last = row["values"]["closed 1"], row["values"][f"closed {LAST_ATTEMPT}"]
        gain = paired_difference({"values": {"x": last}}, {"values": {"x": first}}, "x")
        is_ahead_in_every_seed = all(last[seed] > first[seed] for seed in last)
        parts = (chance_beyond(gain), chance_beyond(interval(row, f"closed {LAST_ATTEMPT}")))
        chances.append(max(parts) if is_ahead_in_every_seed else 1.0)
        cells = (interval_text(gain), spread(row, f"closed {LAST_ATTEMPT}"))
        lines.append((row["game"], row["role"], pool_text(row), *cells))
    words = ("held" if known else "not held" for known in decide_comparisons(chances))
    return table_with_words(head, lines, words)


def table_of_arms(results: Results) -> str:
    """Return the lead of the recipes over each other arm in the last attempt, paired by seed."""
    head = ("game", "role", "opponents", "recipe minus this arm", "attempt 3", "verdict")
    lines, gaps = [], []
    for row in results.rows(arm=CUMULATIVE):
        for arm in ARMS[1:]:
            labels = {name: row[name] for name in ("game", "role", "met")}
            for other in results.rows(arm=arm, **labels):
                last = 1 if arm == SINGLE else LAST_ATTEMPT  # single games have only first attempts
                other_figures = {"values": {"x": other["values"][f"closed {last}"]}}
                gap = paired_difference(
                    {"values": {"x": row["values"][f"closed {LAST_ATTEMPT}"]}}, other_figures, "x"
                )
                gaps.append(gap)
                lines.append(
                    (row["game"], row["role"], pool_text(row), NAMES[arm], interval_text(gap))
                )
    return table_with_words(head, lines, words_of_differences(gaps, "ahead", "behind"))


def pool_text(row: Row) -> str:
    """Return whether the opponents of a row occur in training, as text."""
    return "of training" if row["met"] else "held out"


MARKERS: dict[str, Maker] = {
    "mage": table_of_headroom,
    "mage adapting": table_of_adaptation,
    "mage arms": table_of_arms,
    "mage source": Results.source,
}
SECTIONS = {
    "Share of the headroom": table_of_headroom,
    "Adapting": table_of_adaptation,
    "Arm by arm": table_of_arms,
}
