"""The table of docs/werewolf.md: what teams gain against policies, as these learn."""

from __future__ import annotations

from sparring.experiments.reproduce.werewolf import ENDS, STEPS, TEAMS, figure
from sparring.report.result_figures import Maker, Results, Row, markdown, spread, values


def gains(results: Results) -> str:
    """Return what each team gains against each arm, as a mean over seeds with its interval."""
    head = ("players", "trained by", "gain of", "at most", *(f"step {step}" for step in STEPS))
    lines = []
    for one in results.rows():
        for team in TEAMS:
            for end, how in ENDS.items():
                names = (figure(end, team, step) for step in STEPS)
                found = (
                    spread(one, name, low=0.0) if name in one["values"] else "-" for name in names
                )
                lines.append((str(one["players"]), one["arm"], team, how, *found))
    return markdown(head, lines)


def verdict(results: Results) -> str:
    """Return in how many seeds both ends of each team fall."""
    return " ".join(
        f"{one['arm']}, {one['players']} players: {', '.join(_fallen(one))}."
        for one in results.rows()
    )


def _fallen(one: Row) -> list[str]:
    """Return for each team in how many seeds its gain by one seat and as one player fell."""
    said = []
    for team in TEAMS:
        counts = []
        for end, how in ENDS.items():
            first, last = (values(one, figure(end, team, step)) for step in (STEPS[0], STEPS[-1]))
            fell = sum(after < before for before, after in zip(first, last, strict=True))
            counts.append(f"{how} in {fell} of {len(first)}")
        said.append(f"the gain of {team} fell {' and '.join(counts)} seeds")
    return said


MADE: dict[str, Maker] = {
    "werewolf gains": gains,
    "werewolf verdict": verdict,
    "werewolf source": Results.source,
}
SHOWN = {"Gains": gains}
