"""The table and the chart of benchmarks/scale.md on the cost of a lag."""

from __future__ import annotations

from sparring.report.svg import Series, line_chart
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
    values,
    words_of_differences,
)

FIGURES = ("NashConv, end", "NashConv, mean", "legal replies")
AFTER = "NashConv after "
CHART = "lag.svg"


def table_of_lags(results: Results) -> str:
    """Return the final NashConv of each lag by seed, and the difference from lag 0."""
    rows = results.rows()
    first = next(row for row in rows if row["lag"] == 0)
    seeds = seeds_of(first, "NashConv, end")
    head = ("lag", *(f"seed {seed}" for seed in seeds), "mean", "minus lag 0", "mean over the run")
    head = (*head, "minus lag 0", "legal", "ratio, 99 %")
    lines = [cells(row, first, seeds) for row in rows]
    return f"{markdown(head, lines)}\n\n{verdict_text(rows, first)}"


def cells(row: Row, first: Row, seeds: list[str]) -> tuple[str, ...]:
    """Return the table line of a lag."""
    by_seed = row["values"]["NashConv, end"]
    is_first = row is first
    cell_texts = [str(row["lag"]), *(f"{by_seed[seed]:.3f}" for seed in seeds)]
    for figure in FIGURES[:2]:
        cell_texts += [
            f"{mean(row, figure):.3f}",
            "-" if is_first else interval_text(paired_difference(row, first, figure), 3),
        ]
    return (*cell_texts, f"{mean(row, 'legal replies'):.1%}", f"{mean(row, 'ratio_p99'):.2f}")


def curve_table(results: Results) -> str:
    """Return NashConv during training, as means over seeds."""
    curves = {row["lag"]: dict(curve(row, AFTER)) for row in results.rows()}
    plays = sorted(next(iter(curves.values())))
    interval = max(len(plays) // 6, 1)
    chosen = plays[interval - 1 :: interval]
    head = ("plays", *(f"lag {lag}" for lag in curves))
    lines = [
        (f"{number:,.0f}", *(f"{points[number]:.3f}" for points in curves.values()))
        for number in chosen
    ]
    return markdown(head, lines)


def verdict_text(rows: list[Row], first: Row) -> str:
    """Return a text that says which lags end with a larger NashConv than lag 0."""
    lagged_rows = [row for row in rows if row is not first]
    gaps = [paired_difference(row, first, FIGURES[0]) for row in lagged_rows]
    words = words_of_differences(gaps, "worse", "better", "not decided")
    sentences = (f"lag {row['lag']}: {word}" for row, word in zip(lagged_rows, words, strict=True))
    return (
        "NashConv at the end compared with lag 0, paired by seed, corrected for the number of "
        f"comparisons (Holm): {'; '.join(sentences)}."
    )


def charts(results: Results) -> dict[str, str]:
    """Return the chart of NashConv during training: one curve per lag, as means over seeds."""
    series = [Series(name=f"lag {row['lag']}", points=curve(row, AFTER)) for row in results.rows()]
    note = f"mean over {len(values(results.rows()[0], FIGURES[0]))} seeds"
    title = "kuhn-tiny: NashConv against plays"
    return {CHART: line_chart(series, title=title, note=note, x_label="plays", standalone=True)}


MARKERS: dict[str, Maker] = {
    "lag": table_of_lags,
    "lag on the way": curve_table,
    "lag source": Results.source,
}
SECTIONS = {"By lag": table_of_lags, "On the way": curve_table}
