"""Does it take both? The study ``signalling`` with two adapters of SmolLM2-135M.

Starts are "all": the value is computed over every colour.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from studies.signalling.study import STUDY as TINY
from studies.signalling.study import cells


def warmed(policy: str) -> str:
    """Return the change by which a policy stays as the warm-up left it."""
    return f"policies.{policy}.learner={{learning_rate: 0.0, micro_tokens: 1024}}"


STUDY = replace(
    TINY,
    summary="the same with two adapters of SmolLM2-135M, 5 seeds",
    hours=0.7,
    cells=partial(cells, "signalling-smol", warmed),
)
