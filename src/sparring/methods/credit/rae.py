"""Credit: role-conditioned advantage estimation (SPIRAL's RAE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, IntArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, trajectory_returns

PRESETS = {"as_released": {"baselines": "player"}}


def rae(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    decay: Annotated[float, Field(ge=0, le=1)] = 0.95,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    baselines: Literal["role", "player"] = "role",
) -> Credit:
    """Compare a trajectory's return with a running mean of its role's returns.

    What: The baseline is an exponential moving average (EMA) of returns per (game, role), over the
    whole run. Checkpoints save the baseline.
    When to use: self-play in which seats have different prospects, without repeated initial states.
    Mathematics:
        A[i, t] = gamma^(turns left after t) * (R_i - b)
    and then
        b <- decay * b + (1 - decay) * R_i
    with trajectories in order of their episodes. Each A uses b before the update; at first b is 0.
    Shapes: advantages [N]; state {"GAME/ROLE": b}.
    Pitfalls: The paper has one baseline per game and role. The authors' code has one per player,
    so that games of different payoffs share it, and one table per actor process; here there is one
    table. Because b starts at 0, the first batches are centred poorly.
    Reference: Liu et al., 2025 (SPIRAL, arXiv 2506.24119).
    Verified by: tests/methods/credit/test_role_baselines.py.

    Args:
        decay: share of the old baseline that stays at each trajectory, in [0, 1]. 0 uses the last
            return alone, 1 keeps b at 0; the default 0.95 averages over about 20 trajectories.
        gamma: factor for every later turn of the trajectory, in [0, 1]. Below 1 early turns get
            less credit, as with intermediate rewards in the authors' code; 1 (default) credits all
            turns equally.
        baselines: the unit with a separate baseline: each "role" of each game (default), or each
            "player" (preset ``as_released``), which is each seat over all games, with state
            {"playerSEAT": b}, as in the authors' code.
    """
    returns, first_rows = trajectory_returns(turns)
    running_baselines: dict[str, float] = {str(key): float(value) for key, value in state.items()}
    baseline_values = np.empty(len(returns))
    for index, (name, value) in enumerate(
        zip(_baseline_names(turns, first_rows, baselines), returns.tolist(), strict=True)
    ):
        baseline_values[index] = running_baselines.get(name, 0.0)
        running_baselines[name] = decay * baseline_values[index] + (1.0 - decay) * value
    metrics = {f"baseline/{name}": value for name, value in running_baselines.items()}
    advantages = broadcast_to_turns(returns - baseline_values, turns)
    if gamma != 1.0:
        lengths = np.diff(np.append(first_rows, len(advantages)))
        num_later_turns = np.repeat(first_rows + lengths, lengths) - 1 - np.arange(len(advantages))
        advantages = advantages * gamma**num_later_turns
    return Credit(
        advantages=advantages,
        state=running_baselines,
        metrics=metrics,
        baselines=broadcast_to_turns(baseline_values, turns),
    )


def _baseline_names(
    turns: TurnTable, first_rows: IntArray, baselines: Literal["role", "player"]
) -> list[str]:
    if baselines == "player":
        return [f"player{seat}" for seat in turns.seat[first_rows].tolist()]
    keys = zip(turns.game[first_rows].tolist(), turns.role[first_rows].tolist(), strict=True)
    return [f"{turns.game_names[game]}/{turns.role_names[role]}" for game, role in keys]
