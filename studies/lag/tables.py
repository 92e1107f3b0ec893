"""The table and the chart of docs/scale.md on what a lag costs."""

from __future__ import annotations

from sparring.report.svg import Series, line_chart
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    curve,
    interval_text,
    less,
    markdown,
    mean,
    seeds_of,
    sides,
    values,
)

FIGURES = ("NashConv, end", "NashConv, mean", "legal replies")
AFTER = "NashConv after "
CHART = "lag.svg"


def lags(results: Results) -> str:
    """Return what each lag ends at, by seed, and by how much it is behind lag 0."""
    rows = results.rows()
    first = next(row for row in rows if row["lag"] == 0)
    seeds = seeds_of(first, "NashConv, end")
    head = ("lag", *(f"seed {seed}" for seed in seeds), "mean", "less lag 0's", "over the run")
    head = (*head, "less lag 0's", "legal", "ratio, 99 %")
    lines = [cells(row, first, seeds) for row in rows]
    return f"{markdown(head, lines)}\n\n{verdict(rows, first)}"


def cells(row: Row, first: Row, seeds: list[str]) -> tuple[str, ...]:
    """Return the line of a lag."""
    by_seed = row["values"]["NashConv, end"]
    alone = row is first
    parts = [str(row["lag"]), *(f"{by_seed[seed]:.3f}" for seed in seeds)]
    for figure in FIGURES[:2]:
        parts += [
            f"{mean(row, figure):.3f}",
            "-" if alone else interval_text(less(row, first, figure), 3),
        ]
    return (*parts, f"{mean(row, 'legal replies'):.1%}", f"{mean(row, 'ratio_p99'):.2f}")


def on_the_way(results: Results) -> str:
    """Return NashConv after parts of the plays, means over seeds: what a lag costs on the way."""
    curves = {row["lag"]: dict(curve(row, AFTER)) for row in results.rows()}
    plays = sorted(next(iter(curves.values())))
    part = max(len(plays) // 6, 1)
    chosen = plays[part - 1 :: part]
    head = ("plays", *(f"lag {lag}" for lag in curves))
    lines = [
        (f"{number:,.0f}", *(f"{points[number]:.3f}" for points in curves.values()))
        for number in chosen
    ]
    return markdown(head, lines)


def verdict(rows: list[Row], first: Row) -> str:
    """Return which lags end behind lag 0, in words."""
    others = [row for row in rows if row is not first]
    gaps = [less(row, first, FIGURES[0]) for row in others]
    words = sides(gaps, "worse", "better", "not told apart")
    parts = (f"lag {row['lag']}: {word}" for row, word in zip(others, words, strict=True))
    return (
        "NashConv at the end beside lag 0, seed by seed, corrected for the number of comparisons "
        f"(Holm): {'; '.join(parts)}."
    )


def charts(results: Results) -> dict[str, str]:
    """Return NashConv against plays, a curve per lag: the mean over seeds."""
    series = [Series(name=f"lag {row['lag']}", points=curve(row, AFTER)) for row in results.rows()]
    note = f"mean over {len(values(results.rows()[0], FIGURES[0]))} seeds"
    title = "kuhn-tiny: NashConv against plays"
    return {CHART: line_chart(series, title=title, note=note, x_label="plays", standalone=True)}


MADE: dict[str, Maker] = {
    "lag": lags,
    "lag on the way": on_the_way,
    "lag source": Results.source,
}
SHOWN = {"By lag": lags, "On the way": on_the_way}
