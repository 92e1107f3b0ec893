"""The table of studies/fxp/page.md on tiny language models: how exploitable answers are."""

from __future__ import annotations

from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    curve,
    markdown,
    mean,
    points,
    values,
)
from studies.fxp.tables import NAMES, distinct_labels, figure_text

MAX_EXPLOITABILITY = 0.1  # an answer counts as the team equilibrium below this team exploitability
ANSWERS = {"last": "last", "uniform": "uniform mixture", "nash": "mixture"}
AFTER = "team after "


def table_of_answers(results: Results) -> str:
    """Return how exploitable each answer is, means over seeds, and how many seeds reached it."""
    rows, lines = results.rows(), []
    games = [game for (game,) in distinct_labels(rows, "game")]
    for method, answer in distinct_labels(rows, "method", "answer"):
        cells = [method, ANSWERS[answer]]
        for game in games:
            row = results.row(method=method, answer=answer, game=game)
            cells += [
                count_reached(row),
                figure_text(mean(row, "team")),
                worst_seed(row),
                figure_text(mean(row, "one seat")),
            ]
        lines.append(cells)
    heads = [f"{NAMES[game]}: {what}" for game in games for what in ("reached", *FIGURES)]
    sentences = "\n".join(f"- {NAMES[game]}: {verdict_text(results, game)}." for game in games)
    legal = min(value for row in rows for value in values(row, "legal replies"))
    spoken = f"Legal replies in the last step: {legal:.1%} or more in every run."
    return f"{markdown(['method', 'answer', *heads], lines)}\n\n{sentences}\n\n{spoken}"


def verdict_text(results: Results, game: str) -> str:
    """Return a text: answers that are the team equilibrium in every seed, in some, and in none."""
    parts: dict[str, list[str]] = {"every seed": [], "some seeds": [], "no seed": []}
    for row in results.rows(game=game):
        is_reached = [value < MAX_EXPLOITABILITY for value in values(row, "team")]
        when = "every seed" if all(is_reached) else "some seeds" if any(is_reached) else "no seed"
        parts[when].append(f"{row['method']} ({ANSWERS[row['answer']]})")
    return "; ".join(f"in {when} {', '.join(names)}" for when, names in parts.items() if names)


FIGURES = ("team", "team, worst", "one")


def count_reached(row: Row) -> str:
    """Return how many seeds reached the team equilibrium, as text."""
    numbers = values(row, "team")
    return f"{sum(value < MAX_EXPLOITABILITY for value in numbers)} of {len(numbers)}"


def worst_seed(row: Row) -> str:
    """Return the team exploitability of the worst seed."""
    return figure_text(max(values(row, "team")))


def table_by_plays(results: Results) -> str:
    """Return the team exploitability of each run's answer during training, as means over seeds."""
    lines, every = [], common_plays(results)
    for row in results.rows():
        numbers = [value for plays, value in curve(row, AFTER) if plays in every]
        if numbers:
            lines.append([NAMES[row["game"]], row["method"], *map(figure_text, numbers)])
    return markdown(["game", "method", *(f"{plays:,}" for plays in sorted(every))], lines)


def common_plays(results: Results) -> set[int]:
    """Return the numbers of training games after which every run was measured."""
    plays_of_rows = [{plays for plays, _ in points(row, AFTER)} for row in results.rows()]
    return set.intersection(*(row_plays for row_plays in plays_of_rows if row_plays))


MARKERS: dict[str, Maker] = {
    "fxp tiny": table_of_answers,
    "fxp tiny plays": table_by_plays,
    "fxp tiny source": Results.source,
}
SECTIONS = {"With tiny language models": table_of_answers, "By plays": table_by_plays}
