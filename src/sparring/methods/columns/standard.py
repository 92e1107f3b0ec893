"""The standard columns of the turn table; each function has the name of its column.

Longer columns, and columns from other packages, have one module each.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from sparring.core.errors import ConfigError
from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.methods.columns.base import ColumnSource, column, playout_values
from sparring.play.turn_table import ordered_turns

ColumnArray = TypeVar("ColumnArray", IntArray, BoolArray)


def old_logprob(source: ColumnSource) -> FloatArray:
    """Log-probability of the turn's reply under the learner, before the step's update.

    What: the sum over the turn's sampled tokens of log pi(token), [N], nats. The column ``logprob``
    holds the sampler's value, which differs for stale episodes and for another sampling engine.
    """
    return source.logprobs("learner")


@column(required_services={"reference"})
def reference_logprob(source: ColumnSource) -> FloatArray:
    """Log-probability of the turn's reply under the initial policy.

    What: the sum over the turn's sampled tokens of log pi_ref(token), [N], nats. The run keeps a
    frozen copy of the model.
    """
    return source.logprobs("reference")


@column(required_services={"process"}, needs={"old_logprob"})
def process_logprob(source: ColumnSource) -> FloatArray:
    """Log-probability of the turn's reply under the reward model, after its update in this step.

    What: the sum over the turn's sampled tokens of log pi_process(token), [N], nats. The process
    model is trained on pairs of episodes with the estimator's option ``beta``; see the
    configuration's section ``process``.
    """
    return source.logprobs("process")


@column(required_services={"critic"})
def value(source: ColumnSource) -> FloatArray:
    """Value that the critic predicts before the turn's reply.

    What: the value head at the last token of the prompt, [N], in scaled units of the environment.
    """
    return source.critic("before")


@column(required_services={"critic"})
def value_after(source: ColumnSource) -> FloatArray:
    """Value that the critic predicts after the turn's last sampled token.

    What: the value head at the last token of the reply, [N]; for an empty reply at the last token
    before.
    """
    return source.critic("after")


@column(required_services={"critic"}, per="token")
def token_value(source: ColumnSource) -> FloatArray:
    """Value that the critic predicts before each sampled token.

    What: the value head at the preceding token, one number per sampled token, in the order of the
    table's rows.
    """
    return source.critic("token")


@column(required_services={"tree"})
def action_value(source: ColumnSource) -> FloatArray:
    """Exact value of the played action for its seat.

    What: Q(state, action), [N], by enumeration of the game tree, where all seats follow the current
    policy, renormalised over legal actions. An illegal reply has the reward of its turn as value.
    Only for small games (``evaluation.max_states``).
    """
    return source.exact()["action_value"]


@column(required_services={"tree"})
def state_value(source: ColumnSource) -> FloatArray:
    """Exact value of the information state before the turn for its seat.

    What: V(state), [N], by enumeration of the game tree, where all seats follow the current policy.
    """
    return source.exact()["state_value"]


@column(required_services={"tree"})
def default_value(source: ColumnSource) -> FloatArray:
    """Exact value of a uniformly random legal action for the seat.

    What: the mean over legal actions of Q(state, action), [N], by enumeration of the game tree.
    """
    return source.exact()["default_value"]


def _require_candidates(name: str, values: ColumnArray | None) -> ColumnArray:
    if values is None:
        raise ConfigError(
            f"The column {name!r} is part of a table of all candidates; write "
            "turn_table(episodes, candidates=True)."
        )
    return values


@column(required_services={"candidates"})
def state_group(source: ColumnSource) -> IntArray:
    """Number of the prompt; replies to one prompt have the same number.

    What: a number per row, [N], equal only for the replies to one prompt. An estimator that NEEDS
    this column gets a row for every candidate if ``rollout.candidates.count`` is above 1. All other
    estimators get only the played replies. A candidate that was not played is a separate trajectory
    of one turn, after the trajectory of its seat.
    """
    return _require_candidates("state_group", source.turns.state_group)


@column(required_services={"candidates"})
def committed(source: ColumnSource) -> BoolArray:
    """Flag the replies that were played.

    What: true or false per row, [N]; one row of each ``state_group`` is true. An estimator that
    NEEDS this column gets a row for every candidate, as with the column ``state_group``.
    """
    return _require_candidates("committed", source.turns.committed)


@column(required_services={"candidates"})
def candidate_value(source: ColumnSource) -> FloatArray:
    """Score of each candidate reply to a prompt.

    What: [N], the score of a reply. The option ``rollout.candidates.by`` selects the run's rewards
    or the oracle; a run with ``knowledge`` takes its scores. An unjudged reply has 0, see
    ``candidate_judged``. Values of different prompts need not be comparable.
    """
    scores = (turn.score for _, turn in ordered_turns(source.episodes, candidates=True))
    return np.array([score or 0.0 for score in scores], dtype=np.float64)


@column(required_services={"candidates"})
def candidate_judged(source: ColumnSource) -> BoolArray:
    """Flag the replies that have a ``candidate_value``.

    What: true or false per row, [N].
    """
    turns = ordered_turns(source.episodes, candidates=True)
    return np.array([turn.score is not None for _, turn in turns], dtype=bool)


@column(required_services={"playouts"})
def playout(source: ColumnSource) -> FloatArray:
    """Mean return of the seat over playouts that start after the turn.

    What: [N], in the game's units. The last turn of an episode has the episode's return.
    ``rollout.playouts`` is the number of playouts per turn. If playouts before or after a turn are
    impossible, both columns have the episode's return, so that their difference is 0.
    """
    return playout_values(source, "playout")


@column(required_services={"playouts"})
def playout_before(source: ColumnSource) -> FloatArray:
    """Mean return of the seat over playouts that start before the turn.

    What: [N], in the game's units. If the state is also the state after an earlier turn, both
    columns use the same playouts. The column ``playout`` describes turns without playouts.
    """
    return playout_values(source, "playout_before")


def opponents(source: ColumnSource) -> IntArray:
    """Number of the tuple of players in the other seats.

    What: a number per row, [N], equal only if the same players (by name) sat in the other seats, in
    the same order. Partners count too. Numbers are in order of appearance and are not comparable
    between batches.
    """
    number_of_tuple: dict[tuple[str, ...], int] = {}
    rows = ordered_turns(source.episodes, candidates=source.turns.state_group is not None)
    opponent_numbers = [
        number_of_tuple.setdefault(
            (*episode.agents[: turn.seat], *episode.agents[turn.seat + 1 :]), len(number_of_tuple)
        )
        for episode, turn in rows
    ]
    return np.array(opponent_numbers, dtype=np.int64)
