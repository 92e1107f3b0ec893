"""Episodes of a table policy for the credit lab, and the policy's exact gradient.

The turn tables have every column, also the true value of each turn. With theta[I, a] the logits and
pi(a|I) their softmax, the derivative of the expected return of the seat p that acts in I is

    dJ_p / dtheta[I, a] = reach(I) * pi(a|I) * (Q(I, a) - V(I)).

Shapes: N turns of all batches, I information states, P seats, D parameters. Each legal action of
each information state has one parameter, in this order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np

from sparring.core.errors import ConfigError
from sparring.core.records import Episode, FloatArray, IntArray, TurnTable
from sparring.core.rng import Stream
from sparring.environments.base import Environment, Play
from sparring.environments.combining import innermost_play
from sparring.measure.info_states import InfoStates, exact_values
from sparring.ops.game_tree import ExactValues, last_move_returns
from sparring.ops.groups import discounted_returns, trajectory_starts, trajectory_sums
from sparring.play.players.base import TextAgent
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import ordered_turns, turn_table


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePolicy:
    """Probabilities of the legal actions of all information states, in one array."""

    states: InfoStates
    starts: IntArray  # [I + 1] first index of each information state, then D
    flat: FloatArray  # [D] pi(a|I), above 0
    seats: IntArray  # [D] seat that acts in the parameter's information state

    @classmethod
    def of(cls, states: InfoStates, rows: Sequence[FloatArray]) -> TablePolicy:
        """Return the table of these probabilities, I arrays [num_legal]."""
        widths = np.array([len(row) for row in rows], dtype=np.int64)
        seats = np.repeat(
            np.array([query.seat for query in states.queries], dtype=np.int64), widths
        )
        return cls(
            states=states,
            starts=np.append(0, np.cumsum(widths)),
            flat=np.concatenate(rows),
            seats=seats,
        )

    @property
    def rows(self) -> list[FloatArray]:
        """The probabilities per information state, I arrays [num_legal]."""
        return np.split(self.flat, self.starts[1:-1])


def random_table(states: InfoStates, stream: Stream) -> TablePolicy:
    """Return the softmax of standard normal logits: not uniform, and not near 0 or 1."""
    generator = stream.generator()
    weights = [np.exp(generator.normal(size=len(query.legal_actions))) for query in states.queries]
    return TablePolicy.of(states, [row / row.sum() for row in weights])


def improved_table(policy: TablePolicy, *, steps: int = 2, rate: float = 4.0) -> TablePolicy:
    """Return a table after steps of exact policy improvement by all seats at once.

    pi(a|I) <- pi(a|I) exp(rate Q(I, a) / range of the game's returns), over its sum.

    Args:
        policy: the first table.
        steps: number of steps.
        rate: step size.
    """
    payoff_range = float(np.ptp(policy.states.tree.returns)) or 1.0
    for _ in range(steps):
        values = exact_values(policy.states, policy.rows).action
        weights = [
            row * np.exp(rate * (action_values - action_values.max()) / payoff_range)
            for row, action_values in zip(policy.rows, values, strict=True)
        ]
        policy = TablePolicy.of(policy.states, [row / row.sum() for row in weights])
    return policy


def exact_gradient(policy: TablePolicy, values: ExactValues | None = None) -> FloatArray:
    """Return the exact gradient [D] of each seat's expected return in its own logits.

    Args:
        policy: the policy of every seat.
        values: result of ``exact_values`` under this policy; None: computed here.
    """
    values = values or exact_values(policy.states, policy.rows)
    widths = np.diff(policy.starts)
    advantage = np.concatenate(values.action) - np.repeat(values.state, widths)
    gradient: FloatArray = np.repeat(values.reach, widths) * policy.flat * advantage
    return gradient


class TableAgent(TextAgent):
    """An agent that draws actions from a table; its turns have no sampled tokens."""

    def __init__(self, policy: TablePolicy, name: str = "table") -> None:
        super().__init__(name)
        self._rows = {
            (query.seat, query.key): (query.legal_actions, list(accumulate(row.tolist())))
            for query, row in zip(policy.states.queries, policy.rows, strict=True)
        }

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return a legal action with the table's probability, by one draw of the turn's stream."""
        actions, sums = self._rows[seat, innermost_play(state).observe(seat).key]
        return actions[min(bisect_right(sums, stream.uniform(0)), len(actions) - 1)]

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the table's probabilities of the legal actions."""
        actions, sums = self._rows[seat, innermost_play(state).observe(seat).key]
        return dict(zip(actions, np.diff([0.0, *sums]).tolist(), strict=True))


Critic = Literal["exact", "noisy", "zero"]
TIE = 1e-9  # actions whose exact values differ by less are equally good
NOISE_SCALE = 0.5  # standard deviation of a noisy critic's errors over that of the returns


@dataclass(frozen=True, kw_only=True, slots=True)
class LabEpisodes:
    """One table of all turns, with the batch and the true value of each turn."""

    turns: TurnTable
    batch: IntArray  # [N] batch of each turn
    num_batches: int
    batch_size: int  # episodes per batch
    state: IntArray  # [N] information state
    choice: IntArray  # [N] index of the played action among the legal ones
    advantage: FloatArray  # [N] exact Q - V
    # columns of judgements, [N] each, by the name of the reward component that they replace
    judgements: Mapping[str, FloatArray]
    contribution: FloatArray  # [N] a trained critic's estimate of what each turn adds to the return

    def tables(self) -> list[TurnTable]:
        """Return the turn table of each batch, as a run makes it from the batch's episodes."""
        bounds = np.searchsorted(self.batch, np.arange(self.num_batches + 1))
        return [slice_turns(self.turns, begin, end) for begin, end in pairwise(bounds.tolist())]

    def with_contributions(self) -> LabEpisodes:
        """Return the episodes with contributions as ``value_after``."""
        return replace(self, turns=replace(self.turns, value_after=self.contribution))

    def with_judgements(self, components: Sequence[str]) -> LabEpisodes:
        """Return the episodes with these judgements added to the rewards."""
        columns = {name: self.judgements[name] for name in components}
        reward = self.turns.reward + sum(columns.values(), np.zeros(len(self.batch)))
        all_columns = {**self.turns.components, **columns}
        return replace(self, turns=replace(self.turns, reward=reward, components=all_columns))


def play_table(
    game: Environment,
    policy: TablePolicy,
    *,
    batches: int,
    batch_size: int,
    group_size: int,
    stream: Stream,
) -> list[Episode]:
    """Play ``batches * batch_size`` episodes; the members of a group share their deal.

    Raises:
        ConfigError: the sizes do not fit.
    """
    if group_size < 1 or batch_size % group_size:
        raise ConfigError(
            f"The batch of {batch_size} episodes must contain whole groups of {group_size}; write "
            "--group-size 8 --batch 64."
        )
    agent = TableAgent(policy)
    specs = []
    for number in range(batches * batch_size):
        group = stream.child(number // group_size)
        specs.append(
            EpisodeSpec(
                game=game,
                episode_id=number,
                group_id=number // group_size,
                deal=group.child("deal"),
                stream=group.child(number % group_size),
                seats=(agent.name,) * game.num_seats,
                trained=(True,) * game.num_seats,
            )
        )
    return play(specs, {agent.name: agent})


def lab_episodes(
    episodes: Sequence[Episode],
    policy: TablePolicy,
    values: ExactValues,
    *,
    batch_size: int,
    critic: Critic,
    stream: Stream,
) -> LabEpisodes:
    """Return the turns of episodes with all columns that estimators may need.

    Every turn counts as one token with log-probability ln pi(a|I). ``value`` is the critic's
    estimate of the future return, ``value_after`` its estimate at the seat's next turn (0 after
    its last). ``old_logprob`` equals ``logprob``; ``reference_logprob`` is that of uniform play.

    Args:
        episodes: whole batches, numbered from 0.
        policy: the policy that played the episodes.
        values: exact values under the policy.
        batch_size: episodes per batch.
        critic: "exact" V; "noisy": with an error per information state; "zero".
        stream: random stream for the noisy critic's errors.
    """
    turns = turn_table(episodes)
    state, choice = _states_and_choices(episodes, policy)
    parameter = policy.starts[state] + choice
    logprob = np.log(policy.flat[parameter])
    action_value, state_value = np.concatenate(values.action)[parameter], values.state[state]
    error = _critic_error(critic, len(values.state), turns, stream)[state]
    factor, earlier_rewards = float(critic != "zero"), rewards_before(turns)
    value = factor * (state_value - earlier_rewards) + error
    mean_final_return = last_move_returns(policy.states.tree, policy.states.seats, policy.rows)[
        parameter
    ]
    totals = np.where(turns.done, mean_final_return, action_value)
    is_first = np.diff(turns.trajectory, prepend=-1) != 0
    contribution = factor * (totals - np.where(is_first, 0.0, np.append(0.0, totals[:-1]))) + error
    next_value = np.where(turns.done, 0.0, np.append(value[1:], 0.0)) if len(value) else value
    turns = replace(
        turns,
        n_tokens=np.ones(len(state), dtype=np.int64),
        logprob=logprob,
        old_logprob=logprob,
        reference_logprob=-np.log(np.diff(policy.starts)[state]),
        value=value,
        value_after=next_value,
        token_value=value,
        action_value=action_value,
        state_value=state_value,
        judged=np.ones(len(state), dtype=bool),
        default_value=np.array([action_values.mean() for action_values in values.action])[state],
    )
    return LabEpisodes(
        turns=turns,
        batch=turns.episode // batch_size,
        num_batches=len(episodes) // batch_size,
        batch_size=batch_size,
        state=state,
        choice=choice,
        advantage=action_value - state_value,
        judgements=_judgements(action_value, values, state, policy),
        contribution=contribution,
    )


def _judgements(
    chosen_values: FloatArray, values: ExactValues, state: IntArray, policy: TablePolicy
) -> dict[str, FloatArray]:
    """Return the columns of a judge with exact values, [N] each.

    ``best_action``: 1 if no action has a larger Q under the playing policy, otherwise 0.
    ``playout_value``: the exact Q, which playouts from the turn estimate.
    """
    best_values = np.array([action_values.max() for action_values in values.action])[state]
    return {
        "best_action": (chosen_values >= best_values - TIE).astype(np.float64),
        "playout_value": chosen_values,
    }


def _states_and_choices(
    episodes: Sequence[Episode], policy: TablePolicy
) -> tuple[IntArray, IntArray]:
    """Return the information state of every turn and the position of its action, [N] each."""
    position_of = {
        (query.seat, query.key, action): (index, choice)
        for index, query in enumerate(policy.states.queries)
        for choice, action in enumerate(query.legal_actions)
    }
    positions_of_turns = [
        position_of[turn.seat, turn.state_key, str(turn.action)]
        for _, turn in ordered_turns(episodes)
    ]
    positions = np.array(positions_of_turns, dtype=np.int64).reshape(-1, 2)
    return positions[:, 0].copy(), positions[:, 1].copy()


def rewards_before(turns: TurnTable) -> FloatArray:
    """Return the seat's reward for its earlier turns of the episode, [N]."""
    to_go = discounted_returns(turns.reward, turns.trajectory, gamma=1.0)
    starts = trajectory_starts(turns.trajectory)
    totals: FloatArray = np.repeat(to_go[starts], np.diff(np.append(starts, len(to_go))))
    return totals - to_go


def _critic_error(kind: Critic, count: int, turns: TurnTable, stream: Stream) -> FloatArray:
    """Return the noisy critic's error in each of ``count`` information states, or 0."""
    if kind != "noisy":
        return np.zeros(count)
    returns = trajectory_sums(turns.reward, turns.trajectory)
    errors: FloatArray = NOISE_SCALE * returns.std() * stream.generator().normal(size=count)
    return errors


def slice_turns(turns: TurnTable, begin: int, end: int) -> TurnTable:
    """Return rows ``begin`` to ``end`` of a table, whole trajectories renumbered from 0."""
    columns = _columns(turns)
    slices = {name: column[begin:end] for name, column in columns.items()}
    slices["trajectory"] = slices["trajectory"] - (slices["trajectory"][0] if end > begin else 0)
    return replace(
        turns,
        **slices,
        components={name: column[begin:end] for name, column in turns.components.items()},
    )


def repeat_table(turns: TurnTable, rows: int) -> TurnTable:
    """Return the table repeated to at least ``rows`` rows; each copy has new episode numbers."""
    copies = max(1, -(-rows // max(len(turns.reward), 1)))
    columns: dict[str, Any] = {
        name: np.tile(column, copies) for name, column in _columns(turns).items()
    }
    copy = np.repeat(np.arange(copies), len(turns.reward))
    for name in ("episode", "group", "trajectory"):
        columns[name] = columns[name] + copy * (int(columns[name].max(initial=0)) + 1)
    return replace(
        turns,
        **columns,
        components={name: np.tile(column, copies) for name, column in turns.components.items()},
    )


def _columns(turns: TurnTable) -> dict[str, Any]:
    values = {field.name: getattr(turns, field.name) for field in fields(turns)}
    return {name: column for name, column in values.items() if isinstance(column, np.ndarray)}
