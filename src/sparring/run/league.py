"""The league of a run: a snapshot is taken, and what the keeping rule does not keep leaves."""

from __future__ import annotations

from sparring.config import RunConfig
from sparring.engine.base import Engine
from sparring.league.keeping.base import KeepRequest
from sparring.refs import snapshot
from sparring.run.methods import Methods
from sparring.run.state import RunState


def take_snapshot(config: RunConfig, engine: Engine, methods: Methods, state: RunState) -> RunState:
    """Take a snapshot of the learner into the league.

    Args:
        config: the run's configuration.
        engine: its models.
        methods: its plug-ins.
        state: after the step that the snapshot is of.

    Returns:
        The state, without the results of snapshots that left.
    """
    engine.take_member(snapshot(state.step))
    request = KeepRequest(
        members=engine.members,
        keep=config.league.keep,
        payoffs=state.payoffs,
        step=state.step,
        stream=engine.root.child("keeping").child(state.step),
    )
    kept = methods.keeping(request, progress=state.step / config.steps)
    for member in request.members:
        if member not in kept:
            engine.drop_member(member)
    return state.remembering(payoffs=state.payoffs.among(kept).to_json())
