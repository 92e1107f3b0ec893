"""SLA's chooser on games whose equilibrium is known.

Figures: see ``studies.common.exploited``.
"""

from __future__ import annotations

from studies.common.exploited import cells, rows
from studies.common.study import Study

THREE, FIVE = "sla/rps-tiny", "sla/rps_spock_lizard-tiny"
STUDY = Study(
    summary="SLA: choosing among three proposed actions, in rock paper scissors of 3 and 5 actions",
    page="docs/sla.md",
    hours=0.3,
    setting={"seeds": 5, "recipes": [THREE, FIVE], "changes": []},
    quick={"seeds": 1, "recipes": [THREE], "changes": ["steps=2", "warmup.updates=2"]},
    cells=cells,
    rows=rows,
)
