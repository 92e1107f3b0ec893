"""Does it take both? The study ``signalling`` with two adapters of SmolLM2-135M.

Starts are "all": the value is computed over every colour.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from studies.signalling.study import STUDY as TINY
from studies.signalling.study import cells

STUDY = replace(
    TINY,
    summary="the same with two adapters of SmolLM2-135M, 5 seeds",
    hours=0.7,
    cells=partial(cells, "signalling-smol"),
)
