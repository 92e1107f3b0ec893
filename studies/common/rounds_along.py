"""Points per round of a repeated game during training, for the curves of studies."""

from __future__ import annotations

from pathlib import Path

from sparring.api.cells import metrics
from sparring.run.folder import RunFolder

STEPS_PREFIX = "points a round after "  # followed by the number of steps
STEPS_BETWEEN_POINTS = 10  # steps between two points of the curve


def points_along(run: Path, game: str, roles: tuple[str, str]) -> dict[str, float]:
    """Return the points per round, as mean over both seats, every few steps of a run.

    Args:
        run: folder of the run; its first environment has an option ``rounds``.
        game: name of the game in the metrics.
        roles: roles of both seats.
    """
    rounds = RunFolder.open(run).config()["environments"][0]["options"]["rounds"]
    first, two = (f"return/{game}/{role}" for role in roles)
    return {
        f"{STEPS_PREFIX}{line['step']}": (line[first] + line[two]) / (2 * rounds)
        for line in metrics(run)
        if line["step"] % STEPS_BETWEEN_POINTS == 0
    }
