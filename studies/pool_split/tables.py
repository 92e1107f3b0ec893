"""The tables of docs/mixed-motive.md on learners that split pools."""

from __future__ import annotations

from sparring.report.svg import Series, line_chart
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    curve,
    markdown,
    seeds_in_words,
    seeds_of,
    share,
    values,
)
from studies.common.rounds_along import STEPS_PREFIX
from studies.pool_split.rounds import (
    AFTER_ALL,
    AFTER_LESS,
    AGAINST,
    ALL,
    BOTH_ALL,
    BOTH_PREFERRED,
    CONFLICT,
    CROSS,
    ITSELF,
    LEGAL,
    PREFERRED,
    SUM,
    TAKES,
)
from studies.pool_split.study import ALIGNED

HALF_WAY = 0.5  # share of the sum that is lost if both take all
FIRST, SECOND = (f"{CROSS}{role}" for role in ("first", "second"))
HEADINGS = {  # stored name of a figure -> heading of its column
    BOTH_ALL: "share of the best sum if both take everything",
    BOTH_PREFERRED: "share of the best sum if both take their preferred kind",
    CONFLICT: "rounds whose claims exceed the pool",
    ITSELF: "points a round in self-play",
    AGAINST: "points a round against a player that takes everything",
    TAKES: "points a round of that player against the learner",
    FIRST: "points a round against the other learner, as first seat",
    SECOND: "points a round against the other learner, as second seat",
    AFTER_LESS: "claims of everything, after the other seat took less",
    AFTER_ALL: "claims of everything, after the other seat took everything",
}


def table_of_self_play(results: Results) -> str:
    """Return the figures of each learner and seed in self-play, with exact references."""
    return _lines(results, (SUM, BOTH_ALL, BOTH_PREFERRED, CONFLICT, ALL, PREFERRED, LEGAL))


def table_of_matches(results: Results) -> str:
    """Return the points of each learner and seed in self-play and against others."""
    return _lines(results, (ITSELF, AGAINST, TAKES, FIRST, SECOND))


def table_of_strategies(results: Results) -> str:
    """Return how often each seed takes everything, by the other seat's previous claim."""
    return _lines(results, (AFTER_LESS, AFTER_ALL))


def _lines(results: Results, names: tuple[str, ...]) -> str:
    """Return a line of figures per learner and seed."""
    lines = [
        (row["arm"], seed, *(share(row["values"][name].get(seed)) for name in names))
        for row in results.rows()
        for seed in seeds_of(row)
    ]
    return markdown(("learner", "seed", *(HEADINGS.get(name, name) for name in names)), lines)


def recovered_shares(row: Row) -> list[float]:
    """Return by seed the recovered share of the sum that is lost if both take all; 1 is all."""
    return [
        (number - low) / (1.0 - low)
        for number, low in zip(values(row, SUM), values(row, BOTH_ALL), strict=True)
    ]


def verdict_text(results: Results) -> str:
    """Return a text that says in how many seeds each learner behaves as expected."""
    sentences = [
        "Two players that take everything lose a part of the largest sum. Goals: aligned learners "
        f"recover more than {HALF_WAY} of this part, naive learners less. A player that takes "
        "everything gets at most as much against an aligned learner as that learner gets against "
        "itself."
    ]
    for row in results.rows():
        shares = recovered_shares(row)
        reached = sum((share > HALF_WAY) == (row["arm"] == ALIGNED) for share in shares)
        spread = f"{min(shares):.2f} to {max(shares):.2f}"
        sentences.append(
            f"**{row['arm']}** recovers {spread}; goal reached in {reached} of "
            f"{seeds_in_words(row)}."
        )
    for row in results.rows(arm=ALIGNED):
        count = sum(
            taken <= own_points
            for taken, own_points in zip(values(row, TAKES), values(row, ITSELF), strict=True)
        )
        sentences.append(
            f"The goal against a player that takes everything is reached in {count} of "
            f"{seeds_in_words(row)}."
        )
    return " ".join(sentences)


def charts(results: Results) -> dict[str, str]:
    """Return the chart of points per round in training, as means over seeds."""
    series = [Series(name=row["arm"], points=curve(row, STEPS_PREFIX)) for row in results.rows()]
    note = f"means over {seeds_in_words(results.rows()[0])}; two who take all get 0.5 each"
    title = "Share of the pool's worth a round, of a learner with itself"
    svg = line_chart(series, title=title, note=note, x_label="steps", standalone=True)
    return {"pool-split.svg": svg}


def duration_text(results: Results) -> str:
    """Return a text with the duration of the runs."""
    numbers = [value / 60 for row in results.rows() for value in values(row, "seconds")]
    return f"{min(numbers):.1f} to {max(numbers):.1f} minutes"


MARKERS: dict[str, Maker] = {
    "pool split": table_of_self_play,
    "pool split meetings": table_of_matches,
    "pool split strategies": table_of_strategies,
    "pool split verdict": verdict_text,
    "pool split minutes": duration_text,
    "pool split source": Results.source,
}
SECTIONS = {
    "With itself": table_of_self_play,
    "Points": table_of_matches,
    "By what the other took": table_of_strategies,
    "In short": verdict_text,
}
