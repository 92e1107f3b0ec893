"""Points per round of a repeated game during a run, for the curves of studies."""

from __future__ import annotations

from pathlib import Path

from sparring.api.cells import metrics
from sparring.run.folder import RunFolder

ALONG = "points a round after "  # and a number of steps
SHOWN = 10  # steps between two points of the curve


def points_along(run: Path, game: str, roles: tuple[str, str]) -> dict[str, float]:
    """Return the mean of both seats' points a round, every few steps of a run.

    Args:
        run: its folder; the first environment has an option ``rounds``.
        game: its name among the metrics.
        roles: of both seats.
    """
    rounds = RunFolder.open(run).config()["environments"][0]["options"]["rounds"]
    first, two = (f"return/{game}/{role}" for role in roles)
    return {
        f"{ALONG}{line['step']}": (line[first] + line[two]) / (2 * rounds)
        for line in metrics(run)
        if line["step"] % SHOWN == 0
    }
