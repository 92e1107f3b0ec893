"""The charts of a run: their metrics, reference lines and marks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from sparring.config import without_policy
from sparring.config.checks import LIVE
from sparring.report.baselines import Baselines, reference_lines
from sparring.report.svg import Series, line_chart
from sparring.run.evaluation import weights_mark


class Chart(NamedTuple):
    """A chart of several metrics.

    Attributes:
        title: heading.
        prefixes: beginnings of the metrics' names; see ``series_of``.
        note: units and meaning.
    """

    title: str
    prefixes: tuple[str, ...]
    note: str


CHARTS = (
    Chart(
        "Learning",
        ("nash_conv/", "return/", "legal_rate"),
        "returns, legal replies, and exact exploitability if it can be computed",
    ),
    Chart(
        "Exploitability",
        ("nash_conv/", "optimality_gap/"),
        "exact, in the game's units; 0 is equilibrium",
    ),
    Chart("Return per role", ("return/",), "mean over self-play games"),
    Chart(
        "Matches",
        (
            "match/*/win_or_draw",
            "match/*/success",
            "match_seen/*/win_or_draw",
            "match_seen/*/success",
        ),
        "share of wins and draws, or successes, against bots; match_seen: starts seen in training",
    ),
    Chart(
        "Optimal moves",
        ("match/*/optimal", "optimal_rate/"),
        "share of judged turns, in matches and in training",
    ),
    Chart(
        "Regret",
        ("match/*/regret", "regret/"),
        "value lost per judged turn, in the game's units; 0 is perfect",
    ),
    Chart(
        "Legal replies",
        ("legal_rate/", "unparsable_rate", "forfeit_rate", "illegal_mass/"),
        "shares; unparsable_rate also counts turns without a list of legal actions",
    ),
    Chart("Reply length", ("reply_tokens",), "sampled tokens per turn"),
    Chart("Truncated replies", ("truncated_rate",), "share of replies at the token limit"),
    Chart(
        "Entropy",
        ("sampled_entropy", "entropy_bonus/entropy"),
        "nats per token, estimated from samples and of the whole distribution",
    ),
    Chart(
        "Learning signal",
        ("advantage_std", "group_deviation", "group_equal_share"),
        "with advantage_std 0, nothing is learned",
    ),
    Chart(
        "Sampler against learner",
        ("logprob_difference_max", "logprob_difference_mean"),
        "difference of log-probabilities",
    ),
    Chart(
        "Ratio tail",
        ("ratio_tail",),
        "share of tokens whose ratio learner / sampler is outside [0.5, 2]",
    ),
    Chart("Gradient norm", ("gradient_norm",), "before clipping"),
    Chart("Seat asymmetry", ("seat_asymmetry/",), "largest minus smallest mean return"),
)
WITHOUT_REFERENCES = ("Learning", "Legal replies")  # charts of several scales, or of shares


def series_of(
    lines: Sequence[Mapping[str, Any]], prefixes: tuple[str, ...], policies: Collection[str] = ()
) -> list[Series]:
    """Return the series of some metrics, for every policy of the run.

    A prefix that ends with / selects all names that begin with it; a pattern with * selects all
    names that match.
    """
    open_prefixes = tuple(prefix for prefix in prefixes if prefix.endswith("/"))
    names = [
        key
        for key in names_of(lines)
        if (plain_name := without_policy(key, policies)).startswith(open_prefixes)
        or any(fnmatchcase(plain_name, name) for name in prefixes)
    ]
    points = {name: points_of(lines, name) for name in names}
    return [Series(name=name, points=values) for name, values in points.items() if values]


def points_of(lines: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    """Return the recorded (step, value) pairs of a metric."""
    return [(line["step"], line[name]) for line in lines if line.get(name) is not None]


def names_of(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all metrics of a run, sorted."""
    return sorted(set().union(*lines) - {"step"})


def with_weights(series: Sequence[Series], weights: str) -> list[Series]:
    """Return the series; if evaluation measures other weights, names say which weights."""
    return [replace(line, name=line.name + weights_mark(line.name, weights)) for line in series]


def draw_chart(
    chart: Chart,
    series: Sequence[Series],
    references: Baselines,
    marks: Sequence[float] = (),
    *,
    names: Sequence[str],
    weights: str = LIVE,
    standalone: bool = False,
) -> str:
    """Return a chart with its reference lines.

    Args:
        chart: the heading and the note.
        series: the lines.
        references: result of ``baselines_of``.
        marks: steps of health events.
        names: names of the metrics.
        weights: which weights evaluation measures, by ``config.checks.measured_weights``.
        standalone: whether the SVG becomes a separate file.
    """
    steps = [x for line in series for x, _ in line.points]
    return line_chart(
        with_weights(series, weights),
        title=chart.title,
        note=chart.note,
        references=reference_lines(references, [] if chart.title in WITHOUT_REFERENCES else names),
        marks=[mark for mark in marks if min(steps) <= mark <= max(steps)],
        standalone=standalone,
    )


def charts(
    lines: Sequence[Mapping[str, Any]],
    references: Baselines,
    events: Sequence[Mapping[str, Any]],
    policies: Collection[str] = (),
    weights: str = LIVE,
) -> list[str]:
    """Return the charts of a run as SVG, without empty ones.

    Args:
        lines: lines of metrics.jsonl.
        references: result of ``baselines_of``.
        events: lines of health.jsonl; each event is marked on the charts of its metric.
        policies: names of the policies, if the run has several.
        weights: which weights evaluation measures, by ``config.checks.measured_weights``.
    """
    svgs = []
    for chart in CHARTS:
        series = series_of(lines, chart.prefixes, policies)
        names = [line.name for line in series]
        marks = sorted({event["step"] for event in events if event.get("metric") in names})
        if series:
            svgs.append(draw_chart(chart, series, references, marks, names=names, weights=weights))
    return svgs
