"""What random and best play have of a run's figures, computed in another process: ``aside``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.view.runs import Run
from sparring.view.worker_process import Aside

COMPARED = ("nash_conv/", "regret/", "optimal_rate/")  # a run with none of these is not solved


class ReferenceLines:
    """The values that are drawn across the curves of runs; threads may share it."""

    def __init__(self) -> None:
        self._aside = Aside("sparring.view.reference_lines")

    def of(self, run: Run, names: list[str]) -> dict[str, Any]:
        """Return by figure what random and best play have, where both are exact.

        Args:
            run: whose configuration names the environments.
            names: of its figures.

        Raises:
            Refused: the environments cannot be solved in time, or crash.
        """
        if not any(name.startswith(COMPARED) for name in names):
            return {"run": run.number, "figures": {}}
        config = {key: run.config[key] for key in ("environments", "games") if key in run.config}
        return {"run": run.number, **self._aside.ask({"config": config, "names": names})}

    def close(self) -> None:
        """End the process."""
        self._aside.close()


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference values of figures, as label and value.

    Args:
        question: ``config`` with the environments of a run, and ``names`` of figures.
    """
    from sparring.report.baselines import known_values  # here, as it brings OpenSpiel

    known = known_values(question["config"], question["names"])
    return {
        "figures": {
            name: [{"label": one.label, "value": one.value} for one in references]
            for name, references in known.items()
        }
    }
