"""Credit: gains of a potential made of accuracy and confidence (SPAE)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sparring.credit.base import check, spread
from sparring.credit.components import component
from sparring.credit.grpo import grpo
from sparring.ops.returns import trajectory_starts
from sparring.types import Credit, FloatArray, TurnTable


def potential(accuracy: FloatArray, confidence: FloatArray) -> FloatArray:
    """Return 1.5 * accuracy * confidence + 0.5 * accuracy - confidence: 1 if sure and right, -1 if sure and wrong."""
    return 1.5 * accuracy * confidence + 0.5 * accuracy - confidence


def spae(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    accuracy: str = "best_action",
    confidence: str | None = None,
    weight: float = 1.0,
    saturation: float = 0.9,
    reduction: Annotated[float, Field(ge=0, le=1)] = 0.5,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Credit a turn with what it added to the chance of being right, and being sure of it, besides the game's outcome.

    What: a potential per turn from a probed accuracy and confidence; a turn earns its gain on top of the trajectory's advantage,
    and once the potential was high, what follows earns less of the outcome.
    When to use: with a reward plug-in that probes after every turn how likely the seat is to be right, as a number in [0, 1].
    Mathematics: Phi = 1.5 * acc * conf + 0.5 * acc - conf, 0 before the first turn;
    A[i, t] = c[i, t] * z_g(R_i) + weight * (Phi[t] - Phi[t - 1]); c = reduction where Phi of an earlier turn was above
    saturation, else 1; z_g as in ``grpo``.
    Shapes: advantages [N]; statistics per (group, role).
    Options: ``accuracy`` (an oracle's ``best_action`` by default) and ``confidence`` name components of the reward, which are left out
    of R; without a name confidence is exp(log-probability per token) of the turn's own reply. ``weight``, ``saturation`` and
    ``reduction`` shape the sum; ``divide_by_std`` and ``epsilon`` belong to z_g.
    Pitfalls: the potential is the paper's, how it joins the outcome was not released: a literal reading, and ``weight`` and
    ``reduction`` are ours. Gains are a bonus, not a change of baseline, and add up to the last Phi: policies that end surely right
    are favoured beyond their return. The bound on shaping scales components down before they come here: set
    ``reorder_outcomes`` to have them whole.
    Reference: SPAE; code of cii030/SPAE-RL, probe_mechanism_example.py, for the potential.
    Verified by: tests/credit/test_spae.py, tests/credit/test_components.py.

    Raises:
        CreditError: a reward is not finite, or a component or column is missing.
    """
    check(turns, "spae")
    right = component(turns, "spae", accuracy)
    if confidence is None:
        sure, left_out = _confidence(turns), right
    else:
        sure = component(turns, "spae", confidence)
        left_out = right + sure
    phi = potential(right, sure)
    first = trajectory_starts(turns.trajectory)
    before = np.append(0.0, phi[:-1])[: len(phi)]
    before[first] = 0.0
    high = (phi > saturation).astype(np.float64)
    reached = np.cumsum(high) - high  # high potentials before a row, in the whole table
    since_start = reached - spread(reached[first], turns)
    outcome = grpo(replace(turns, reward=turns.reward - left_out), state, divide_by_std=divide_by_std, epsilon=epsilon)
    advantages = np.where(since_start > 0, reduction, 1.0) * outcome.advantages + weight * (phi - before)
    return Credit(advantages=advantages, state=dict(state))


def _confidence(turns: TurnTable) -> FloatArray:
    """Return the geometric mean of the probabilities of a turn's tokens, 1 for turns without tokens."""
    check(turns, "spae", columns=("logprob",))
    assert turns.logprob is not None
    return np.exp(np.where(turns.n_tokens > 0, turns.logprob, 0.0) / np.maximum(turns.n_tokens, 1))
