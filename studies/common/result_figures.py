"""Helpers for tables of measurements: rows of a results file, intervals over seeds, differences.

``studies.common.results_file`` writes results files; published ones are in benchmarks/results and
in the folders of studies, and `sparring reproduce` writes one into its folder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparring.core.records import Interval
from sparring.ops.statistics import mean_interval
from studies.common.significance import holm, zero_probability

Row = dict[str, Any]
SIGNIFICANCE_LEVEL = 0.05  # a comparison is decided if its corrected p is below this level
CORRECTION_NOTE = (
    "The last column is corrected for the number of comparisons in this table by Holm's method, "
    f"at p < {SIGNIFICANCE_LEVEL}; the intervals are not corrected."
)


@dataclass(frozen=True, slots=True)
class Results:
    """The content of a results file, with rows selected by labels.

    Args:
        document: the content.
        where: path of the file, for error texts.
    """

    document: Mapping[str, Any]
    where: str = "results.json"

    def rows(self, **labels: Any) -> list[Row]:
        """Return the rows with these labels (`trained_on` stands for "trained on")."""
        labels_of_rows = {label.replace("_", " "): value for label, value in labels.items()}
        all_rows = self.document["rows"]
        return [
            row
            for row in all_rows
            if all(row.get(label) == value for label, value in labels_of_rows.items())
        ]

    def row(self, **labels: Any) -> Row:
        """Return the one row with these labels.

        Raises:
            ValueError: no row or several rows have these labels.
        """
        matches = self.rows(**labels)
        if len(matches) != 1:
            raise ValueError(f"{self.where} has {len(matches)} rows with {labels}; expected one.")
        return matches[0]

    def source(self) -> str:
        """Return the line below a table that says where its figures come from."""
        sentence = f"Made by `{self.document['command']}` {self.origin()}"
        return f"{sentence} {self.document['note']}" if "note" in self.document else sentence

    def origin(self) -> str:
        """Return the commit, the date and the versions, as the end of a sentence."""
        packages = self.document["versions"].items()
        versions = ", ".join(f"{package} {version}" for package, version in packages)
        commit, _, dirty = (self.document["commit"] or "").partition("-")
        note_on_changes = " with changes" if dirty else ""
        commit_text = (
            f"at commit {commit[:7]}{note_on_changes}" if commit else "from an installed package"
        )
        return f"{commit_text}, {self.document['date']}; {versions}."


Maker = Callable[[Results], str]
"""A function that makes a table, or a figure in a sentence, from a results file."""


def seeds_of(row: Row, figure: str = "seconds") -> list[str]:
    """Return the sorted seeds for which a row has this figure."""
    return sorted(row["values"][figure], key=int)


def seeds_in_words(row: Row) -> str:
    """Return the number of seeds of a row as text, e.g. "3 seeds"."""
    count = len(seeds_of(row))
    return "1 seed" if count == 1 else f"{count} seeds"


def share(value: float | None) -> str:
    """Return a share as text, or a dash for None."""
    return "-" if value is None else f"{value:.3f}"


def values(row: Row, figure: str) -> list[float]:
    """Return a figure by seed, in the order of the seeds."""
    return [row["values"][figure][seed] for seed in seeds_of(row, figure)]


def mean(row: Row, figure: str) -> float:
    """Return the mean of a figure over seeds."""
    numbers = values(row, figure)
    return sum(numbers) / len(numbers)


def points(row: Row, prefix: str) -> list[tuple[int, str]]:
    """Return (number, name of the figure) of the figures of a curve, in order.

    Args:
        of: a row with `values`.
        prefix: beginning of the figures' names, before a number (e.g. of games).
    """
    names = (name for name in row["values"] if name.startswith(prefix))
    return sorted((int(name.removeprefix(prefix)), name) for name in names)


def curve(row: Row, prefix: str) -> list[tuple[float, float]]:
    """Return (number, mean over seeds) of the figures of a curve; see ``points``."""
    return [(number, mean(row, name)) for number, name in points(row, prefix)]


def interval(row: Row, figure: str, *, low: float = -math.inf, high: float = math.inf) -> Interval:
    """Return the mean over seeds with Student's 95 % interval, clipped to the range of the figure.

    Args:
        of: a row with `values`, or with `intervals` of one run.
        figure: name of the figure in the row.
        low: the smallest possible value.
        high: the largest possible value.
    """
    estimate = mean_interval(values(row, figure))
    if figure in row.get("intervals", {}):
        ends = row["intervals"][figure]
        estimate = Interval(mean=estimate.mean, low=ends[0], high=ends[1], count=1, level=0.95)
    return clip_interval(estimate, low, high)


def clip_interval(estimate: Interval, low: float, high: float) -> Interval:
    """Return an interval clipped to [low, high]; infinite ends stay infinite."""
    if not math.isfinite(estimate.high - estimate.low):
        return estimate
    ends = {"low": min(max(estimate.low, low), high), "high": max(min(estimate.high, high), low)}
    return Interval(mean=estimate.mean, count=estimate.count, level=estimate.level, **ends)


def interval_text(estimate: Interval, digits: int = 2) -> str:
    """Return an interval as "mean [low, high]", or only the mean if it has no interval."""
    mean, low, high = (
        f"{part + 0.0:.{digits}f}" for part in (estimate.mean, estimate.low, estimate.high)
    )
    if not math.isfinite(estimate.high - estimate.low):
        return mean
    return f"{mean} [{low}, {high}]".replace(f"-{0:.{digits}f}", f"{0:.{digits}f}")


def spread(row: Row, figure: str, digits: int = 2, **ends: float) -> str:
    """Return a figure of a row as text: the stored `text`, or mean and interval over seeds."""
    text = row.get("text", {}).get(figure)
    return str(text) if text is not None else interval_text(interval(row, figure, **ends), digits)


def paired_difference(row: Row, other: Row, figure: str) -> Interval:
    """Return the difference of a figure between two rows, paired by common seeds.

    Raises:
        ValueError: the rows have no common seed.
    """
    values_of_row, values_of_other = row["values"][figure], other["values"][figure]
    shared = sorted(values_of_row.keys() & values_of_other.keys(), key=int)
    if not shared:
        raise ValueError(f"The rows share no seed for {figure}, so nothing can be paired.")
    return mean_interval([values_of_row[seed] - values_of_other[seed] for seed in shared])


def decide_comparisons(chances: Sequence[float]) -> list[bool]:
    """Return which comparisons of one table are significant after Holm's correction.

    Args:
        chances: p value of each comparison.
    """
    return [corrected < SIGNIFICANCE_LEVEL for corrected in holm(chances)]


def words_of_differences(
    differences: Sequence[Interval], above: str, below: str, neither: str = "not decided"
) -> list[str]:
    """Return a word for each difference of a table: ``above``, ``below`` or ``neither``.

    The words are corrected for the number of differences; ``CORRECTION_NOTE`` below a table says
    so.
    """
    decisions = decide_comparisons([zero_probability(difference) for difference in differences])
    return [
        (above if difference.mean > 0.0 else below) if known else neither
        for difference, known in zip(differences, decisions, strict=True)
    ]


def chance_beyond(estimate: Interval, level: float = 0.0, *, above: bool = True) -> float:
    """Return the two-sided p that a mean equals a level; 1 if the mean is not beyond it.

    Args:
        estimate: the mean with its interval, from ``mean_interval``.
        level: the level that is compared with the mean.
        above: whether beyond means above the level; else below.
    """
    beyond = estimate.mean > level if above else estimate.mean < level
    return zero_probability(estimate, level=level) if beyond else 1.0


def markdown(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in (head, *body)
    ]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def table_with_words(
    head: Iterable[str], body: Iterable[Iterable[str]], words: Iterable[str]
) -> str:
    """Return a Markdown table whose last column has corrected words, with a note on them."""
    lines = [(*line, word) for line, word in zip(body, words, strict=True)]
    return f"{markdown(head, lines)}\n\n{CORRECTION_NOTE}" if lines else markdown(head, lines)
