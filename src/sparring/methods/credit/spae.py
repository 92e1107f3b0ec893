"""Credit: gains of a potential from accuracy and confidence (SPAE)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, component, require_column
from sparring.methods.credit.grpo import grpo
from sparring.ops.groups import trajectory_starts


def potential(accuracy: FloatArray, confidence: FloatArray) -> FloatArray:
    """Return 1.5 * accuracy * confidence + 0.5 * accuracy - confidence, from -1 to 1."""
    return 1.5 * accuracy * confidence + 0.5 * accuracy - confidence


REQUIRES = {"components": {"accuracy", "confidence"}}  # options that name components


def spae(
    turns: TurnTable,
    *,
    accuracy: str = "best_action",
    confidence: str | None = None,
    weight: float = 1.0,
    saturation: float = 0.9,
    reduction: Annotated[float, Field(ge=0, le=1)] = 0.5,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Credit a turn with its gain of accuracy and confidence, in addition to the outcome.

    What: Each turn has a potential, from a probed accuracy and a confidence. A turn earns its gain
    of potential on top of the trajectory's advantage. Once the potential was high, later turns earn
    less of the outcome.
    When to use: with a reward plug-in that probes after every turn how likely the seat is to be
    right, as a number in [0, 1].
    Mathematics:
        Phi = 1.5 * acc * conf + 0.5 * acc - conf
    and 0 before the first turn.
        A[i, t] = c[i, t] * z_g(R_i) + weight * (Phi[t] - Phi[t - 1])
    c = reduction where Phi of an earlier turn was above saturation, else 1. z_g is as in ``grpo``.
    Shapes: advantages [N]; statistics per (group, role).
    Pitfalls: The potential is the paper's. How it joins the outcome was not released: this is a
    our reading, and ``weight`` and ``reduction`` are ours. Gains are a bonus, not a change of
    baseline, and add up to the last Phi. So policies that end surely right are favoured beyond
    their return. The bound on shaping scales components down before they come here; set
    ``reorder_outcomes`` to have them whole.
    Reference: SPAE; code of cii030/SPAE-RL, probe_mechanism_example.py, for the potential.
    Verified by: tests/methods/credit/test_judged_turns.py,
    tests/methods/credit/test_exact_values.py.

    Args:
        accuracy: name of the reward component that holds the accuracy, in [0, 1]; the default is an
            oracle's ``best_action``. The component is left out of R.
        confidence: name of the reward component that holds the confidence, in [0, 1]; it is left
            out of R too. None (default) uses exp(log-probability per token) of the turn's own
            reply.
        weight: weight of the gain of potential, any number; 0 leaves the outcome's term alone. The
            default is 1.
        saturation: the potential above which later turns earn less of the outcome; potentials are
            in [-1, 1], so 1 never reduces. The default is 0.9.
        reduction: factor on the outcome's term after the potential was above ``saturation``, in [0,
            1]. 1 reduces nothing, 0 removes the term; the default 0.5 halves it.
        divide_by_std: true (default) divides z_g by the group's sample deviation. False only
            subtracts the mean.
        epsilon: added to the deviation in z_g, in reward units, at least 0. The default matters
            only where the deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: a component or column is missing.
    """
    right = component(turns, "spae", accuracy)
    sure = _confidence(turns) if confidence is None else component(turns, "spae", confidence)
    left_out = right if confidence is None else right + sure
    phi = potential(right, sure)
    first = trajectory_starts(turns.trajectory)
    previous = np.append(0.0, phi[:-1])[: len(phi)]
    previous[first] = 0.0
    high = (phi > saturation).astype(np.float64)
    reached = np.cumsum(high) - high  # high potentials before a row, in the whole table
    since_start = reached - broadcast_to_turns(reached[first], turns)
    game = replace(turns, reward=turns.reward - left_out)
    outcome = grpo(game, divide_by_std=divide_by_std, epsilon=epsilon)
    share = np.where(since_start > 0, reduction, 1.0)
    advantages = share * outcome.advantages + weight * (phi - previous)
    return Credit(advantages=advantages)


def _confidence(turns: TurnTable) -> FloatArray:
    """Return the geometric mean of each turn's token probabilities, 1 without tokens."""
    logprob = require_column(turns, "spae", "logprob")
    return np.exp(np.where(turns.n_tokens > 0, logprob, 0.0) / np.maximum(turns.n_tokens, 1))
