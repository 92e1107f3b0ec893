"""The study ``signalling`` with two adapters of SmolLM2-135M: does a team need to train both?

The column `starts` is "all", as the value covers every colour.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from studies.signalling.study import STUDY as TINY
from studies.signalling.study import cells


def freeze_after_warm_up(policy: str) -> str:
    """Return the override that freezes a policy after the warm-up."""
    return f"policies.{policy}.learner={{learning_rate: 0.0, micro_tokens: 1024}}"


STUDY = replace(
    TINY,
    summary="a team of two adapters of SmolLM2-135M: one of them trained, and both, 5 seeds",
    hours=0.7,
    cells=partial(cells, "signalling-smol", freeze_after_warm_up),
)
