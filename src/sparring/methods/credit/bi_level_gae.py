"""Credit: generalised advantage estimation over turns, and inside each turn over its tokens."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import Cut, cut_turns, whiten_known, with_bootstrap
from sparring.ops.groups import backward_recurrence, generalised_advantages, next_values

NEEDS = {"token_value"}
REQUIRES = {"losses": {"value_loss"}}


def bi_level_gae(
    turns: TurnTable,
    *,
    gamma_turn: Annotated[float, Field(ge=0, le=1)] = 0.95,
    lam_turn: Annotated[float, Field(ge=0, le=1)] = 1.0,
    gamma_token: Annotated[float, Field(ge=0, le=1)] = 1.0,
    lam_token: Annotated[float, Field(ge=0, le=1)] = 1.0,
    whiten: bool = False,
    cut: Cut = "bootstrap",
) -> Credit:
    """Estimate advantages of turns first, then of the tokens within each turn.

    What: The critic gives a value before every sampled token. Temporal differences between the last
    tokens of turns give each turn's advantage, at the turn's last token. Token-level differences
    then carry this advantage back to the turn's first token.
    When to use: long replies in which only a few tokens decide, with a discount per turn but not
    per token. Add the loss ``value_loss``.
    Mathematics: V[t, j] is the value before token j = 1..J of turn t; J' is the last of turn t + 1.
        delta[t] = r[t] + gamma_turn V[t+1, J'] - V[t, J]
        A[t] = delta[t] + gamma_turn lam_turn A[t+1]
        A[t, J] = A[t]
        A[t, j] = gamma_token V[t, j+1] - V[t, j] + gamma_token lam_token A[t, j+1]
    The critic's target is
        A[t, j] + V[t, j]
    Shapes: advantages and value_targets [sum of n_tokens].
    Pitfalls:
        - With all decays 1, every token gets the return from its turn on minus its value, which
          has no bias with any critic.
        - A discount per turn does not discount long replies.
        - The code of one paper finds the ends of turns by rewards that are not 0, and so misses
          turns without a reward. Here every turn counts.
        - The reward of a turn without tokens (nothing fitted the context) is added to the turn
          before it.
        - A reward before the first turn with tokens is lost, because no token could change it.
        - The critic is fitted at every token, which costs no further forward pass.
    Reference: Wang et al., 2025 (VAGEN, arXiv 2510.16907); RAGEN's code (arXiv 2504.20073). The
    lambdas and the whitening are our reading.
    Verified by: tests/methods/credit/test_critics.py.

    Args:
        gamma_turn: discount from one turn to the next, in [0, 1]; 1 does not discount. The default
            is 0.95.
        lam_turn: decay of the sum of turn-level differences, in [0, 1]. 1 (default) uses the whole
            return; 0 uses the one-step difference.
        gamma_token: discount from one token to the next inside a turn, in [0, 1]; 1 (default) does
            not discount.
        lam_token: decay of the sum of token-level differences, in [0, 1]. 1 (default) carries the
            turn's advantage back to its first token without loss.
        whiten: true gives the advantages of the batch's tokens mean 0 and deviation 1, as the
            authors' code does. False (default) leaves them. Targets are never whitened.
        cut: "bootstrap" (default): an episode truncated by ``rollout.max_turns`` has not ended. The
            seat's next prompt is unknown, so V before the last turn's last token replaces r +
            gamma_turn V_next of that turn. Earlier turns bootstrap from this V, and the turn's
            other tokens learn from the differences within the turn. "zero": the episode counts as
            ended.
    """
    reward, trajectory, n_tokens = _with_tokens(turns)
    value, last_tokens = turns.column("token_value"), np.cumsum(n_tokens) - 1
    is_unknown = np.isin(trajectory, turns.trajectory[cut_turns(turns, cut)]) & (
        np.diff(trajectory, append=-1) != 0
    )
    reward = with_bootstrap(reward, value[last_tokens], is_unknown)
    turn_of_token = np.repeat(np.arange(len(reward)), n_tokens)
    delta = gamma_token * next_values(value, turn_of_token) - value
    delta[last_tokens] = generalised_advantages(
        reward, value[last_tokens], trajectory, gamma=gamma_turn, lam=lam_turn
    )
    advantages = backward_recurrence(delta, gamma_token * lam_token, turn_of_token)
    targets = advantages + value
    if whiten:
        is_unknown_token = np.isin(np.arange(len(value)), last_tokens[is_unknown])
        advantages = whiten_known(advantages, is_unknown_token)
    return Credit(advantages=advantages, level="token", value_targets=targets)


def _with_tokens(turns: TurnTable) -> tuple[FloatArray, IntArray, IntArray]:
    """Return (rewards, trajectories, numbers of tokens) of the turns with tokens.

    The reward of a turn without tokens goes to the turn before.
    """
    has_tokens = turns.n_tokens > 0
    if has_tokens.all():
        return turns.reward, turns.trajectory, turns.n_tokens
    # the latest turn with tokens; a trajectory's first turns may have one of another trajectory
    owner = np.cumsum(has_tokens) - 1
    rows = np.flatnonzero(has_tokens)
    has_owner = (owner >= 0) & (
        turns.trajectory == turns.trajectory[rows[np.maximum(owner, 0)]] if len(rows) else False
    )
    reward = np.bincount(
        owner[has_owner], weights=turns.reward[has_owner], minlength=len(rows)
    ).astype(np.float64)
    return reward, turns.trajectory[rows], turns.n_tokens[rows]
