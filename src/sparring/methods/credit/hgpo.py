"""Credit: groups of turns with the same history of views (HGPO)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.anchors import Anchor, anchor_groups, positions
from sparring.methods.credit.grpo import grpo
from sparring.ops.groups import centre, discounted_returns, group_counts, group_ids, group_sum

GROUP_RELATIVE = True
PRESETS = {"as_released": {"count_zeros": False}}
RELATIVE_TOLERANCE = 1e-12  # advantages below this share of the largest return count as 0


def hgpo(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.95,
    history: Annotated[int, Field(ge=0)] = 2,
    alpha: float = 1.0,
    divide_by_std: bool = True,
    base: bool = False,
    count_zeros: bool = True,
    anchor: Anchor = "view",
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare turns with the same recent views, with more weight on longer shared histories.

    What: For each length of history, a turn is compared with the turns of its group that have the
    same last views. The advantages of all lengths are averaged, with more weight on longer
    histories.
    When to use: as ``gigpo``, if a single view contains too little of a seat's knowledge.
    Mathematics: for k = 1..history + 1, c_k are the turns of a (group, role, game) with the same
    last k anchors. If c_k has at least two turns,
        a_k = (G - mean G) / (population deviation + epsilon)
    over c_k, and
        A = sum_k w_k a_k
    with w_k proportional to (k + 1)^alpha over the k that have a value. G is the discounted return
    from the turn on.
    Shapes: advantages [N].
    Pitfalls:
        - Without ``base``, a turn with a unique view gets 0 for any return.
        - With ``count_zeros`` false, rounding errors can decide which advantages are 0. Here an
          advantage below 1e-12 times the largest return counts as 0.
        - epsilon is not added to the sum of the weights.
        - With ``base``, the authors' code counts a trajectory once for each of its turns; here each
          trajectory counts once.
        - A seat that sees a view twice is compared with itself. With ``gamma`` below 1 the two
          returns differ, and the division gives +1 and -1, also in a group of equal returns. Set
          ``gamma`` 1 or ``divide_by_std`` false to avoid this.
    Reference: arXiv 2602.22817; the authors' code, core_hgpo.py.
    Verified by: tests/methods/credit/test_anchor_groups.py.

    Args:
        gamma: discount per turn of G, in [0, 1]; 1 does not discount. The default is 0.95.
        history: number of earlier turns in the longest history, besides the current turn, at least
            0. 0 compares by the current anchor only; the default is 2.
        alpha: how strongly long histories count, any number: the weight of length k is (k +
            1)^alpha. 0 weighs all lengths equally; the default 1 grows linearly.
        divide_by_std: true (default) divides by the population deviation of c_k, and ``base`` by
            its sample deviation. False leaves G - mean G.
        base: true adds the trajectory's advantage in its group (``grpo``) as k = 0, with weight 1.
            False (default) leaves it out.
        count_zeros: true (default) averages over all lengths that have a value. False (preset
            ``as_released``) leaves out lengths whose advantage is 0, as the authors' code does.
            Then a group of equal returns does not move the average towards 0.
        anchor: the anchor that two turns must share. "view" (default): the seat's current view.
            "state_key": the information state; it contains the whole history, so all lengths give
            the same groups.
        epsilon: added to the deviations, in reward units, at least 0. Unused without
            ``divide_by_std``.

    Raises:
        CreditError: the anchor's column is missing.
    """
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    tolerance = RELATIVE_TOLERANCE * np.abs(returns).max(initial=0.0)
    weighted_sum, weights = np.zeros(len(returns)), np.zeros(len(returns))
    if base:
        weighted_sum = grpo(turns, divide_by_std=divide_by_std, epsilon=epsilon).advantages.copy()
        weights[:] = 1.0 if count_zeros else np.abs(weighted_sum) > RELATIVE_TOLERANCE
    for length, rows, groups, num_groups in _groups_by_length(turns, history + 1, anchor):
        values = centre(returns[rows], groups, num_groups)
        has_value = np.ones(len(rows), dtype=bool) if count_zeros else np.abs(values) > tolerance
        if divide_by_std:
            values = values / _deviation(values, groups, num_groups, tolerance, epsilon)[groups]
        weight = np.where(has_value, (length + 1.0) ** alpha, 0.0)
        weighted_sum[rows] += weight * values
        weights[rows] += weight
    return Credit(advantages=weighted_sum / np.where(weights > 0, weights, 1.0))


def _groups_by_length(
    turns: TurnTable, max_length: int, anchor: Anchor
) -> Iterator[tuple[int, IntArray, IntArray, int]]:
    """Yield (length, rows whose history another row shares, their group ids, number of groups).

    Each length searches only the rows that the previous length has yielded: rows without a common
    history of k views have no common history of k + 1 views.
    """
    anchors, num_anchors = anchor_groups(turns, "hgpo", anchor)
    groups, num_groups = anchors, num_anchors
    position = positions(turns.trajectory)
    rows = np.arange(len(anchors))
    for length in range(1, max_length + 1):
        if length > 1:
            has_history = position[rows] >= length - 1
            rows = rows[has_history]
            earlier_anchors = anchors[rows - (length - 1)]
            groups, num_groups = group_ids(groups[has_history] * num_anchors + earlier_anchors)
        is_shared = group_counts(groups, num_groups)[groups] > 1
        rows, groups = rows[is_shared], groups[is_shared]
        if not len(rows):
            return
        yield length, rows, groups, num_groups


def _deviation(
    centred: FloatArray, groups: IntArray, num_groups: int, tolerance: float, epsilon: float
) -> FloatArray:
    """Return each group's deviation plus epsilon, or inf if values differ only by rounding."""
    sizes = np.maximum(group_counts(groups, num_groups), 1)
    variance = group_sum(centred * centred, groups, num_groups) / sizes
    return np.where(variance > tolerance**2, np.sqrt(variance) + epsilon, np.inf)
