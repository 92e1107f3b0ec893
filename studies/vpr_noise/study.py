"""How many errors may an oracle make? A table of logits learns with several error rates."""

from __future__ import annotations

from typing import Any

from studies.common.study import Setting
from studies.vpr_table import cells as table_cells
from studies.vpr_table.cells import Labels, Lesson

TASK = "sudoku4"
RATES = (  # rates of true and of false positives
    *((1.0, 0.0), (0.8, 0.0), (0.9, 0.1), (1.0, 0.2)),  # TPR - FPR: 1, and three times 0.8
    *((0.6, 0.0), (0.8, 0.2), (1.0, 0.4)),  # 0.6
    *((0.4, 0.0), (0.6, 0.2), (0.8, 0.4), (1.0, 0.6)),  # 0.4
    *((0.2, 0.0), (0.6, 0.4), (1.0, 0.8)),  # 0.2
    *((0.2, 0.2), (0.5, 0.5), (0.8, 0.8)),  # 0
    *((0.3, 0.5), (0.5, 0.7)),  # -0.2
)


def noisy(tpr: float, fpr: float) -> dict[str, Any]:
    """Return the task's oracle with these error rates; errors are independent at every turn."""
    rates = {"flip": 0.0, "tpr": tpr, "fpr": fpr, "per": "turn"}
    return {"name": "noisy", "oracle": "constraint", "options": {"lost": "solution"}, **rates}


def lessons(setting: Setting) -> list[tuple[Labels, Lesson]]:
    """Return the arguments of each run, with labels."""
    result: list[tuple[Labels, Lesson]] = []
    for tpr, fpr in setting["rates"]:
        lesson = table_cells.lesson(TASK, "vpr", 8, setting["steps"], noisy(tpr, fpr))
        result.append(({"TPR": tpr, "FPR": fpr}, lesson))
    outcome = table_cells.lesson(TASK, "outcome", 8, setting["steps"])
    return [*result, ({"learns by": "outcome"}, outcome)]


STUDY = table_cells.study(
    lessons,
    summary="what is learnt from an oracle that makes errors, by error rate",
    hours=0.2,
    setting={"rates": [list(pair) for pair in RATES], "steps": 100, "seeds": 3},
    quick={"rates": [[1.0, 0.2]], "steps": 2, "seeds": 1},
)
