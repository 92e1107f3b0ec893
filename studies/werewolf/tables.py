"""The tables of studies/werewolf/page.md: gains of teams against policies during training."""

from __future__ import annotations

from sparring.ops.statistics import mean_interval
from studies.common.result_figures import (
    Maker,
    Results,
    interval_text,
    markdown,
    spread,
    table_with_words,
    values,
    words_of_differences,
)
from studies.werewolf.study import ENDS, STEPS, TEAMS, WOLF, figure


def gains(results: Results) -> str:
    """Return the gain of each team against each arm: mean over seeds with its interval."""
    head = ("players", "trained by", "gain of", "bound", *(f"step {step}" for step in STEPS))
    lines = []
    for row in results.rows():
        for team in TEAMS:
            for bound_key, bound in ENDS.items():
                names = (figure(bound_key, team, step) for step in STEPS)
                figures = (
                    spread(row, name, low=0.0) if name in row["values"] else "-" for name in names
                )
                lines.append((str(row["players"]), row["arm"], team, bound, *figures))
    return markdown(head, lines)


def changes(results: Results) -> str:
    """Return the change of each bound of each team's gain in training, paired by seed."""
    head = (
        "players",
        "trained by",
        "gain of",
        "bound",
        "change",
        "seeds in which it fell",
        "verdict",
    )
    lines, gaps = [], []
    for row in results.rows():
        for team in TEAMS:
            for bound_key, bound in ENDS.items():
                if team == WOLF and bound_key != next(iter(ENDS)):
                    continue  # it is one seat, so that its two ends are one
                names = [figure(bound_key, team, step) for step in (STEPS[0], STEPS[-1])]
                if names[1] not in row["values"]:
                    continue  # a quick run ends before
                first, last = (values(row, name) for name in names)
                increases = [after - before for before, after in zip(first, last, strict=True)]
                num_fallen, estimate = (
                    sum(increase < 0 for increase in increases),
                    mean_interval(increases),
                )
                gaps.append(estimate)
                cells = (interval_text(estimate), f"{num_fallen} of {len(increases)}")
                lines.append((str(row["players"]), row["arm"], team, bound, *cells))
    return table_with_words(head, lines, words_of_differences(gaps, "rose", "fell"))


MARKERS: dict[str, Maker] = {
    "werewolf gains": gains,
    "werewolf changes": changes,
    "werewolf source": Results.source,
}
SECTIONS = {"Gains": gains, "Changes": changes}
