"""Turns a trainer's batch into a turn table; shared by the bridges to verl and TRL.

A batch is a matrix of tokens with a mask of the sampled tokens. A row is a trajectory. Each
unbroken span of sampled tokens is a turn, and the tokens between two spans are prompts. If a row
is only one turn of an episode, the columns ``episode`` and ``seat`` group the rows.

A batch may have further columns, each with one entry per row:
    game, role, agent    names; default: one game, one role, one agent
    episode              equal for rows of one episode; default: each row is one episode
    seat                 seat of the row; default: the role if ``episode`` is present, else 0
    turn                 order of the rows of one (episode, seat); default: order in the batch
    cut                  whether the episode was truncated, for critics that bootstrap; default: no
    state, view, action  state of the game, observation of the player and its action, per turn: a
                         list with one entry per turn, or a single value if the row has one turn
    legal                whether the action was legal, per turn; default: yes
    attempt, note        for trials, per turn: number of the attempt, from 0, and whether the turn
                         writes a note after an attempt; default: no trials
    component_NAME       named part of the reward, per turn; the remainder is called "game"
Without ``state``, two turns share a state only if both are first turns of one group and role.

Legend: B rows, L tokens of a row, N turns, T sampled tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import CreditError
from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.ops.groups import group_ids

PREFIX = "sparring_"  # prefix of column names in a trainer's batch
COMPONENT = "component_"
PER_ROW = ("game", "role", "agent", "episode", "seat", "turn", "cut")
PER_TURN = ("state", "view", "action", "legal", "attempt", "note")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerRows:
    """A trainer's batch. Arrays [N] hold the turns of the first row, then those of the second."""

    num_turns: IntArray  # number of turns of each row [B], at least 1
    n_tokens: IntArray  # number of sampled tokens of each turn [N]
    reward: FloatArray  # reward of each turn [N]
    group: Sequence[Any]  # [B] equal for equal initial states
    # columns by name without the prefix, [B] each
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    components: Mapping[str, FloatArray] = field(default_factory=dict)  # reward components, [N]
    # optional columns of the turn table by name, [N] each
    numbers: Mapping[str, FloatArray] = field(default_factory=dict)
    token_value: FloatArray | None = None  # the critic's value at each sampled token [T]


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """An estimator's output in the order of the batch."""

    advantages: FloatArray  # of each sampled token [T], row after row
    value_targets: FloatArray | None  # the critic's target at each sampled token [T]
    credit: Credit


def estimate(
    estimator: BoundPlugin, rows: TrainerRows, state: Mapping[str, Any], hints: Mapping[str, str]
) -> Estimate:
    """Run an estimator on a batch.

    Args:
        estimator: the estimator with its options.
        rows: the batch.
        state: the estimator's running state.
        hints: by column: what the user must set so that the trainer supplies the column.

    Raises:
        CreditError: a column is missing or contradicts another one, or the estimator leaves turns
            out of training, which the trainer's mask cannot express.
    """
    turns, order = turn_table(rows)
    try:
        credit: Credit = estimator(turns, state)
    except CreditError as error:
        advice = [
            hint
            for column, hint in hints.items()
            if repr(column) in str(error) and getattr(turns, column, None) is None
        ]
        raise CreditError(" ".join([str(error), *advice])) from None
    if credit.trained is not None:
        raise CreditError(
            f"credit {estimator.plugin.name!r} with these options leaves turns out of the losses "
            "and their means, but the trainer's mask keeps them; use options that keep all turns."
        )
    token_positions = _token_order(rows.n_tokens, order)

    def to_batch_order(values: FloatArray, *, per_turn: bool) -> FloatArray:
        ordered = np.zeros(len(token_positions))
        ordered[token_positions] = np.repeat(values, turns.n_tokens) if per_turn else values
        return ordered

    targets = credit.value_targets
    if targets is not None:
        targets = to_batch_order(targets, per_turn="token_value" not in estimator.plugin.needs)
    return Estimate(
        advantages=to_batch_order(credit.advantages, per_turn=credit.level == "turn"),
        value_targets=targets,
        credit=credit,
    )


def turn_table(rows: TrainerRows) -> tuple[TurnTable, IntArray]:
    """Return (turn table, position in the batch of each turn of the table [N]).

    Raises:
        CreditError: a column has the wrong length, or rows of one (episode, seat) differ in group,
            game or role.
    """
    _check_columns(rows)
    num_rows, total_turns = len(rows.num_turns), int(rows.num_turns.sum())
    row_of = np.repeat(np.arange(num_rows), rows.num_turns)
    first_turns = np.cumsum(rows.num_turns) - rows.num_turns
    index_in_row = np.arange(total_turns) - np.repeat(first_turns, rows.num_turns)
    components = {
        name: _ids_and_texts(rows.columns.get(name, [default] * num_rows))
        for name, default in _DEFAULTS.items()
    }
    episode = np.arange(num_rows)
    if "episode" in rows.columns:
        episode = _ids_and_texts(rows.columns["episode"])[0]
    seat = np.zeros(num_rows, dtype=np.int64)
    if "seat" in rows.columns:
        seat = _ids_and_texts(rows.columns["seat"])[0]
    elif "episode" in rows.columns:
        seat = components["role"][0]
    turn_order = np.asarray(rows.columns.get("turn", np.zeros(num_rows)), dtype=np.float64)
    order = np.lexsort((index_in_row, row_of, turn_order[row_of], seat[row_of], episode[row_of]))
    row = row_of[order]
    trajectory = np.zeros(total_turns, dtype=np.int64)
    trajectory[1:] = np.cumsum((np.diff(episode[row]) != 0) | (np.diff(seat[row]) != 0))
    starts = np.flatnonzero(np.diff(trajectory, prepend=-1))
    turn_index = np.arange(total_turns) - np.repeat(starts, np.diff(np.append(starts, total_turns)))
    group = _ids_and_texts(rows.group)[0]
    _check_trajectories(
        trajectory,
        {"group": group[row], **{name: components[name][0][row] for name in ("game", "role")}},
    )
    per_turn = {
        name: [value for values in rows.columns[name] for value in _values_by_turn(values)]
        for name in PER_TURN
        if name in rows.columns
    }
    ids = {
        name: _ids_and_texts([values[index] for index in order], allow_none=name == "action")
        for name, values in per_turn.items()
        if name not in _PLAIN_DTYPES
    }
    state_key = (
        ids["state"][0]
        if "state" in ids
        else _start_states(turn_index, group[row], components["role"][0][row])
    )
    numbers: dict[str, Any] = {name: values[order] for name, values in rows.numbers.items()}
    numbers |= _plain_columns(per_turn, order)
    is_last_turn = np.append(np.diff(trajectory) != 0, np.ones(min(total_turns, 1), dtype=bool))
    return TurnTable(
        episode=episode[row],
        group=group[row],
        trajectory=trajectory,
        game=components["game"][0][row],
        role=components["role"][0][row],
        seat=seat[row],
        agent=components["agent"][0][row],
        turn_index=turn_index,
        reward=rows.reward[order],
        done=is_last_turn,
        cut=is_last_turn & np.asarray(rows.columns["cut"], dtype=bool)[row]
        if "cut" in rows.columns
        else None,
        state_key=state_key,
        n_tokens=rows.n_tokens[order],
        action=ids["action"][0] if "action" in ids else None,
        view=ids["view"][0] if "view" in ids else None,
        components=_components(rows, order),
        token_value=None
        if rows.token_value is None
        else rows.token_value[_token_order(rows.n_tokens, order)],
        game_names=components["game"][1],
        role_names=components["role"][1],
        agent_names=components["agent"][1],
        action_names=ids["action"][1] if "action" in ids else (),
        view_names=ids["view"][1] if "view" in ids else (),
        **numbers,
    ), order


_DEFAULTS = {"game": "game", "role": "player", "agent": "learner"}
_PLAIN_DTYPES: dict[str, type] = {"legal": bool, "attempt": np.int64, "note": bool}


def _ids_and_texts(
    values: Sequence[Any], *, allow_none: bool = False
) -> tuple[IntArray, tuple[str, ...]]:
    """Return (id of each value, text of each id); with ``allow_none``, the id of None is -1."""
    is_missing = np.array([allow_none and value is None for value in values], dtype=bool)
    texts, ids = np.unique(
        np.array([str(value) for value in values], dtype=str)[~is_missing], return_inverse=True
    )
    value_ids = np.full(len(values), -1, dtype=np.int64)
    value_ids[~is_missing] = ids.reshape(-1)
    return value_ids, tuple(texts.tolist())


def _plain_columns(per_turn: Mapping[str, Sequence[Any]], order: IntArray) -> dict[str, Any]:
    values_by_name = {"legal": [True] * len(order), **per_turn}
    return {
        name: np.asarray(values_by_name[name], dtype=dtype)[order]
        for name, dtype in _PLAIN_DTYPES.items()
        if name in values_by_name
    }


def _values_by_turn(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple | np.ndarray) else [values]


def _components(rows: TrainerRows, order: IntArray) -> dict[str, FloatArray]:
    components = {name: values[order] for name, values in rows.components.items()}
    for name, values in rows.columns.items():
        if name.startswith(COMPONENT):
            components[name.removeprefix(COMPONENT)] = np.array(
                [float(value) for row in values for value in _values_by_turn(row)]
            )[order]
    if components:
        remainder = rows.reward[order] - np.sum(list(components.values()), axis=0)
        if np.abs(remainder).max(initial=0.0) > 1e-6 * (1.0 + np.abs(rows.reward).max(initial=0.0)):
            components["rest" if "game" in components else "game"] = remainder
    return components


def _start_states(turn_index: IntArray, group: IntArray, role: IntArray) -> IntArray:
    starts, num_starts = group_ids(group, role)
    states: IntArray = np.where(turn_index == 0, starts, num_starts + np.arange(len(turn_index)))
    return states


def _token_order(n_tokens: IntArray, order: IntArray) -> IntArray:
    """Return the batch positions [T] of the sampled tokens, with the turns in this order."""
    first_tokens, lengths = (np.cumsum(n_tokens) - n_tokens)[order], n_tokens[order]
    shift = np.repeat(first_tokens - (np.cumsum(lengths) - lengths), lengths)
    token_positions: IntArray = np.arange(int(lengths.sum())) + shift
    return token_positions


def _check_columns(rows: TrainerRows) -> None:
    for name, values in rows.columns.items():
        column = f"column {PREFIX + name!r}"
        if name not in (*PER_ROW, *PER_TURN) and not name.startswith(COMPONENT):
            raise CreditError(
                f"{column} is unknown; "
                f"the columns are {', '.join((*PER_ROW, *PER_TURN, COMPONENT + 'NAME'))}."
            )
        if len(values) != len(rows.num_turns):
            raise CreditError(
                f"{column} has {len(values)} entries for a batch of {len(rows.num_turns)} rows; "
                "write one per row."
            )
        if name not in PER_ROW:
            for row, (entry, count) in enumerate(zip(values, rows.num_turns.tolist(), strict=True)):
                num_values = len(_values_by_turn(entry))
                if num_values != count:
                    raise CreditError(
                        f"{column}, row {row}: {num_values} values for {count} turns; write "
                        f"a list of {count}."
                    )


def _check_trajectories(trajectory: IntArray, columns: Mapping[str, IntArray]) -> None:
    for name, column in columns.items():
        contradictions = np.flatnonzero((np.diff(trajectory) == 0) & (np.diff(column) != 0))
        if len(contradictions):
            problem = (
                f"rows of one (episode, seat) have different {name}s, "
                f"trajectory {trajectory[contradictions[0]]}"
            )
            raise CreditError(
                f"{problem}; each seat of each episode needs different values of {PREFIX}episode "
                f"and {PREFIX}seat."
            )


_SPARRING_ONLY = {
    "process_logprob": "A reward model is trained in Sparring's own runs only.",
    **dict.fromkeys(
        ("action_value", "state_value", "default_value"),
        "Exact values exist in Sparring's own small games only.",
    ),
    **dict.fromkeys(
        ("state_group", "committed", "candidate_value", "candidate_judged"),
        "Candidate replies that are judged but not played exist in Sparring's own runs only.",
    ),
    "opponents": "The players of the other seats are known in Sparring's own runs only.",
    **dict.fromkeys(
        ("failed", "wideseek_turns"),
        "The reason why a conversation ended is recorded in Sparring's own episodes only.",
    ),
    **dict.fromkeys(
        ("playout", "playout_before"), "Playouts from a turn exist in Sparring's own runs only."
    ),
}
VERL_HINTS = {
    "view": (
        f"Put each turn's observation into non_tensor_batch[{PREFIX + 'view'!r}] and call "
        "pass_columns()."
    ),
    "action": (
        f"Put each turn's action into non_tensor_batch[{PREFIX + 'action'!r}] and call "
        "pass_columns()."
    ),
    "value": "Set critic.enable and call pass_columns().",
    "token_value": "Set critic.enable and call pass_columns().",
    "value_after": "verl's critic computes no value after a turn.",
    "logprob": "Call pass_columns().",
    "old_logprob": "Call pass_columns().",
    "reference_logprob": (
        "Let verl use a reference (actor.use_kl_loss or algorithm.use_kl_in_reward) and call "
        "pass_columns()."
    ),
    **_SPARRING_ONLY,
}
_RECOMPUTE = (
    "Make TRL compute it: steps_per_generation above gradient_accumulation_steps, or use_vllm."
)
TRL_HINTS = {
    "view": f"Put each turn's observation into the column {PREFIX + 'view'!r}.",
    "action": f"Put each turn's action into the column {PREFIX + 'action'!r}.",
    "logprob": _RECOMPUTE,
    "old_logprob": _RECOMPUTE,
    "reference_logprob": "Let TRL use a reference: set beta above 0.",
    **dict.fromkeys(("value", "value_after", "token_value"), "GRPOTrainer has no critic."),
    **_SPARRING_ONLY,
}
