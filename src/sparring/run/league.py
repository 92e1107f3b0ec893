"""The league of a run: a snapshot is taken, what the keeping rule does not keep leaves, those that
stay play each other, and the learner may begin anew.
"""

from __future__ import annotations

from typing import Any

from sparring.config import RunConfig
from sparring.engine.base import Engine
from sparring.league.keeping.base import KeepRequest
from sparring.refs import snapshot
from sparring.run.methods import Methods
from sparring.run.payoff_plays import with_plays
from sparring.run.state import RunState
from sparring.run.step import owner_of
from sparring.selection.replay.base import ReplayBuffer

START = snapshot(0)  # the learner before its first step
LEAGUE = (
    "league"  # the owner in a run's state of who came from whom, where it is not the one before
)


def begin_league(config: RunConfig, engine: Engine, state: RunState) -> None:
    """Take the learner into the league before its first step, if it is to be a member.

    Args:
        config: the run's configuration.
        engine: its models.
        state: that the run goes on from.
    """
    if state.step == 0 and config.league.start:
        engine.take_member(START)


def take_snapshot(config: RunConfig, engine: Engine, methods: Methods, state: RunState) -> RunState:
    """Take a snapshot of the learner into the league.

    Args:
        config: the run's configuration.
        engine: its models.
        methods: its plug-ins.
        state: after the step that the snapshot is of.

    Returns:
        The state, without the results of snapshots that left and with those of the plays among
        members.

    Raises:
        RolloutError: the members' plays fail.
    """
    engine.take_member(snapshot(state.step))
    stays = (START,) if config.league.start else ()
    request = KeepRequest(
        members=[member for member in engine.members if member not in stays],
        keep=config.league.keep - len(stays),
        payoffs=state.payoffs,
        step=state.step,
        stream=engine.root.child("keeping").child(state.step),
    )
    kept = methods.keeping(request, progress=state.step / config.steps)
    for member in request.members:
        if member not in kept:
            engine.drop_member(member)
    book = with_plays(config, engine, state.payoffs.among(engine.members), state.step)
    state = state.remembering(payoffs=book.to_json())
    if not config.league.restart:
        return state
    known = state.json(LEAGUE).get("members", {})
    known[str(snapshot(state.step))] = {"parent": str(START)}
    there = {str(member) for member in engine.members}
    return state.remembering(
        **{LEAGUE: {"members": {name: one for name, one in known.items() if name in there}}}
    )


def begun_anew(config: RunConfig, engine: Engine, state: RunState) -> RunState:
    """Let the learner begin anew from its start, if the step before took a snapshot.

    This is the first thing that a step does, so that a snapshot's step is measured, and saved, with
    the weights that it has learnt.

    Args:
        config: the run's configuration.
        engine: its models.
        state: before the step.

    Returns:
        The state; of the plays before nothing is left in the estimators and the replay buffer.
    """
    if not config.league.restart or not state.step or state.step % config.league.every:
        return state
    engine.restart(START)
    forgotten: dict[str, Any] = {owner_of(name): {} for name in engine.learners}
    return state.remembering(**forgotten, replay=ReplayBuffer())
