"""LSPO on games whose equilibrium is known: five words, and a bluff.

Figures: see ``studies.common.exploited``.
"""

from __future__ import annotations

from functools import partial

from studies.common.exploited import cells, rows
from studies.common.study import Study

FIVE = "lspo/rps_spock_lizard-tiny"
HARD = (  # the paper's order of preference and its hard labels
    "knowledge.prefer=probability",
    "losses.0={name: turn_dpo, beta: 0.1, reference: step}",
)
STUDY = Study(
    summary="LSPO in rock, paper, scissors, Spock, lizard, with both preferences, and in bluff",
    page="docs/lspo.md",
    hours=0.3,
    setting={"seeds": 5, "recipes": [FIVE, f"{FIVE}-hard", "lspo/bluff-tiny"], "changes": []},
    quick={"seeds": 1, "recipes": [FIVE], "changes": ["steps=2", "warmup.updates=2"]},
    cells=partial(cells, variants={f"{FIVE}-hard": (FIVE, HARD)}),
    rows=rows,
)
