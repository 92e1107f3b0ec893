"""What every decision is worth, exactly, when all seats follow one policy.

Q and V of each information state.

The mathematics is in ``ops/game_tree.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparring.measure.info_states import InfoStates
from sparring.ops.game_tree import ExactValues, expected_returns, policy_values
from sparring.types import FloatArray

__all__ = ["ExactValues", "exact_values", "expected_returns"]


def exact_values(info_states: InfoStates, policy: Sequence[FloatArray]) -> ExactValues:
    """Return Q and V of every information state under a policy that sits in every seat.

    Args:
        info_states: of ``enumerate_info_states(game)``.
        policy: probabilities of the legal actions of each information state, I arrays [num_legal].
    """
    return policy_values(info_states.tree, info_states.seats, policy)
