"""The tasks that a table of logits learns, and the variants of its training; see ``learner``."""

from __future__ import annotations

from typing import Any

TASKS: dict[str, dict[str, Any]] = {
    "tictactoe": {
        "game": "tic_tac_toe",
        "oracle": {"name": "minimax"},
        "opponent": {"name": "minimax", "random_moves": 0.3},
    },
    **{
        f"sudoku{blanks}": {
            "game": "sudoku",
            "options": {"blanks": blanks, "puzzles": 8, "wrong": "continues"},
            "oracle": {"name": "constraint", "lost": "solution"},
        }
        for blanks in (2, 4, 6, 8)
    },
    "minesweeper3": {
        "game": "minesweeper",
        "options": {"rows": 3, "columns": 3, "mines": 2, "layouts": 36},
        "oracle": {"name": "posterior"},
    },
    "minesweeper3-best": {
        "game": "minesweeper",
        "options": {"rows": 3, "columns": 3, "mines": 2, "layouts": 36},
        "oracle": {"name": "posterior", "options": {"worlds": 100}},
    },
    "minesweeper4": {
        "game": "minesweeper",
        "options": {"rows": 4, "columns": 4, "mines": 3, "layouts": 64},
        "oracle": {"name": "posterior"},
    },
}
VPR, OUTCOME = {"name": "vpr"}, {"name": "grpo"}
VARIANTS: dict[str, dict[str, Any]] = {
    "outcome": {"credit": OUTCOME},
    "vpr": {"credit": VPR, "reward": "best_action"},
    "vpr_state": {"credit": {**VPR, "baseline": "state"}, "reward": "best_action"},
    "vpr_none": {
        "credit": {**VPR, "baseline": "none", "divide_by_std": False},
        "reward": "best_action",
    },
    "vpr_loo": {
        "credit": {**VPR, "leave_one_out": True, "divide_by_std": False},
        "reward": "best_action",
    },
    "vpr_to_go": {"credit": {**VPR, "gamma": 1.0}, "reward": "best_action"},
    "vpr_mixed": {"credit": {**VPR, "outcome": 1.0}, "reward": "best_action"},
    "regret": {"credit": {**VPR, "process": "regret"}, "reward": "regret"},
    "action_rank": {"credit": {**VPR, "process": "action_rank"}, "reward": "action_rank"},
    "playouts": {
        "credit": {**VPR, "process": "playout_value"},
        "reward": "playout_value",
        "playouts": 4,
    },
}
