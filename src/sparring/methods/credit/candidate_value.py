"""Credit: the score of each candidate reply."""

from __future__ import annotations

import numpy as np

from sparring.core.records import Credit, TurnTable

NEEDS = {"candidate_value", "candidate_judged"}


def candidate_value(turns: TurnTable) -> Credit:
    """Use the score of each candidate reply as its advantage.

    What: the unchanged score from the run's rewards, the oracle, or ``knowledge``. Outcomes and
    later turns have no effect. Unjudged replies carry no loss.
    When to use: with the loss ``turn_dpo``, which compares the scores of replies to one prompt.
    Mathematics:
        A[k] = value[k]
    of reply k to a prompt.
    Shapes: advantages [N], a row for every candidate.
    Pitfalls: without a baseline, a policy gradient has the variance of ``outcome``. ``vpr`` with
    ``baseline: candidates`` subtracts the mean of the prompt. Values of different prompts need not
    be comparable.
    Reference: none; LSPO (Xu et al., 2025, arXiv:2502.04686) uses such scores as preferences.
    Verified by: tests/methods/credit/test_exact_values.py.
    """
    value, is_judged = turns.candidate_value, turns.candidate_judged
    assert value is not None and is_judged is not None
    return Credit(
        advantages=np.where(is_judged, value, 0.0),
        trained=is_judged.astype(bool),
        metrics={"judged": float(is_judged.mean()) if len(is_judged) else 0.0},
    )
