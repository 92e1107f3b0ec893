"""The tables of seven players in studies/werewolf/page.md: who wins, what parts are worth."""

from __future__ import annotations

from sparring.core.records import Interval
from sparring.ops.statistics import mean_interval
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    interval,
    interval_text,
    markdown,
    spread,
    table_with_words,
    words_of_differences,
)
from studies.common.significance import holm, zero_probability
from studies.werewolf_seven.study import MAIN, PARTS

WON = "wolves win"


def matrix(results: Results) -> str:
    """Return the share of games that the wolves win, by who plays them and who the village."""
    names = [name for name in MAIN if results.rows(wolves=name)]
    lines = [
        (name, *(_cell(results, name, other) for other in names), _row_mean(results, name, names))
        for name in names
    ]
    return markdown(("wolves", *(f"village: {name}" for name in names), "mean"), lines)


def _cell(results: Results, wolves: str, village: str) -> str:
    """Return the share of games that one's wolves win against another's village."""
    rows = results.rows(wolves=wolves, village=village)
    return spread(rows[0], WON, low=0.0, high=1.0) if rows else "-"


def _row_mean(results: Results, wolves: str, names: list[str]) -> str:
    """Return the mean of a line of the matrix."""
    rows = [results.row(wolves=wolves, village=name) for name in names]
    return interval_text(mean_interval(_means(rows)))


def _means(rows: list[Row]) -> list[float]:
    """Return the mean over pairs of each seed's share."""
    seeds = sorted(rows[0]["values"][WON], key=int)
    return [sum(row["values"][WON][seed] for row in rows) / len(rows) for seed in seeds]


def villages(results: Results) -> str:
    """Return for each main player the share of games that its village wins, over all wolves."""
    names = [name for name in MAIN if results.rows(wolves=name)]
    lines = []
    for name in names:
        rows = [results.row(wolves=other, village=name) for other in names]
        wolves = _row_mean(results, name, names)
        lines.append(
            (name, wolves, interval_text(mean_interval([1.0 - mean for mean in _means(rows)])))
        )
    return markdown(("player", "wins as the wolves", "wins as the village"), lines)


def parts(results: Results) -> str:
    """Return how much less an arm without a part wins, paired by seed, and a verdict.

    The chance of such a gap without any is corrected for the number of parts (Holm).
    """
    head = ("without", "lost wins as the wolves", "as the village", "both", "p (Holm)", "verdict")
    gaps = dict[str, list[Interval]]()
    for arm, whole in PARTS.items():
        opponents = [
            name
            for name in MAIN
            if all(_both(results, policy, name) for policy in (arm, whole)) and name != whole
        ]
        if not opponents:
            continue
        gaps[arm] = [
            mean_interval(
                [_gap(results, arm, whole, opponents, sides, seed) for seed in _seeds(results)]
            )
            for sides in ((True,), (False,), (True, False))
        ]
    both = [estimates[-1] for estimates in gaps.values()]
    chances = holm([zero_probability(gap) for gap in both])
    lines = [
        (arm, *map(interval_text, estimates), f"{chance:.2f}")
        for (arm, estimates), chance in zip(gaps.items(), chances, strict=True)
    ]
    return table_with_words(
        head, lines, words_of_differences(both, "held", "not held: it wins more")
    )


def _gap(
    results: Results, arm: str, whole: str, opponents: list[str], sides: tuple[bool, ...], seed: str
) -> float:
    """Return how much less an arm wins than the whole method, over those that both have met.

    Args:
        results: of the study.
        arm: without a part.
        whole: with it.
        opponents: the other policies.
        sides: whether they play the wolves; of several, the mean.
        seed: of all runs.
    """
    differences = [
        _share(results, whole, other, seed, wolf) - _share(results, arm, other, seed, wolf)
        for other in opponents
        for wolf in sides
    ]
    return sum(differences) / len(differences)


def _seeds(results: Results) -> list[str]:
    """Return the seeds of the matches."""
    first = next(row for row in results.rows() if "wolves" in row)
    return sorted(first["values"][WON], key=int)


def _both(results: Results, first: str, other: str) -> bool:
    """Return whether two have met both ways."""
    pairs = ((first, other), (other, first))
    return all(results.rows(wolves=wolves, village=village) for wolves, village in pairs)


def _share(results: Results, first: str, other: str, seed: str, wolf: bool) -> float:
    """Return the share of games that one wins against another, as the wolves or as the village."""
    pair = (first, other) if wolf else (other, first)
    won: float = results.row(wolves=pair[0], village=pair[1])["values"][WON][seed]
    return won if wolf else 1.0 - won


def policies(results: Results) -> str:
    """Return of each run its legal and readable replies, and the roles that it deduced rightly."""
    lines = []
    for arm_row in (row for row in results.rows() if "arm" in row):
        figures = ("legal replies", "readable replies", "right roles")
        cells = (
            interval_text(interval(arm_row, name, low=0.0, high=1.0))
            if name in arm_row["values"]
            else "-"
            for name in figures
        )
        lines.append(
            (arm_row["arm"], *cells, f"{sum(arm_row['values']['seconds'].values()) / 60:.0f}")
        )
    return markdown(
        (
            "policy",
            "legal replies",
            "readable replies",
            "roles deduced rightly",
            "minutes, all seeds",
        ),
        lines,
    )


MARKERS: dict[str, Maker] = {
    "werewolf seven": matrix,
    "werewolf seven sides": villages,
    "werewolf seven parts": parts,
    "werewolf seven policies": policies,
    "werewolf seven source": Results.source,
}
SECTIONS = {"Wolves win": matrix, "Sides": villages, "Parts": parts, "Policies": policies}
