"""The tables of benchmarks/README.md on recipes with many seeds."""

from __future__ import annotations

from functools import partial

from studies.common.result_figures import Maker, Results, markdown, seeds_of, values

RECIPES = ("demo", "leduc-tiny")
FIGURES = (
    *("nash_conv", "first step at the level", "worst from the level on", "legal replies"),
    "seconds",
)


def table_by_seed(results: Results, recipe: str) -> str:
    """Return a recipe's figures by seed."""
    row = results.row(recipe=recipe)
    figures, level = row["values"], f"{row['level']:g}"
    head = (
        "seed",
        "last NashConv",
        f"<= {level} from step",
        "largest after that step",
        "legal",
        "s",
    )
    lines = []
    for seed in seeds_of(row, "nash_conv"):
        last, first, worst, legal, seconds = (figures[name].get(seed) for name in FIGURES)
        cells = (
            f"{last:.3f}",
            figure_text(first, "d"),
            figure_text(worst, ".3f"),
            figure_text(legal, ".2%"),
        )
        lines.append((seed, *cells, figure_text(seconds, ".0f")))
    return markdown(head, lines)


def figure_text(value: float | None, form: str) -> str:
    """Return a figure as text, or a dash for None."""
    return "-" if value is None else f"{value:{form}}"


def count_reached(results: Results, recipe: str) -> str:
    """Return a text that says how many seeds end at or below the recipe's level."""
    row = results.row(recipe=recipe)
    last, level = values(row, "nash_conv"), row["level"]
    count_text = f"{sum(value <= level for value in last)} of {len(last)}"
    return f"{count_text} seeds end at {level:g} or below, the worst at {max(last):.3f}"


def last_nash_conv(results: Results, recipe: str) -> str:
    """Return the last NashConv of a recipe: its mean, smallest and largest value over seeds."""
    last = values(results.row(recipe=recipe), "nash_conv")
    range_text = f"{len(last)} seeds, {min(last):.3f} to {max(last):.3f}"
    return f"{sum(last) / len(last):.3f} ({range_text})"


def duration_text(results: Results, recipe: str) -> str:
    """Return a text that says how long the runs of a recipe took."""
    numbers = values(results.row(recipe=recipe), "seconds")
    return f"{min(numbers):.0f} to {max(numbers):.0f} seconds"


def all_recipes(results: Results) -> str:
    """Return for each recipe the number of seeds that reached its level, and their table."""
    sections = []
    for row in results.rows():
        recipe = row["recipe"]
        sections.append(
            f"`{recipe}`: {count_reached(results, recipe)}.\n\n{table_by_seed(results, recipe)}"
        )
    return "\n\n".join(sections)


MARKERS: dict[str, Maker] = {
    **{f"seeds {recipe}": partial(table_by_seed, recipe=recipe) for recipe in RECIPES},
    **{f"seeds {recipe} reached": partial(count_reached, recipe=recipe) for recipe in RECIPES},
    "seeds leduc-tiny mean": partial(last_nash_conv, recipe="leduc-tiny"),
    "seeds demo seconds": partial(duration_text, recipe="demo"),
    "seeds source": Results.source,
}
SECTIONS = {"By seed": all_recipes}
