"""Credit: generalised advantage estimation over turns, and inside each turn over its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sparring.credit.base import check
from sparring.credit.cuts import Cut, continued, cut_turns, whitened
from sparring.ops.returns import backward_recurrence, generalised_advantages, next_values
from sparring.types import Credit, FloatArray, IntArray, TurnTable

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
    cut: Cut = "bootstrap",
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
    ``cut`` "bootstrap": a game that ``rollout.max_turns`` cut has not ended, so r + gamma_turn V_next of
    its last turn is taken to be V before that turn's last token: what the seat would be asked next is
    not known. Turns before look ahead to it, its other tokens learn of the differences within the turn.
    "zero": it counts as ended.
    Pitfalls: with all decays 1 every token gets the turn's return minus its own value: no bias, whatever the critic. Discounting by turns
    alone keeps long replies from being discounted. One release finds the ends of turns by rewards that are not 0, so a turn
    that earned nothing is none; here turns are turns. What a turn without tokens (nothing fitted the context) earned counts to the
    turn before it, as if paid there; before the first that spoke it is lost, for no token could change it. The critic is fitted at
    every token, which costs no further forward pass.
    Reference: Wang et al., 2025 (VAGEN, arXiv 2510.16907); RAGEN's code (arXiv 2504.20073). Lambdas and the whitening: literal reading.
    Verified by: tests/credit/test_bi_level_gae.py.

    Raises:
        CreditError: a reward or value is not finite, or values are missing.
    """
    check(turns, "bi_level_gae", columns=("token_value",))
    assert turns.token_value is not None
    reward, trajectory, n_tokens = _spoken(turns)
    value, last = turns.token_value, np.cumsum(n_tokens) - 1
    unknown = np.isin(trajectory, turns.trajectory[cut_turns(turns, cut)]) & (np.diff(trajectory, append=-1) != 0)
    reward = continued(reward, value[last], unknown)
    turn = np.repeat(np.arange(len(reward)), n_tokens)
    delta = gamma_token * next_values(value, turn) - value
    delta[last] = generalised_advantages(reward, value[last], trajectory, gamma=gamma_turn, lam=lam_turn)
    advantages = backward_recurrence(delta, gamma_token * lam_token, turn)
    targets = advantages + value
    if whiten:
        advantages = whitened(advantages, np.isin(np.arange(len(value)), last[unknown]))
    return Credit(advantages=advantages, state=dict(state), level="token", value_targets=targets)


def _spoken(turns: TurnTable) -> tuple[FloatArray, IntArray, IntArray]:
    """Return rewards, trajectories and numbers of tokens of the turns that have tokens; what others earned goes to the one before."""
    spoken = turns.n_tokens > 0
    if spoken.all():
        return turns.reward, turns.trajectory, turns.n_tokens
    owner = np.cumsum(spoken) - 1  # the latest turn that spoke, of this trajectory or, if it is the first, of an earlier one
    rows = np.flatnonzero(spoken)
    own = (owner >= 0) & (turns.trajectory == turns.trajectory[rows[np.maximum(owner, 0)]] if len(rows) else False)
    reward = np.bincount(owner[own], weights=turns.reward[own], minlength=len(rows)).astype(np.float64)
    return reward, turns.trajectory[rows], turns.n_tokens[rows]
