"""LSPO on games whose equilibrium is known: five words, and a bluff.

Figures: see ``experiments.exploited``.
"""

from __future__ import annotations

from studies.common.exploited import cells, rows
from studies.common.study import Study

FIVE = "lspo/rps_spock_lizard-tiny"
STUDY = Study(
    summary="LSPO in rock, paper, scissors, Spock, lizard, with both preferences, and in bluff",
    page="docs/lspo.md",
    hours=0.3,
    setting={"seeds": 5, "recipes": [FIVE, f"{FIVE}-hard", "lspo/bluff-tiny"], "changes": []},
    quick={"seeds": 1, "recipes": [FIVE], "changes": ["steps=2", "warmup.updates=2"]},
    cells=cells,
    rows=rows,
)
