"""The tables of docs/mixed-motive.md on the dilemma of 20 rounds."""

from __future__ import annotations

from sparring.report.svg import Series, line_chart
from studies.common.result_figures import (
    Maker,
    Results,
    curve,
    markdown,
    seeds_in_words,
    seeds_of,
    share,
    values,
)
from studies.common.rounds_along import STEPS_PREFIX
from studies.dilemma.rounds import (
    AFTER,
    AGAINST,
    BOTH,
    LEGAL,
    LOST,
    NEITHER,
    OPENS,
    PAIRS,
    WITH_ITSELF,
)
from studies.dilemma.study import ALIGNED, NAIVE

# goals: points per round lost to always-defect; share of rounds of mutual cooperation
MAX_POINTS_LOST, MIN_COOPERATION = 0.1, 0.8


def table_at_the_end(results: Results) -> str:
    """Return the figures of each arm and seed."""
    names = (BOTH, NEITHER, WITH_ITSELF, AGAINST, LOST, LEGAL)
    head = ("learner", "seed", *names, "minutes")
    lines = [
        (row["arm"], seed, *(f"{values(row, name)[seed_index]:.3f}" for name in names), minutes)
        for row in results.rows()
        for seed_index, seed in enumerate(seeds_of(row))
        for minutes in [f"{values(row, 'seconds')[seed_index] / 60:.1f}"]
    ]
    return markdown(head, lines)


def table_of_strategies(results: Results) -> str:
    """Return how often each seed's policy cooperates: in the first round, by the last choices."""
    pairs = [f"{first}, {two}" for first, two in PAIRS]
    names = (OPENS, *(f"{AFTER}{pair}" for pair in pairs))
    head = ("learner", "seed", "first round", *(f"after {pair}" for pair in pairs))
    lines = [
        (row["arm"], seed, *(share(row["values"][name].get(seed)) for name in names))
        for row in results.rows()
        for seed in seeds_of(row)
    ]
    return markdown(head, lines)


def verdict_text(results: Results) -> str:
    """Return a text that says in how many seeds each arm reaches the goals."""
    intro = (
        f"Goals with alignment: both seats cooperate in more than {MIN_COOPERATION} of the rounds "
        f"of self-play, and a player that always defects costs the learner at most "
        f"{MAX_POINTS_LOST} points a round. Goal of the naive learner: both seats defect in more "
        f"than {MIN_COOPERATION} of the rounds."
    )
    sentences = [intro]
    for row in results.rows(arm=ALIGNED):
        both_cooperate = [value > MIN_COOPERATION for value in values(row, BOTH)]
        is_safe = [value <= MAX_POINTS_LOST for value in values(row, LOST)]
        num_both = sum(map(all, zip(both_cooperate, is_safe, strict=True)))
        sentences.append(
            f"**{ALIGNED}** reaches the first goal in {sum(both_cooperate)}, the second in "
            f"{sum(is_safe)}, and both in {num_both} of {seeds_in_words(row)}."
        )
    for row in results.rows(arm=NAIVE):
        count = sum(value > MIN_COOPERATION for value in values(row, NEITHER))
        sentences.append(f"**{NAIVE}** reaches its goal in {count} of {seeds_in_words(row)}.")
    return " ".join(sentences)


def charts(results: Results) -> dict[str, str]:
    """Return the chart of points per round in training, as means over seeds."""
    series = [Series(name=row["arm"], points=curve(row, STEPS_PREFIX)) for row in results.rows()]
    note = f"means over {seeds_in_words(results.rows()[0])}; both cooperate 3, both defect 1"
    title = "Points a round of a policy with itself"
    return {
        "dilemma.svg": line_chart(series, title=title, note=note, x_label="steps", standalone=True)
    }


MARKERS: dict[str, Maker] = {
    "dilemma": table_at_the_end,
    "dilemma strategies": table_of_strategies,
    "dilemma verdict": verdict_text,
    "dilemma source": Results.source,
}
SECTIONS = {
    "At the end": table_at_the_end,
    "By the last round": table_of_strategies,
    "In short": verdict_text,
}
