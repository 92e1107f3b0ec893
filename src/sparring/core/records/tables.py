"""What credit works on and gives: turn tables, advantages, intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sparring.core.errors import CreditError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnTable:
    """Columns over turns, sorted by (episode, seat, turn_index): what credit works on.

    All arrays have shape [N] but ``token_value``.

    A *trajectory* is the run of turns of one seat in one episode: rows with equal ``trajectory``
    are contiguous and in order of play.
    """

    episode: IntArray
    group: IntArray
    trajectory: IntArray  # 0..num_trajectories-1, non-decreasing
    game: IntArray  # index into game_names
    role: IntArray  # index into role_names
    seat: IntArray
    agent: IntArray  # index into agent_names
    turn_index: IntArray
    # sum of the turn's reward components, in the game's units times its scale
    # (environments.N.scale)
    reward: FloatArray
    done: BoolArray  # last turn of its trajectory
    state_key: IntArray  # equal exactly when the information states are equal, within a game
    legal: BoolArray
    n_tokens: IntArray  # sampled tokens of the turn
    # last turn of its trajectory in an episode that was truncated; present if any was
    cut: BoolArray | None = None
    # index into action_names of what was played; -1 where nothing was
    action: IntArray | None = None
    # index into view_names: equal exactly when the seat saw the same, within a game
    view: IntArray | None = None
    # sum of the sampler's log-probabilities over the turn's sampled tokens, nats
    logprob: FloatArray | None = None
    # the turn's named rewards; they sum to ``reward``
    components: Mapping[str, FloatArray] = field(default_factory=dict)
    # whether the oracle gave a verdict on the turn; present if it did on any
    judged: BoolArray | None = None
    # whether the turn is no decision but a memory that the seat wrote; present if any is
    memory: BoolArray | None = None
    # attempt of a trial, from 0; present if any turn is of a later one
    attempt: IntArray | None = None
    # whether the turn is no decision but a note after an attempt, of which it is; present if any is
    note: BoolArray | None = None
    # equal exactly for the replies to one prompt, and whether the reply was played; both present in
    # tables of all candidates. What was not played is a trajectory of its own, after those of its
    # seat that were
    state_group: IntArray | None = None
    committed: BoolArray | None = None
    # from here on: present if the estimator NEEDS them; see the slot columns/
    value: FloatArray | None = None
    value_after: FloatArray | None = None
    token_value: FloatArray | None = None  # [sum of n_tokens]
    old_logprob: FloatArray | None = None
    reference_logprob: FloatArray | None = None
    process_logprob: FloatArray | None = None
    action_value: FloatArray | None = None
    state_value: FloatArray | None = None
    default_value: FloatArray | None = None
    playout: FloatArray | None = None  # nan where nothing was played on
    playout_before: FloatArray | None = None
    # what judged the replies to one prompt said of each, and whether anything did
    candidate_value: FloatArray | None = None
    candidate_judged: BoolArray | None = None
    opponents: IntArray | None = None  # equal exactly where the same players sat in the other seats
    failed: BoolArray | None = None  # whether a limit ended the turn's conversation
    wideseek_turns: BoolArray | None = None  # whether WideSeek-R1, as released, trains the turn
    # columns of plug-ins that have no field here
    extra: Mapping[str, FloatArray] = field(default_factory=dict)
    game_names: tuple[str, ...] = ()
    role_names: tuple[str, ...] = ()
    agent_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    view_names: tuple[str, ...] = ()

    def column(self, name: str) -> FloatArray:
        """Return a column that was computed on demand.

        Raises:
            CreditError: it was not; the message says what to declare.
        """
        found: FloatArray | None = self.extra.get(name, getattr(self, name, None))
        if found is None:
            raise CreditError(
                f"The turn table has no column {name!r}; declare NEEDS = {{{name!r}}} in the "
                "module, so that it is computed."
            )
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Credit:
    """What an advantage estimator returns.

    ``advantages`` has shape [N] when ``level == "turn"`` (every sampled token of a turn gets its
    turn's value), or [sum of n_tokens] in row order when ``level == "token"``. ``state`` is the
    estimator's running state to be saved with a checkpoint (JSON-serialisable). When a critic is to
    be fitted, ``value_targets`` has shape [N]: before the turns, or after them if the plug-in NEEDS
    "value_after" and not "value"; with "token_value" [sum of n_tokens], before each token.
    ``baselines`` [N] is what was subtracted from what followed each turn, before any scaling: it is
    recorded, and nothing reads it. ``trained`` [N] says which turns carry loss: the tokens of all
    others are left out of every loss, and of what losses are averaged over. None: all carry it.
    """

    advantages: FloatArray
    state: dict[str, Any] = field(default_factory=dict)
    level: Literal["turn", "token"] = "turn"
    value_targets: FloatArray | None = None
    baselines: FloatArray | None = None
    trained: BoolArray | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A point estimate, the ends of its confidence interval, and how much is behind it."""

    mean: float
    low: float
    high: float
    count: int
    level: float = 0.95
