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
from studies.fxp.tables import NAMES, distinct_labels, number

REACHED = 0.1  # team exploitability below which an answer counts as the equilibrium of teams
ANSWERS = {"last": "last", "uniform": "uniform mixture", "nash": "mixture"}
AFTER = "team after "


def teams(results: Results) -> str:
    """Return how exploitable each answer is, means over seeds, and how many seeds reached it."""
    rows, lines = results.rows(), []
    games = [game for (game,) in distinct_labels(rows, "game")]
    for method, answer in distinct_labels(rows, "method", "answer"):
        cells = [method, ANSWERS[answer]]
        for game in games:
            row = results.row(method=method, answer=answer, game=game)
            cells += [
                share(row),
                number(mean(row, "team")),
                worst(row),
                number(mean(row, "one seat")),
            ]
        lines.append(cells)
    heads = [f"{NAMES[game]}: {what}" for game in games for what in ("reached", *FIGURES)]
    sentences = "\n".join(f"- {NAMES[game]}: {verdict(results, game)}." for game in games)
    legal = min(value for row in rows for value in values(row, "legal replies"))
    spoken = f"Legal replies in the last step: {legal:.1%} or more in every run."
    return f"{markdown(['method', 'answer', *heads], lines)}\n\n{sentences}\n\n{spoken}"


def verdict(results: Results, game: str) -> str:
    """Return which answers are the equilibrium of teams in every seed, in some, and in none."""
    parts: dict[str, list[str]] = {"every seed": [], "some seeds": [], "no seed": []}
    for row in results.rows(game=game):
        is_reached = [value < REACHED for value in values(row, "team")]
        when = "every seed" if all(is_reached) else "some seeds" if any(is_reached) else "no seed"
        parts[when].append(f"{row['method']} ({ANSWERS[row['answer']]})")
    return "; ".join(f"in {when} {', '.join(names)}" for when, names in parts.items() if names)


FIGURES = ("team", "team, worst", "one")


def share(row: Row) -> str:
    """Return how many seeds reached the equilibrium of teams."""
    numbers = values(row, "team")
    return f"{sum(value < REACHED for value in numbers)} of {len(numbers)}"


def worst(row: Row) -> str:
    """Return the team exploitability of the worst seed."""
    return number(max(values(row, "team")))


def by_plays(results: Results) -> str:
    """Return the team exploitability of each run's own answer by plays, means over seeds."""
    lines, every = [], shared(results)
    for row in results.rows():
        numbers = [value for plays, value in curve(row, AFTER) if plays in every]
        if numbers:
            lines.append([NAMES[row["game"]], row["method"], *map(number, numbers)])
    return markdown(["game", "method", *(f"{plays:,}" for plays in sorted(every))], lines)


def shared(results: Results) -> set[int]:
    """Return after how many plays of training every run was measured."""
    plays_of_rows = [{plays for plays, _ in points(row, AFTER)} for row in results.rows()]
    return set.intersection(*(row_plays for row_plays in plays_of_rows if row_plays))


MARKERS: dict[str, Maker] = {
    "fxp tiny": teams,
    "fxp tiny plays": by_plays,
    "fxp tiny source": Results.source,
}
SECTIONS = {"With tiny language models": teams, "By plays": by_plays}
