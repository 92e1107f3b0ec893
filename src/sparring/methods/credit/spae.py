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

    What: Each turn has a potential, computed from an accuracy and a confidence. A turn gets its
    gain of potential in addition to the trajectory's advantage. After a high potential, later turns
    get a smaller share of the outcome.
    When to use: with a reward plug-in that measures after every turn the probability that the seat
    is right, in [0, 1].
    Mathematics:
        Phi = 1.5 * acc * conf + 0.5 * acc - conf
    and 0 before the first turn.
        A[i, t] = c[i, t] * z_g(R_i) + weight * (Phi[t] - Phi[t - 1])
    c = reduction where Phi of an earlier turn was above saturation, else 1. z_g is as in ``grpo``.
    Shapes: advantages [N]; statistics per (group, role).
    Pitfalls: The potential is the paper's; its combination with the outcome was not published, so
    ``weight`` and ``reduction`` are ours. Gains are a bonus, not a change of baseline, and sum to
    the last Phi. So policies that end right and confident get more than their return. The bound on
    shaping scales components down before credit; set ``reorder_outcomes`` for the unscaled
    components.
    Reference: SPAE; code of cii030/SPAE-RL, probe_mechanism_example.py, for the potential.
    Verified by: tests/methods/credit/test_judged_turns.py,
    tests/methods/credit/test_exact_values.py.

    Args:
        accuracy: name of the reward component that holds the accuracy, in [0, 1]; the default is an
            oracle's ``best_action``. The component is left out of R.
        confidence: name of the reward component that holds the confidence, in [0, 1]; it is left
            out of R too. None (default) uses exp(log-probability per token) of the turn's own
            reply.
        weight: weight of the gain of potential, any number; 0 uses the outcome's term only. The
            default is 1.
        saturation: the potential above which later turns get less of the outcome; potentials are in
            [-1, 1], so 1 never reduces. The default is 0.9.
        reduction: factor on the outcome's term after the potential was above ``saturation``, in [0,
            1]. 1 reduces nothing, 0 removes the term; the default 0.5 halves it.
        divide_by_std: true (default) divides z_g by the group's sample deviation. False only
            subtracts the mean.
        epsilon: added to the deviation in z_g, in reward units, at least 0. The default matters
            only where the deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: a component or column is missing.
    """
    accuracies = component(turns, "spae", accuracy)
    confidences = _confidence(turns) if confidence is None else component(turns, "spae", confidence)
    probe_rewards = accuracies if confidence is None else accuracies + confidences
    phi = potential(accuracies, confidences)
    first_rows = trajectory_starts(turns.trajectory)
    previous_phi = np.append(0.0, phi[:-1])[: len(phi)]
    previous_phi[first_rows] = 0.0
    is_high = (phi > saturation).astype(np.float64)
    num_high_in_table = np.cumsum(is_high) - is_high  # counts all earlier rows of the table
    num_high_earlier = num_high_in_table - broadcast_to_turns(num_high_in_table[first_rows], turns)
    turns_without_probe = replace(turns, reward=turns.reward - probe_rewards)
    outcome_credit = grpo(turns_without_probe, divide_by_std=divide_by_std, epsilon=epsilon)
    outcome_factor = np.where(num_high_earlier > 0, reduction, 1.0)
    advantages = outcome_factor * outcome_credit.advantages + weight * (phi - previous_phi)
    return Credit(advantages=advantages)


def _confidence(turns: TurnTable) -> FloatArray:
    """Return the geometric mean of each turn's token probabilities, 1 without tokens."""
    logprob = require_column(turns, "spae", "logprob")
    return np.exp(np.where(turns.n_tokens > 0, logprob, 0.0) / np.maximum(turns.n_tokens, 1))
