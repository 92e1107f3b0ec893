"""The tables and charts of studies/leduc_league/page.md: NashConv by arm and answer."""

from __future__ import annotations

from sparring.report.svg import Reference, Series, line_chart
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    curve,
    interval_text,
    markdown,
    mean,
    paired_difference,
    seeds_of,
    spread,
    values,
    words_of_differences,
)
from studies.leduc_league.answers_along import BEST
from studies.leduc_league.study import AFTER, GAP

MIRROR, AVERAGE, LAST = "mirror", "average", "last"
NAMES = {
    LAST: "last",
    AVERAGE: "average of weights",
    "uniform": "all members alike",
    "nash": "Nash of members",
    BEST: "Nash of members, exact payoffs",
}
OWN = {"FSP": "uniform", "PFSP": "uniform", "PSRO": "nash", "exploiters": "nash"}
TINY = 0.7  # NashConv that leduc-tiny is known for, about its mean over ten seeds
UNITS = {"CFR": "50 passes"}  # of the others: answers of each side


def ends(results: Results) -> str:
    """Return the NashConv of each arm and answer by seed, and beside the mirror, paired."""
    rows = results.rows(policy="model")
    seeds = seeds_of(rows[0], GAP)
    head = ("arm", "answer", *(f"seed {seed}" for seed in seeds), "mean")
    pairs = ("less the mirror's same answer", "less the mirror's average of weights")
    lines = []
    for row in rows:
        by_seed = (f"{value:.3f}" for value in values(row, GAP))
        gaps = (spread(row, GAP, 3, low=0.0), _beside(results, row, row["answer"]))
        cells = (row["arm"], NAMES[row["answer"]], *by_seed, *gaps)
        lines.append((*cells, _beside(results, row, AVERAGE)))
    return markdown((*head, *pairs), lines)


def _beside(results: Results, row: Row, answer: str) -> str:
    """Return an answer's NashConv less that of an answer of the mirror; a dash where it is that."""
    mirrors = results.rows(policy="model", arm=MIRROR, answer=answer)
    if not mirrors or mirrors[0] is row:
        return "-"
    return interval_text(paired_difference(row, mirrors[0], GAP), 3)


def verdict(results: Results) -> str:
    """Return which answers of populations are below the mirror's average, and which above."""
    rows_by_word: dict[str, list[str]] = {"less": [], "more": [], "not told apart": []}
    mirror, rows = results.row(policy="model", arm=MIRROR, answer=AVERAGE), _populations(results)
    words = words_of_differences(
        [paired_difference(row, mirror, GAP) for row in rows], "more", "less", "not told apart"
    )
    for row, word in zip(rows, words, strict=True):
        rows_by_word[word].append(_named(row))
    parts = [
        ("less exploitable", rows_by_word["less"]),
        ("more exploitable", rows_by_word["more"]),
        ("not told apart from it", rows_by_word["not told apart"]),
    ]
    lists = (f"{what}: {', '.join(names) if names else 'none'}" for what, names in parts)
    return (
        "Beside the mirror's average of weights, seed by seed, corrected for the number of "
        f"comparisons (Holm): {'; '.join(lists)}."
    )


def _populations(results: Results) -> list[Row]:
    """Return the rows of answers that a population gives with the plays it had."""
    rows = results.rows(policy="model")
    return [row for row in rows if row["arm"] != MIRROR and row["answer"] != BEST]


def _named(row: Row) -> str:
    """Return an arm with its answer."""
    return f"{row['arm']} ({NAMES[row['answer']]})"


def beside(results: Results) -> str:
    """Return what is drawn beside the arms, and who is below it in every seed."""
    marks = [("`leduc-tiny`", f"{TINY:g}", TINY)]
    for row in results.rows(policy="table"):
        name = f"{row['arm']}, {UNITS.get(row['arm'], '50 answers')}, by tables"
        marks.append((name, spread(row, GAP, 3, low=0.0), mean(row, GAP)))
    arms = [row for row in results.rows(policy="model") if row["answer"] != BEST]
    lines = []
    for name, gap, level in marks:
        below = [_named(row) for row in arms if max(values(row, GAP)) < level]
        lines.append((name, gap, ", ".join(below) if below else "none"))
    return markdown(("beside", GAP, "below it in every seed"), lines)


def cost(results: Results) -> str:
    """Return the plays, the legal replies and the minutes of each arm."""
    lines = []
    for row in results.rows(policy="model", answer=LAST):
        minutes = [f"{value / 60:.0f}" for value in sorted(values(row, "seconds"))]
        plays = sorted({f"{value:,}" for value in values(row, "plays")})
        least = min(values(row, "legal replies"))
        time = " to ".join(dict.fromkeys((minutes[0], minutes[-1])))
        lines.append((row["arm"], ", ".join(plays), f"{least:.1%}", time))
    return markdown(("arm", "plays", "legal replies, least", "minutes"), lines)


def charts(results: Results) -> dict[str, str]:
    """Return the charts of NashConv against plays: each arm's own answer, last, and average."""
    tables = results.rows(policy="table")
    levels = [Reference(label=f"{row['arm']}, by tables", value=mean(row, GAP)) for row in tables]
    arms = list(dict.fromkeys(row["arm"] for row in results.rows(policy="model")))
    titles = {
        "own": ("its own answer", {arm: OWN.get(arm, AVERAGE) for arm in arms}),
        "last": ("last policy", dict.fromkeys(arms, LAST)),
        "average": ("average of weights", dict.fromkeys(arms, AVERAGE)),
    }
    files = {}
    for name, (what, answers) in titles.items():
        series = [
            Series(name=arm, points=curve(results.row(arm=arm, answer=answer), AFTER))
            for arm, answer in answers.items()
        ]
        files[f"league-leduc-{name}.svg"] = line_chart(
            series,
            title=f"NashConv in Leduc poker, {what}",
            note=f"mean over {len(values(results.rows()[0], GAP))} seeds",
            x_label="plays",
            references=levels,
            standalone=True,
        )
    return files


MARKERS: dict[str, Maker] = {
    "leduc league": ends,
    "leduc league verdict": verdict,
    "leduc league beside": beside,
    "leduc league cost": cost,
    "leduc league source": Results.source,
}
SECTIONS = {"At the end": ends, "In short": verdict, "Beside it": beside, "What it took": cost}
