"""The tables of studies/fxp/page.md: exploitability of the answers of each method."""

from __future__ import annotations

from collections.abc import Sequence

from studies.common.result_figures import Maker, Results, Row, markdown, mean, values

REACHED = 0.05  # a start reaches the team equilibrium below this team exploitability
NEAR = 0.05  # tolerance for figures of the released code
NAMES = {
    "example": "example",
    "rock_paper_scissors": "team rock, paper, scissors",
    "seek_attack_defend": "seek, attack, defend",
}
SOLVERS = {"-": "-", "fictitious_play": "fictitious play", "nash": "linear program"}
ANSWERS = {"last": "last", "average": "mean", "mixture": "mixture"}


def number(value: float | None) -> str:
    """Return a figure as the tables show it."""
    return "-" if value is None else f"{value + 0.0:.3f}"


def uniform(results: Results) -> str:
    """Return the table from uniform policies, beside that of the released code."""
    rows = results.rows(part="uniform start")
    games = list(dict.fromkeys(row["game"] for row in rows))
    lines = []
    for method, solver, answer in distinct_labels(rows, "method", "solver", "answer"):
        cells = [method, SOLVERS[solver], ANSWERS[answer]]
        for game in games:
            labels = {"method": method, "solver": solver, "answer": answer, "game": game}
            row = next(iter(results.rows(part="uniform start", **labels)), None)
            cells += (
                ["-"] * 3 if row is None else [number(row["released"]), *team_and_seat_gain(row)]
            )
        lines.append(cells)
    heads = [f"{NAMES[game]}: {what}" for game in games for what in ("released", "team", "one")]
    return (
        f"{markdown(['method', 'solver', 'answer', *heads], lines)}\n\n{released_agreement(rows)}"
    )


def team_and_seat_gain(row: Row) -> list[str]:
    """Return the gain of a whole team and of one seat."""
    return [number(mean(row, "team")), number(mean(row, "one seat"))]


def distinct_labels(rows: Sequence[Row], *labels: str) -> list[tuple[str, ...]]:
    """Return the distinct values of labels, in order."""
    return list(dict.fromkeys(tuple(row[label] for label in labels) for row in rows))


def released_agreement(rows: Sequence[Row]) -> str:
    """Return how many figures are near the released code's, and what the linear program does."""
    compared = [row for row in rows if row["released"] is not None]
    off = [row for row in compared if abs(mean(row, "team") - row["released"]) > NEAR]
    sentences = [
        f"{len(compared) - len(off)} of {len(compared)} figures are within {NEAR} of the released."
    ]
    if off:
        names = (f"{row['method']}, {NAMES[row['game']]}" for row in off)
        sentences.append(f"Not: {'; '.join(names)}.")
    exact = [row for row in rows if row["solver"] == "nash" and row["answer"] == "mixture"]
    exact_texts = (
        f"{row['method']} {number(mean(row, 'team'))} ({NAMES[row['game']]})" for row in exact
    )
    return " ".join([*sentences, f"With the linear program: {', '.join(exact_texts)}."])


def longer(results: Results) -> str:
    """Return the figures with longer phases in seek, attack, defend."""
    row = results.row(part="longer phases", answer="mixture")
    return f"{number(mean(row, 'team'))} with phases of {row['steps']} steps"


def starts(results: Results) -> str:
    """Return how many random starts reach the team equilibrium, and the exploitability."""
    rows, lines = results.rows(part="random start"), []
    for method, solver, answer in distinct_labels(rows, "method", "solver", "answer"):
        cells = [method, SOLVERS[solver], ANSWERS[answer]]
        for (game,) in distinct_labels(rows, "game"):
            labels = {"method": method, "solver": solver, "answer": answer, "game": game}
            row = results.row(part="random start", **labels)
            cells += [share(row), number(mean(row, "team")), number(max(values(row, "team")))]
        lines.append(cells)
    heads = [
        f"{NAMES[game]}: {what}"
        for (game,) in distinct_labels(rows, "game")
        for what in ("reached", "mean", "worst")
    ]
    return markdown(["method", "solver", "answer", *heads], lines)


def share(row: Row) -> str:
    """Return how many seeds reached the equilibrium of teams."""
    numbers = values(row, "team")
    return f"{sum(value < REACHED for value in numbers)} of {len(numbers)}"


def sizes(results: Results) -> str:
    """Return how often self-play reaches the equilibrium of teams, by the size of a team."""
    rows = results.rows(part="team size")
    head = ("members", *(str(row["members"]) for row in rows))
    return markdown(
        head, [("reached", *map(share, rows)), ("mean", *(number(mean(r, "team")) for r in rows))]
    )


def gridworld(results: Results) -> str:
    """Return the gridworld's form by what is read off it."""
    grid_rows, lines = results.rows(part="gridworld form"), []
    for game, method in distinct_labels(grid_rows, "game", "method"):
        rows = [row for row in grid_rows if (row["game"], row["method"]) == (game, method)]
        cells = [
            cell for row in rows for cell in (number(row["released"]), number(mean(row, "team")))
        ]
        lines.append([NAMES[game], "goes on" if "one" in method else "begins afresh", *cells])
    read = ("last main", "mean of mains", "mixture of all")
    heads = [f"{name}, {what}" for name in read for what in ("released", "here")]
    return markdown(["game", "counter", *heads], lines)


def shares(results: Results) -> str:
    """Return FXP by its share of self-play."""
    usual = results.rows(part="random start", method="FXP", solver="nash")
    all_rows = [*usual, *results.rows(part="self share")]
    lines = []
    for game, answer in distinct_labels(all_rows, "game", "answer"):
        rows = [row for row in all_rows if (row["game"], row["answer"]) == (game, answer)]
        by_share = {row["eta"]: row for row in rows}
        lines.append(
            [NAMES[game], ANSWERS[answer], *(share(by_share[e]) for e in sorted(by_share))]
        )
    heads = [f"{eta:g}" for eta in sorted({row["eta"] for row in all_rows})]
    return markdown(["game", "answer", *heads], lines)


MARKERS: dict[str, Maker] = {
    "fxp": uniform,
    "fxp longer": longer,
    "fxp starts": starts,
    "fxp sizes": sizes,
    "fxp gridworld": gridworld,
    "fxp shares": shares,
    "fxp source": Results.source,
}
SECTIONS = {
    "From uniform policies": uniform,
    "From random policies": starts,
    "By team size": sizes,
    "The gridworld's form": gridworld,
    "By the share of self-play": shares,
}
