"""Credit: generalised advantage estimation over turns, and inside each turn over its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sparring.credit.base import check
from sparring.errors import CreditError
from sparring.ops.returns import backward_recurrence, generalised_advantages, next_values
from sparring.types import Credit, TurnTable

NEEDS = {"token_values"}


def bi_level_gae(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    gamma_turn: Annotated[float, Field(ge=0, le=1)] = 0.95,
    lam_turn: Annotated[float, Field(ge=0, le=1)] = 1.0,
    gamma_token: Annotated[float, Field(ge=0, le=1)] = 1.0,
    lam_token: Annotated[float, Field(ge=0, le=1)] = 1.0,
    whiten: bool = False,
) -> Credit:
    """Estimate how good a turn was among turns first, then how good each of its tokens was within it.

    What: the critic is read before every sampled token. Turn-level temporal differences between the turns' last tokens give each turn's
    advantage; it stands at the turn's last token, and token-level differences carry it back to the turn's first.
    When to use: long replies, in which some tokens decide and most do not; turns discounted, tokens not. Add the loss ``value_loss``.
    Mathematics: with V[t, j] before token j = 1..J of turn t: delta[t] = r[t] + gamma_turn V[t+1, J'] - V[t, J];
    A[t] = delta[t] + gamma_turn lam_turn A[t+1]; A[t, J] = A[t];
    A[t, j] = gamma_token V[t, j+1] - V[t, j] + gamma_token lam_token A[t, j+1];
    the critic's target is A[t, j] + V[t, j].
    Shapes: advantages and value_targets [sum of n_tokens].
    Options: the four decays, 1 for none; ``whiten`` gives the batch's tokens mean 0 and deviation 1, as the releases do.
    Pitfalls: with all decays 1 every token gets the turn's return minus its own value: no bias, whatever the critic. Discounting by turns
    alone keeps long replies from being discounted. One release finds the ends of turns by rewards that are not 0, so a turn
    that earned nothing is none; here turns are turns. The critic is fitted at every token, which costs no further forward pass.
    Reference: Wang et al., 2025 (VAGEN, arXiv 2510.16907); RAGEN's code (arXiv 2504.20073). Lambdas and the whitening: literal reading.
    Verified by: tests/credit/test_bi_level_gae.py.

    Raises:
        CreditError: a reward or value is not finite, values are missing, or a turn has no tokens.
    """
    check(turns, "bi_level_gae", columns=("token_value",))
    assert turns.token_value is not None
    silent = np.flatnonzero(turns.n_tokens == 0)
    if len(silent):
        raise CreditError(
            f"credit 'bi_level_gae': the turn in row {silent[0]} has no sampled tokens; only agents that speak can be trained."
        )
    value, last = turns.token_value, np.cumsum(turns.n_tokens) - 1
    turn = np.repeat(np.arange(len(turns.reward)), turns.n_tokens)
    delta = gamma_token * next_values(value, turn) - value
    delta[last] = generalised_advantages(turns.reward, value[last], turns.trajectory, gamma=gamma_turn, lam=lam_turn)
    advantages = backward_recurrence(delta, gamma_token * lam_token, turn)
    targets = advantages + value
    if whiten and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    return Credit(advantages=advantages, state=dict(state), level="token", value_targets=targets)
