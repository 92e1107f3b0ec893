"""Reference lines of charts: exact values of uniform and of best play."""

import re

import pytest

from sparring.report.baselines import RANDOM, baselines_of, best_of, better_direction, reference_lines
from sparring.report.curves import CHARTS, charts, series_of
from sparring.report.svg import MAX_LABELLED, Reference, Series, line_chart

KUHN = {"environments": [{"name": "kuhn_poker"}]}
NAMES = [
    "exploitability/kuhn_poker/first",
    "nash_conv/kuhn_poker",
    "return/kuhn_poker/first",
    "return/kuhn_poker/second",
    "legal_rate",
]


def values(references, name):
    return {line.label: round(line.value, 4) for line in references[name]}


def test_known_values_are_exact_and_by_label():
    references = baselines_of(KUHN, NAMES)
    assert values(references, "nash_conv/kuhn_poker") == {RANDOM: 0.9167, "equilibrium": 0.0}
    assert values(references, "return/kuhn_poker/first") == {RANDOM: 0.125, "equilibrium": -0.0556}
    assert values(references, "exploitability/kuhn_poker/first") == {RANDOM: 0.375, "equilibrium": 0.0}
    assert "legal_rate" not in references
    config = {"environments": [{"name": "kuhn_poker", "label": "cards"}]}
    assert set(baselines_of(config, ["nash_conv/cards", "regret/cards", "optimal_rate/cards"])) == {
        "nash_conv/cards",
        "regret/cards",
        "optimal_rate/cards",
    }
    assert values(baselines_of({}, ["optimal_rate/x"]), "optimal_rate/x") == {"perfect play": 1.0}


@pytest.mark.parametrize(
    "config",
    [{}, {"environments": 3}, {"environments": [{"name": "no_such_game"}]}, {"games": [{"nme": 1}, "x", None]}],
)
def test_environments_that_cannot_be_created_are_skipped(config):
    assert baselines_of(config, NAMES) == {}


def test_the_best_value_is_the_better_bound_and_equal_lines_are_merged():
    references = baselines_of(KUHN, NAMES)
    lines = [(line.label, round(line.value, 3), line.dots) for line in reference_lines(references, NAMES[2:4])]
    assert lines == [
        ("random play, first", 0.125, True),
        ("equilibrium, first", -0.056, False),
        ("random play, second", -0.125, True),
        ("equilibrium, second", 0.056, False),
    ]
    team_references = baselines_of(
        {"environments": [{"name": "kuhn_poker", "label": "a"}, {"name": "kuhn_poker", "label": "b"}]},
        ["nash_conv/a", "nash_conv/b"],
    )
    assert [line.label for line in reference_lines(team_references, ["nash_conv/a", "nash_conv/b"])] == [
        RANDOM,
        "equilibrium",
    ]
    points = [(1, 0.5), (2, 0.2), (3, 0.4)]
    assert best_of("nash_conv/x", points) == (2, 0.2) and best_of("optimal_rate/x", points) == (1, 0.5)
    assert best_of("return/x", points) is None and best_of("nash_conv/x", []) is None


def test_values_bands_and_labels_are_drawn_within_the_axes():
    series = [Series(name="x", points=[(1, 0.2), (2, 0.3)])]
    chart = line_chart(
        series, title="t", references=[Reference(label="<best>", value=1.0), Reference(label="nan", value=float("nan"))]
    )
    assert chart.count("stroke-dasharray") == 1 and "&lt;best&gt;: 1</text>" in chart and "nan" not in chart
    assert "<title>t over step; x = 0.3; &lt;best&gt; = 1</title>" in chart and 'role="img"' in chart
    assert (
        40
        <= float(re.search(r'<path d="M56 ([\d.]+)H\d+" stroke="currentColor" stroke-dasharray', chart)[1])
        <= 300 - 34
    )
    references = [Reference(label=f"r{n}", value=n / 10) for n in range(MAX_LABELLED + 1)]
    chart_with_list = line_chart(series, title="t", references=references)
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" font-style="italic"', chart_with_list)]
    assert (
        chart_with_list.count("stroke-dasharray") == 2 * len(references)
        and min(heights) > 300
        and len(set(heights)) == len(references)
    )
    assert max(heights) < float(re.search(r'viewBox="0 0 \d+ ([\d.]+)"', chart_with_list)[1])
    series = [Series(name="x", points=[(1, 0.0), (2, 1.0)])]
    chart = line_chart(
        series, title="t", references=[Reference(label="a", value=0.5), Reference(label="b", value=0.501)]
    )
    first, second = (float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="end" font-style', chart))
    assert abs(first - second) >= 12
    chart = line_chart(
        [Series(name="x", points=[(1, 0.0), (2, 0.0)], band=[(1, -1.0, 1.0), (2, -3.0, 3.0)])], title="t"
    )
    ys = [float(y) for _, y in (pair.split(",") for pair in re.search(r'polygon points="([^"]+)"', chart)[1].split())]
    assert len(ys) == 4 and min(ys) >= 40 and max(ys) <= 300 - 34


def test_charts_select_metrics_by_prefix_and_mark_health_events():
    lines = [{"step": step, "gradient_norm": 1.0, "ratio_tail": 0.1} for step in (1, 2, 3)]
    svgs = charts(lines, {}, [{"step": 2, "metric": "gradient_norm"}])
    norm, tail = (next(svg for svg in svgs if f">{title}<" in svg) for title in ("Gradient norm", "Ratio tail"))
    assert "health event at 2" in norm and "health event" not in tail
    assert charts([], {}, []) == []
    for chart in CHARTS:
        names = [prefix.replace("*", "g/b/r") + ("g" if prefix.endswith("/") else "") for prefix in chart.prefixes]
        assert len(series_of([{"step": 1, **dict.fromkeys(names, 0.5)}], chart.prefixes)) == len(names)


@pytest.mark.parametrize(
    ("name", "direction"),
    [("nash_conv/kuhn_poker", "lower"), ("return/kuhn_poker/first", "higher"), ("legal_rate", "higher"), ("loss", "-")],
)
def test_a_metric_has_a_good_direction_or_none(name, direction):
    assert better_direction(name) == direction
