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
OWN_ANSWERS = {"FSP": "uniform", "PFSP": "uniform", "PSRO": "nash", "exploiters": "nash"}
NASH_CONV_OF_TINY = 0.7  # NashConv of leduc-tiny, approximately its mean over ten seeds
UNITS = {"CFR": "50 passes"}  # the unit of other algorithms: answers of each side


def table_at_the_end(results: Results) -> str:
    """Return the NashConv of each arm and answer by seed, and its paired difference from the
    mirror.
    """
    rows = results.rows(policy="model")
    seeds = seeds_of(rows[0], GAP)
    head = ("arm", "answer", *(f"seed {seed}" for seed in seeds), "mean")
    pairs = ("minus the mirror's same answer", "minus the mirror's average of weights")
    lines = []
    for row in rows:
        by_seed = (f"{value:.3f}" for value in values(row, GAP))
        gaps = (spread(row, GAP, 3, low=0.0), _difference_from_mirror(results, row, row["answer"]))
        cells = (row["arm"], NAMES[row["answer"]], *by_seed, *gaps)
        lines.append((*cells, _difference_from_mirror(results, row, AVERAGE)))
    return markdown((*head, *pairs), lines)


def _difference_from_mirror(results: Results, row: Row, answer: str) -> str:
    """Return the NashConv of an answer minus that of the mirror's answer; a dash for the mirror."""
    mirrors = results.rows(policy="model", arm=MIRROR, answer=answer)
    if not mirrors or mirrors[0] is row:
        return "-"
    return interval_text(paired_difference(row, mirrors[0], GAP), 3)


def verdict_text(results: Results) -> str:
    """Return a text: answers of populations below and above the mirror's average answer."""
    rows_by_word: dict[str, list[str]] = {"less": [], "more": [], "not decided": []}
    mirror, rows = results.row(policy="model", arm=MIRROR, answer=AVERAGE), _populations(results)
    words = words_of_differences(
        [paired_difference(row, mirror, GAP) for row in rows], "more", "less", "not decided"
    )
    for row, word in zip(rows, words, strict=True):
        rows_by_word[word].append(_arm_and_answer(row))
    parts = [
        ("less exploitable", rows_by_word["less"]),
        ("more exploitable", rows_by_word["more"]),
        ("not decided", rows_by_word["not decided"]),
    ]
    lists = (f"{heading}: {', '.join(names) if names else 'none'}" for heading, names in parts)
    return (
        "Answers compared with the mirror's average of weights, paired by seed, corrected for the "
        f"number of comparisons (Holm): {'; '.join(lists)}."
    )


def _populations(results: Results) -> list[Row]:
    """Return the rows of the answers of populations."""
    rows = results.rows(policy="model")
    return [row for row in rows if row["arm"] != MIRROR and row["answer"] != BEST]


def _arm_and_answer(row: Row) -> str:
    """Return an arm with its answer."""
    return f"{row['arm']} ({NAMES[row['answer']]})"


def comparison_text(results: Results) -> str:
    """Return the reference values of the chart, and the arms below each of them in every seed."""
    references = [("`leduc-tiny`", f"{NASH_CONV_OF_TINY:g}", NASH_CONV_OF_TINY)]
    for row in results.rows(policy="table"):
        name = f"{row['arm']}, {UNITS.get(row['arm'], '50 answers')}, by tables"
        references.append((name, spread(row, GAP, 3, low=0.0), mean(row, GAP)))
    arms = [row for row in results.rows(policy="model") if row["answer"] != BEST]
    lines = []
    for name, gap, level in references:
        answers_below = [_arm_and_answer(row) for row in arms if max(values(row, GAP)) < level]
        lines.append((name, gap, ", ".join(answers_below) if answers_below else "none"))
    return markdown(("reference", GAP, "answers below it in every seed"), lines)


def table_of_costs(results: Results) -> str:
    """Return the number of games, the legal replies and the minutes of each arm."""
    lines = []
    for row in results.rows(policy="model", answer=LAST):
        minutes = [f"{value / 60:.0f}" for value in sorted(values(row, "seconds"))]
        plays = sorted({f"{value:,}" for value in values(row, "plays")})
        smallest_share = min(values(row, "legal replies"))
        time = " to ".join(dict.fromkeys((minutes[0], minutes[-1])))
        lines.append((row["arm"], ", ".join(plays), f"{smallest_share:.1%}", time))
    return markdown(("arm", "plays", "legal replies, smallest", "minutes"), lines)


def charts(results: Results) -> dict[str, str]:
    """Return the charts of NashConv during training: each arm's own answer, last, and average."""
    tables = results.rows(policy="table")
    levels = [Reference(label=f"{row['arm']}, by tables", value=mean(row, GAP)) for row in tables]
    arms = list(dict.fromkeys(row["arm"] for row in results.rows(policy="model")))
    titles = {
        "own": ("its own answer", {arm: OWN_ANSWERS.get(arm, AVERAGE) for arm in arms}),
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
    "leduc league": table_at_the_end,
    "leduc league verdict": verdict_text,
    "leduc league beside": comparison_text,
    "leduc league cost": table_of_costs,
    "leduc league source": Results.source,
}
SECTIONS = {
    "At the end": table_at_the_end,
    "In short": verdict_text,
    "Beside it": comparison_text,
    "What it took": table_of_costs,
}
