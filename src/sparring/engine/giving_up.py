"""What is said of plays that no worker could play."""

from __future__ import annotations

import shlex
from pathlib import Path

from sparring.engine.units import Unit
from sparring.errors import RolloutError

HERE = "scale.workers=0 scale.fleet=here"  # where errors show: in the training process
HERE_IN_ORDER = f"scale.order=pinned {HERE}"  # for a run in fresh order


def given_up(why: str, unit: Unit | None, run: Path, steps: int) -> RolloutError:
    """Return the error of plays that cannot be had.

    Args:
        why: they cannot.
        unit: that cannot be played; None: nothing can.
        run: the run folder.
        steps: of the run.
    """
    if unit is None:
        return RolloutError(
            f"The plays of this step cannot go on: {why}. Play with fewer workers "
            f"(scale.workers), or with none, where errors show: {HERE}."
        )
    specs = unit.specs
    return RolloutError(
        f"The plays {specs[0].episode_id} to {specs[-1].episode_id} of this step of "
        f"{specs[0].game.name} cannot be played: {why}, perhaps for lack of memory. "
        "Smaller units (scale.unit_games) or fewer workers need less; in this process, where "
        f"errors show: {_alone(unit, run, steps)}."
    )


def _alone(unit: Unit, run: Path, steps: int) -> str:
    """Return what plays a unit in one process."""
    if unit.fresh:
        return HERE_IN_ORDER
    if unit.progress is None:  # of the warm-up, or played on after a turn: no step's own
        return HERE
    step = round(unit.progress * steps) + 1
    return f"sparring replay-unit {shlex.quote(str(run))} {step} {unit.place}"
