"""The standard columns of the turn table, one function each; its name is the column's.

A column with more to it is a module of its own beside this one, as those from outside are.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from sparring.core.errors import ConfigError
from sparring.core.records import BoolArray, FloatArray, IntArray
from sparring.methods.columns.base import Source, column, played_on
from sparring.play.turn_table import ordered_turns

A = TypeVar("A", IntArray, BoolArray)


def old_logprob(source: Source) -> FloatArray:
    """Say how probable the learner holds the turn's reply, before the step's update.

    What: the sum over the turn's sampled tokens of log pi(token), [N], nats. It differs from the
    column ``logprob``, the sampler's, where a play is older than the weights, or where another
    engine sampled it.
    """
    return source.logprobs("learner")


@column(asks={"reference"})
def reference_logprob(source: Source) -> FloatArray:
    """Say how probable the policy before the first step holds the turn's reply.

    What: the sum over the turn's sampled tokens of log pi_ref(token), [N], nats. It takes a frozen
    copy of the model.
    """
    return source.logprobs("reference")


@column(asks={"process"}, needs={"old_logprob"})
def process_logprob(source: Source) -> FloatArray:
    """Say how probable the reward model holds the turn's reply, after its training in this step.

    What: the sum over the turn's sampled tokens of log pi_process(token), [N], nats. The process
    model is trained on pairs of plays at the estimator's option ``beta``; see the configuration's
    section ``process``.
    """
    return source.logprobs("process")


@column(asks={"critic"})
def value(source: Source) -> FloatArray:
    """Say what the critic expects before the turn.

    The seat has been told and has said nothing yet.

    What: the value head at the last token that the seat was given, [N], in the environment's units
    times its scale.
    """
    return source.critic("before")


@column(asks={"critic"})
def value_after(source: Source) -> FloatArray:
    """Say what the critic expects after the turn's last sampled token, before anybody answers.

    What: the value head at the last token of the reply, [N]; at the last token before it where the
    reply is empty.
    """
    return source.critic("after")


@column(asks={"critic"}, per="token")
def token_value(source: Source) -> FloatArray:
    """Say what the critic expects before each sampled token.

    What: the value head at the token before it, one number per sampled token, in the order of the
    table's rows.
    """
    return source.critic("token")


@column(asks={"tree"})
def action_value(source: Source) -> FloatArray:
    """Say what the action that was played is truly worth to its seat.

    What: Q(state, action), [N], by enumeration of the game tree, with all seats following the
    policy of now, renormalised over legal actions. A reply that was no legal action is worth what
    its turn was paid. For games small enough (``evaluation.max_states``).
    """
    return source.exact()["action_value"]


@column(asks={"tree"})
def state_value(source: Source) -> FloatArray:
    """Say what the information state before the turn is truly worth to its seat.

    What: V(state), [N], by enumeration of the game tree, with all seats following the policy of
    now.
    """
    return source.exact()["state_value"]


@column(asks={"tree"})
def default_value(source: Source) -> FloatArray:
    """Say what a legal action drawn uniformly is truly worth to the seat.

    What: the mean over legal actions of Q(state, action), [N], by enumeration of the game tree.
    """
    return source.exact()["default_value"]


def _of_candidates(name: str, values: A | None) -> A:
    if values is None:
        raise ConfigError(
            f"The column {name!r} is part of a table of all candidates; write "
            "turn_table(episodes, candidates=True)."
        )
    return values


@column(asks={"candidates"})
def state_group(source: Source) -> IntArray:
    """Number the prompts, so that replies to one prompt have the same number.

    What: a number per row, [N], equal exactly for the replies to one prompt. An estimator that
    NEEDS it gets a row for every candidate, where ``rollout.candidates.count`` is above 1; all
    others get the replies that were played alone. A reply that was not played is a trajectory of
    its own, of one turn, after the trajectory of its seat.
    """
    return _of_candidates("state_group", source.turns.state_group)


@column(asks={"candidates"})
def committed(source: Source) -> BoolArray:
    """Say whether the play went on from a reply.

    What: true or false per row, [N]; one row of each ``state_group`` is true. An estimator that
    NEEDS it gets a row for every candidate, as with the column ``state_group``.
    """
    return _of_candidates("committed", source.turns.committed)


@column(asks={"candidates"})
def candidate_value(source: Source) -> FloatArray:
    """Say what each of several replies to a prompt was judged by.

    What: [N], the score of a reply: of the run's rewards or the oracle, as
    ``rollout.candidates.by`` says, or of ``knowledge``; 0 where nothing judged it, which
    ``candidate_judged`` tells. Values of different prompts need not be comparable.
    """
    scores = (turn.score for _, turn in ordered_turns(source.episodes, candidates=True))
    return np.array([score or 0.0 for score in scores], dtype=np.float64)


@column(asks={"candidates"})
def candidate_judged(source: Source) -> BoolArray:
    """Say whether a reply has a ``candidate_value``.

    What: true or false per row, [N].
    """
    turns = ordered_turns(source.episodes, candidates=True)
    return np.array([turn.score is not None for _, turn in turns], dtype=bool)


@column(asks={"playouts"})
def playout(source: Source) -> FloatArray:
    """Say what games that were played on from after the turn paid its seat in the mean.

    What: [N], in the game's units. After the last turn of a play it is the play's own return.
    ``rollout.playouts`` is the number of games for each turn. Where no game could be played before
    a turn, or after it, both columns have the play's own return there, so that their difference
    says nothing.
    """
    return played_on(source, "playout")


@column(asks={"playouts"})
def playout_before(source: Source) -> FloatArray:
    """Say what games that were played on from before the turn paid its seat in the mean.

    What: [N], in the game's units. Where the position is that after an earlier turn, it is the same
    games' mean as in the column ``playout``; what stands where no game could be played is said
    there.
    """
    return played_on(source, "playout_before")


def opponents(source: Source) -> IntArray:
    """Number the players of the other seats, so that turns against the same ones are alike.

    What: a number per row, [N], equal exactly where the same players (by name) sat in the other
    seats, in the same order. A partner counts as well. Numbers are in order of appearance and mean
    nothing from one batch to the next.
    """
    numbers: dict[tuple[str, ...], int] = {}
    rows = ordered_turns(source.episodes, candidates=source.turns.state_group is not None)
    found = [
        numbers.setdefault(
            (*episode.agents[: turn.seat], *episode.agents[turn.seat + 1 :]), len(numbers)
        )
        for episode, turn in rows
    ]
    return np.array(found, dtype=np.int64)
