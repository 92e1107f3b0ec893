"""A trainer's batch as a turn table, shared by the bridges to other trainers.

A batch is a matrix of tokens with a mask of the sampled ones. A row is a trajectory; each unbroken
run of sampled tokens is a turn, and the tokens between two runs are prompts. If a row is only one
turn of a game, the columns ``episode`` and ``seat`` group the rows.

Named columns with one entry per row add what a batch lacks:
    game, role, agent    names; default: one game, one role, one agent
    episode              equal for rows of one episode; default: every row its own
    seat                 seat of the row; default: the role if ``episode`` is given, else 0
    turn                 order of the rows of one (episode, seat); default: their order
    cut                  whether the episode was truncated, for critics that bootstrap; default: no
    state, view, action  known state, seen position and played action, per turn: a list as long as
                         the row has turns, or one value for one turn
    legal                per turn; default: all
    attempt, note        per turn, for rows of trials: number of the attempt, from 0, and whether
                         the turn is a note after it; default: no trials
    component_NAME       per turn, a named part of the reward; the rest is called "game"
Without ``state``, only the first turns of one group and role share a state, as their prompts are
equal.

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

PREFIX = "sparring_"  # of column names in a trainer's batch
COMPONENT = "component_"
PER_ROW = ("game", "role", "agent", "episode", "seat", "turn", "cut")
PER_TURN = ("state", "view", "action", "legal", "attempt", "note")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerRows:
    """A batch by rows, and in each row by turns in order."""

    num_turns: IntArray  # [B], at least 1
    n_tokens: IntArray  # [N]
    reward: FloatArray  # [N]
    group: Sequence[Any]  # [B] equal for equal initial states
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # [B] each, without prefix
    components: Mapping[str, FloatArray] = field(default_factory=dict)  # [N] each
    # [N] each, optional columns of the turn table by name
    numbers: Mapping[str, FloatArray] = field(default_factory=dict)
    token_value: FloatArray | None = None  # [T]


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """An estimator's output in the order of the batch."""

    advantages: FloatArray  # [T], row after row
    value_targets: FloatArray | None  # [T]
    credit: Credit


def estimate(
    bound: BoundPlugin, rows: TrainerRows, state: Mapping[str, Any], hints: Mapping[str, str]
) -> Estimate:
    """Run an estimator on a batch.

    Args:
        bound: the estimator with its options.
        rows: the batch.
        state: the estimator's running state.
        hints: for optional columns of the turn table, how to make this trainer give them.

    Raises:
        CreditError: the batch lacks a column, or contradicts itself; or the estimator leaves turns
            out of training, which another trainer's mask cannot do.
    """
    turns, order = turn_table(rows)
    try:
        credit: Credit = bound(turns, state)
    except CreditError as error:
        advice = [
            hint
            for column, hint in hints.items()
            if repr(column) in str(error) and getattr(turns, column, None) is None
        ]
        raise CreditError(" ".join([str(error), *advice])) from None
    if credit.trained is not None:
        raise CreditError(
            f"credit {bound.plugin.name!r} with these options leaves turns out of the losses and "
            "their means, and the trainer's own mask keeps them; take options that keep all."
        )
    index = _token_order(rows.n_tokens, order)

    def by_token(values: FloatArray, *, per_turn: bool) -> FloatArray:
        out = np.zeros(len(index))
        out[index] = np.repeat(values, turns.n_tokens) if per_turn else values
        return out

    targets = credit.value_targets
    if targets is not None:
        targets = by_token(targets, per_turn="token_value" not in bound.plugin.needs)
    return Estimate(
        advantages=by_token(credit.advantages, per_turn=credit.level == "turn"),
        value_targets=targets,
        credit=credit,
    )


def turn_table(rows: TrainerRows) -> tuple[TurnTable, IntArray]:
    """Return (turn table, index of each of its rows among the batch's turns [N]).

    Raises:
        CreditError: a column has the wrong length, or rows of one (episode, seat) differ in group,
            game or role.
    """
    _check_columns(rows)
    count, size = len(rows.num_turns), int(rows.num_turns.sum())
    row_of = np.repeat(np.arange(count), rows.num_turns)
    within = np.arange(size) - np.repeat(np.cumsum(rows.num_turns) - rows.num_turns, rows.num_turns)
    components = {
        name: _numbered(rows.columns.get(name, [default] * count))
        for name, default in _DEFAULTS.items()
    }
    episode = (
        _numbered(rows.columns["episode"])[0] if "episode" in rows.columns else np.arange(count)
    )
    seat = np.zeros(count, dtype=np.int64)
    if "seat" in rows.columns:
        seat = _numbered(rows.columns["seat"])[0]
    elif "episode" in rows.columns:
        seat = components["role"][0]
    place = np.asarray(rows.columns.get("turn", np.zeros(count)), dtype=np.float64)
    order = np.lexsort((within, row_of, place[row_of], seat[row_of], episode[row_of]))
    row = row_of[order]
    trajectory = np.zeros(size, dtype=np.int64)
    trajectory[1:] = np.cumsum((np.diff(episode[row]) != 0) | (np.diff(seat[row]) != 0))
    starts = np.flatnonzero(np.diff(trajectory, prepend=-1))
    turn_index = np.arange(size) - np.repeat(starts, np.diff(np.append(starts, size)))
    group = _numbered(rows.group)[0]
    _check_trajectories(
        trajectory,
        {"group": group[row], **{name: components[name][0][row] for name in ("game", "role")}},
    )
    per_turn = {
        name: [v for values in rows.columns[name] for v in _turns(values)]
        for name in PER_TURN
        if name in rows.columns
    }
    ids = {
        name: _numbered([values[i] for i in order], missing=name == "action")
        for name, values in per_turn.items()
        if name not in _PLAIN_KINDS
    }
    state_key = (
        ids["state"][0]
        if "state" in ids
        else _start_states(turn_index, group[row], components["role"][0][row])
    )
    numbers: dict[str, Any] = {name: values[order] for name, values in rows.numbers.items()}
    numbers |= _plain_columns(per_turn, order)
    is_last_turn = np.append(np.diff(trajectory) != 0, np.ones(min(size, 1), dtype=bool))
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
_PLAIN_KINDS: dict[str, type] = {"legal": bool, "attempt": np.int64, "note": bool}


def _numbered(values: Sequence[Any], *, missing: bool = False) -> tuple[IntArray, tuple[str, ...]]:
    """Return (ids of the values by their text, texts); with ``missing``, None is -1."""
    absent = np.array([missing and value is None for value in values], dtype=bool)
    texts, ids = np.unique(
        np.array([str(value) for value in values], dtype=str)[~absent], return_inverse=True
    )
    out = np.full(len(values), -1, dtype=np.int64)
    out[~absent] = ids.reshape(-1)
    return out, tuple(texts.tolist())


def _plain_columns(per_turn: Mapping[str, Sequence[Any]], order: IntArray) -> dict[str, Any]:
    values_of = {"legal": [True] * len(order), **per_turn}
    return {
        name: np.asarray(values_of[name], dtype=kind)[order]
        for name, kind in _PLAIN_KINDS.items()
        if name in values_of
    }


def _turns(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple | np.ndarray) else [values]


def _components(rows: TrainerRows, order: IntArray) -> dict[str, FloatArray]:
    components = {name: values[order] for name, values in rows.components.items()}
    for name, values in rows.columns.items():
        if name.startswith(COMPONENT):
            components[name.removeprefix(COMPONENT)] = np.array(
                [float(v) for row in values for v in _turns(row)]
            )[order]
    if components:
        remainder = rows.reward[order] - np.sum(list(components.values()), axis=0)
        if np.abs(remainder).max(initial=0.0) > 1e-6 * (1.0 + np.abs(rows.reward).max(initial=0.0)):
            components["rest" if "game" in components else "game"] = remainder
    return components


def _start_states(turn_index: IntArray, group: IntArray, role: IntArray) -> IntArray:
    """Return states [N] that are equal only for first turns of one group and role."""
    starts, count = group_ids(group, role)
    states: IntArray = np.where(turn_index == 0, starts, count + np.arange(len(turn_index)))
    return states


def _token_order(n_tokens: IntArray, order: IntArray) -> IntArray:
    """Return the batch positions of the tokens of turns in this order, [T]."""
    begin, lengths = (np.cumsum(n_tokens) - n_tokens)[order], n_tokens[order]
    shift = np.repeat(begin - (np.cumsum(lengths) - lengths), lengths)
    index: IntArray = np.arange(int(lengths.sum())) + shift
    return index


def _check_columns(rows: TrainerRows) -> None:
    """Raise CreditError unless every column is known and has the right length."""
    for name, values in rows.columns.items():
        column = f"column {PREFIX + name!r}"
        if name not in (*PER_ROW, *PER_TURN) and not name.startswith(COMPONENT):
            raise CreditError(
                f"{column} is unknown; "
                f"the known ones are {', '.join((*PER_ROW, *PER_TURN, COMPONENT + 'NAME'))}."
            )
        if len(values) != len(rows.num_turns):
            raise CreditError(
                f"{column} has {len(values)} entries for a batch of {len(rows.num_turns)} rows; "
                "give one per row."
            )
        if name not in PER_ROW:
            for row, (entry, count) in enumerate(zip(values, rows.num_turns.tolist(), strict=True)):
                if len(_turns(entry)) != count:
                    raise CreditError(
                        f"{column}, row {row}: {len(_turns(entry))} values for {count} turns; give "
                        f"a list of {count}."
                    )


def _check_trajectories(trajectory: IntArray, columns: Mapping[str, IntArray]) -> None:
    """Raise CreditError if the rows of a trajectory differ in a column."""
    for name, column in columns.items():
        mixed = np.flatnonzero((np.diff(trajectory) == 0) & (np.diff(column) != 0))
        if len(mixed):
            problem = (
                f"rows of one (episode, seat) have different {name}s, "
                f"trajectory {trajectory[mixed[0]]}"
            )
            raise CreditError(
                f"{problem}; give each seat of each play its own {PREFIX}episode and {PREFIX}seat."
            )


_OURS_ALONE = {
    "process_logprob": "A reward model is trained in Sparring's own runs only.",
    **dict.fromkeys(
        ("action_value", "state_value", "default_value"),
        "Exact values exist in Sparring's own small games only.",
    ),
    **dict.fromkeys(
        ("state_group", "committed", "candidate_value", "candidate_judged"),
        "Replies that are judged and not played exist in Sparring's own runs only.",
    ),
    "opponents": "Who sat in the other seats is known in Sparring's own runs only.",
    **dict.fromkeys(
        ("failed", "wideseek_turns"),
        "How conversations have ended is found in Sparring's own plays only.",
    ),
    **dict.fromkeys(
        ("playout", "playout_before"), "Games are played on in Sparring's own runs only."
    ),
}
VERL_HINTS = {
    "view": (
        f"Put what each turn saw into non_tensor_batch[{PREFIX + 'view'!r}] and call "
        "pass_columns()."
    ),
    "action": (
        f"Put what each turn played into non_tensor_batch[{PREFIX + 'action'!r}] and call "
        "pass_columns()."
    ),
    "value": "Set critic.enable and call pass_columns().",
    "token_value": "Set critic.enable and call pass_columns().",
    "value_after": "verl's critic is not asked after a turn.",
    "logprob": "Call pass_columns().",
    "old_logprob": "Call pass_columns().",
    "reference_logprob": (
        "Let verl keep a reference (actor.use_kl_loss or algorithm.use_kl_in_reward) and call "
        "pass_columns()."
    ),
    **_OURS_ALONE,
}
_FRESH = "Make TRL compute it: steps_per_generation above gradient_accumulation_steps, or use_vllm."
TRL_HINTS = {
    "view": f"Give what each turn saw as the column {PREFIX + 'view'!r}.",
    "action": f"Give what each turn played as the column {PREFIX + 'action'!r}.",
    "logprob": _FRESH,
    "old_logprob": _FRESH,
    "reference_logprob": "Let TRL keep a reference: beta above 0.",
    **dict.fromkeys(("value", "value_after", "token_value"), "GRPOTrainer has no critic."),
    **_OURS_ALONE,
}
