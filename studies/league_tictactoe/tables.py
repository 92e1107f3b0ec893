"""The tables and charts of studies/league_tictactoe/page.md."""

from __future__ import annotations

from sparring.report.svg import Series, line_chart
from studies.common.result_figures import Maker, Results, Row, curve, markdown, seeds_of, values
from studies.league_tictactoe.study import AFTER, OPPONENTS, figure

ROLES = ("X", "O")
GOALS = {"random": 0.97, "mcts": 0.9}  # win or draw, as X and as O
NAMES = {"random": "random play", "mcts": "MCTS, 100 simulations"}


def table_at_the_end(results: Results) -> str:
    """Return the shares won or drawn of each arm and seed, and whether they reach the goal."""
    columns = [(opponent, role) for opponent in OPPONENTS for role in ROLES]
    head = ("trained in", "seed", *(f"{role} against {NAMES[to]}" for to, role in columns))
    lines = []
    for row in results.rows():
        for seed_index, seed in enumerate(seeds_of(row)):
            numbers = [
                values(row, figure(role, to, "win_or_draw"))[seed_index] for to, role in columns
            ]
            minutes = values(row, "seconds")[seed_index] / 60
            distinct = values(row, "distinct plays")[seed_index]
            texts = (f"{value:.3f}" for value in numbers)
            lines.append((row["arm"], seed, *texts, f"{distinct:.0%}", f"{minutes:.0f}"))
    return markdown((*head, "distinct episodes", "minutes"), lines)


def verdict_text(results: Results) -> str:
    """Return a text that says in how many seeds each arm reaches the goals."""
    sentences = []
    for row in results.rows():
        seeds = len(values(row, "seconds"))
        num_reached = sum(
            all(_smaller_share(row, seed, to) >= goal for to, goal in GOALS.items())
            for seed in range(seeds)
        )
        lows = ", ".join(
            f"{min(_smaller_share(row, seed, to) for seed in range(seeds)):.3f} against {NAMES[to]}"
            for to in GOALS
        )
        sentences.append(
            f"The {row['arm']} reaches it in {num_reached} of {seeds} seeds "
            f"(lowest shares: {lows})."
        )
    levels = " and ".join(f"{goal} against {NAMES[to]}" for to, goal in GOALS.items())
    goal_text = f"Goal: a share of wins and draws of at least {levels}, as X and as O."
    return " ".join([goal_text, *sentences])


def _smaller_share(row: Row, seed_index: int, opponent: str) -> float:
    """Return the smaller share of the two roles against an opponent, for one seed."""
    return min(values(row, figure(role, opponent, "win_or_draw"))[seed_index] for role in ROLES)


def charts(results: Results) -> dict[str, str]:
    """Return a chart per opponent: the share won or drawn during training, as means over seeds."""
    seeds = len(values(results.rows()[0], "seconds"))
    files = {}
    for opponent in OPPONENTS:
        series = [
            Series(
                name=f"{row['arm']}, {role}",
                points=curve(row, f"{figure(role, opponent, 'win_or_draw')}{AFTER}"),
            )
            for row in results.rows()
            for role in ROLES
        ]
        title = f"Win or draw against {NAMES[opponent]}"
        note = f"mean over {seeds} seeds"
        files[f"league-tictactoe-{opponent}.svg"] = line_chart(
            series, title=title, note=note, x_label="plays", standalone=True
        )
    return files


MARKERS: dict[str, Maker] = {
    "league tictactoe": table_at_the_end,
    "league tictactoe verdict": verdict_text,
    "league tictactoe source": Results.source,
}
SECTIONS = {"At the end": table_at_the_end, "In short": verdict_text}
