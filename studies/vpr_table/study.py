"""Are rewards for each turn better than rewards for outcomes? A table of logits learns with both.

Everything else is equal: games, rollout, oracles, rewards and step size.
"""

from __future__ import annotations

from studies.common.study import Setting
from studies.vpr_table import cells as table_cells
from studies.vpr_table.cells import Labels, Lesson

COMPARED = ("sudoku4", "minesweeper3", "minesweeper3-best", "tictactoe")
ORACLES = ("minesweeper3-best",)  # tasks that differ from another task only by the oracle
BASELINES = ("vpr_state", "vpr_none", "vpr_loo", "vpr_to_go")
Arm = tuple[str, tuple[str, ...], tuple[int, ...]]  # task, variants, sizes of groups
PLAN: dict[str, list[Arm]] = {  # what is varied -> arms
    "kind of game": [
        (task, ("vpr", "vpr_mixed") if task in ORACLES else ("outcome", "vpr", "vpr_mixed"), (8,))
        for task in COMPARED
    ],
    "horizon": [(f"sudoku{blanks}", ("outcome", "vpr"), (8,)) for blanks in (2, 6, 8)],
    "reward": [(task, ("regret", "action_rank"), (8,)) for task in COMPARED],
    "baseline": [(task, BASELINES, (8,)) for task in COMPARED],
    "group size": [("sudoku4", ("outcome", "vpr"), (2, 4, 16))],
    "playouts": [(task, ("playouts",), (8,)) for task in COMPARED if task not in ORACLES],
}


def lessons(setting: Setting) -> list[tuple[Labels, Lesson]]:
    """Return the arguments of each run, with labels."""
    return [
        (
            {"varied": axis, "task": task, "learns by": variant, "group": size},
            table_cells.lesson(task, variant, size, setting["steps"]),
        )
        for axis in setting["axes"]
        for task, variants, sizes in PLAN[axis]
        for variant in variants
        for size in sizes
        if task in setting.get("tasks", (task,))
    ]


STUDY = table_cells.study(
    lessons,
    summary="credit by turn, by outcome and by both; the policy is a table of logits",
    hours=0.4,
    setting={"axes": list(PLAN), "steps": 100, "seeds": 3},
    quick={"axes": ["kind of game"], "tasks": ["minesweeper3-best"], "steps": 2, "seeds": 1},
)
