"""The tables of studies/fxp/page.md: exploitability of the answers of each method."""

from __future__ import annotations

from collections.abc import Sequence

from studies.common.result_figures import Maker, Results, Row, markdown, mean, values

MAX_EXPLOITABILITY = 0.05  # a start reaches the team equilibrium below this team exploitability
TOLERANCE = 0.05  # tolerance for figures of the authors' code
NAMES = {
    "example": "example",
    "rock_paper_scissors": "team rock, paper, scissors",
    "seek_attack_defend": "seek, attack, defend",
}
SOLVERS = {"-": "-", "fictitious_play": "fictitious play", "nash": "linear program"}
ANSWERS = {"last": "last", "average": "mean", "mixture": "mixture"}


def figure_text(value: float | None) -> str:
    """Return a figure as the tables show it."""
    return "-" if value is None else f"{value + 0.0:.3f}"


def table_from_uniform(results: Results) -> str:
    """Return the table from uniform policies, with the figures of the authors' code."""
    rows = results.rows(part="uniform start")
    games = list(dict.fromkeys(row["game"] for row in rows))
    lines = []
    for method, solver, answer in distinct_labels(rows, "method", "solver", "answer"):
        cells = [method, SOLVERS[solver], ANSWERS[answer]]
        for game in games:
            labels = {"method": method, "solver": solver, "answer": answer, "game": game}
            row = next(iter(results.rows(part="uniform start", **labels)), None)
            cells += (
                ["-"] * 3
                if row is None
                else [figure_text(row["released"]), *team_and_seat_gain(row)]
            )
        lines.append(cells)
    heads = [f"{NAMES[game]}: {what}" for game in games for what in ("released", "team", "one")]
    return (
        f"{markdown(['method', 'solver', 'answer', *heads], lines)}\n\n{compare_with_authors(rows)}"
    )


def team_and_seat_gain(row: Row) -> list[str]:
    """Return the gain of a whole team and of one seat."""
    return [figure_text(mean(row, "team")), figure_text(mean(row, "one seat"))]


def distinct_labels(rows: Sequence[Row], *labels: str) -> list[tuple[str, ...]]:
    """Return the distinct values of labels, in order."""
    return list(dict.fromkeys(tuple(row[label] for label in labels) for row in rows))


def compare_with_authors(rows: Sequence[Row]) -> str:
    """Compare the figures with those of the authors' code; add those of the linear program."""
    compared = [row for row in rows if row["released"] is not None]
    off = [row for row in compared if abs(mean(row, "team") - row["released"]) > TOLERANCE]
    sentences = [
        f"{len(compared) - len(off)} of {len(compared)} figures are within {TOLERANCE} "
        "of the released."
    ]
    if off:
        names = (f"{row['method']}, {NAMES[row['game']]}" for row in off)
        sentences.append(f"Not: {'; '.join(names)}.")
    exact = [row for row in rows if row["solver"] == "nash" and row["answer"] == "mixture"]
    exact_texts = (
        f"{row['method']} {figure_text(mean(row, 'team'))} ({NAMES[row['game']]})" for row in exact
    )
    return " ".join([*sentences, f"With the linear program: {', '.join(exact_texts)}."])


def table_of_longer_phases(results: Results) -> str:
    """Return the figures with longer phases in seek, attack, defend."""
    row = results.row(part="longer phases", answer="mixture")
    return f"{figure_text(mean(row, 'team'))} with phases of {row['steps']} steps"


def table_of_random_starts(results: Results) -> str:
    """Return how many random starts reach the team equilibrium, and the exploitability."""
    rows, lines = results.rows(part="random start"), []
    for method, solver, answer in distinct_labels(rows, "method", "solver", "answer"):
        cells = [method, SOLVERS[solver], ANSWERS[answer]]
        for (game,) in distinct_labels(rows, "game"):
            labels = {"method": method, "solver": solver, "answer": answer, "game": game}
            row = results.row(part="random start", **labels)
            cells += [
                count_reached(row),
                figure_text(mean(row, "team")),
                figure_text(max(values(row, "team"))),
            ]
        lines.append(cells)
    heads = [
        f"{NAMES[game]}: {what}"
        for (game,) in distinct_labels(rows, "game")
        for what in ("reached", "mean", "worst")
    ]
    return markdown(["method", "solver", "answer", *heads], lines)


def count_reached(row: Row) -> str:
    """Return how many seeds reached the team equilibrium, as text."""
    numbers = values(row, "team")
    return f"{sum(value < MAX_EXPLOITABILITY for value in numbers)} of {len(numbers)}"


def table_by_team_size(results: Results) -> str:
    """Return how often self-play reaches the team equilibrium, by size of the teams."""
    rows = results.rows(part="team size")
    head = ("members", *(str(row["members"]) for row in rows))
    return markdown(
        head,
        [
            ("reached", *map(count_reached, rows)),
            ("mean", *(figure_text(mean(r, "team")) for r in rows)),
        ],
    )


def table_of_gridworld(results: Results) -> str:
    """Return the figures of the gridworld form of FXP, for each of its answers."""
    grid_rows, lines = results.rows(part="gridworld form"), []
    for game, method in distinct_labels(grid_rows, "game", "method"):
        rows = [row for row in grid_rows if (row["game"], row["method"]) == (game, method)]
        cells = [
            cell
            for row in rows
            for cell in (figure_text(row["released"]), figure_text(mean(row, "team")))
        ]
        lines.append([NAMES[game], "continues" if "one" in method else "starts fresh", *cells])
    answer_names = ("last main", "mean of mains", "mixture of all")
    heads = [f"{name}, {source}" for name in answer_names for source in ("released", "here")]
    return markdown(["game", "counter", *heads], lines)


def table_by_self_play_share(results: Results) -> str:
    """Return how often FXP reaches the team equilibrium, by its share of self-play."""
    usual = results.rows(part="random start", method="FXP", solver="nash")
    all_rows = [*usual, *results.rows(part="self share")]
    lines = []
    for game, answer in distinct_labels(all_rows, "game", "answer"):
        rows = [row for row in all_rows if (row["game"], row["answer"]) == (game, answer)]
        by_share = {row["eta"]: row for row in rows}
        lines.append(
            [NAMES[game], ANSWERS[answer], *(count_reached(by_share[e]) for e in sorted(by_share))]
        )
    heads = [f"{eta:g}" for eta in sorted({row["eta"] for row in all_rows})]
    return markdown(["game", "answer", *heads], lines)


MARKERS: dict[str, Maker] = {
    "fxp": table_from_uniform,
    "fxp longer": table_of_longer_phases,
    "fxp starts": table_of_random_starts,
    "fxp sizes": table_by_team_size,
    "fxp gridworld": table_of_gridworld,
    "fxp shares": table_by_self_play_share,
    "fxp source": Results.source,
}
SECTIONS = {
    "From uniform policies": table_from_uniform,
    "From random policies": table_of_random_starts,
    "By team size": table_by_team_size,
    "The gridworld's form": table_of_gridworld,
    "By the share of self-play": table_by_self_play_share,
}
