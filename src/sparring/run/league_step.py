"""The league part of a step: takes and drops snapshots, plays members, and restarts learners.

If several policies learn in one league, each has its own snapshots, schedule and capacity
(``league.keep``). Otherwise all trained policies count as one learner, named ``main`` here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sparring.config import RunConfig
from sparring.core.records import LEARNER, MAIN, Episode, PlayerRef, snapshot
from sparring.engine.protocol import Engine
from sparring.league.keeping.base import KeepRequest
from sparring.league.schedules.base import ScheduleRequest
from sparring.methods.selection.replay.base import ReplayBuffer
from sparring.run.payoff_plays import with_plays
from sparring.run.state import LEAGUE, RunState
from sparring.run.step import Methods, owner_of

START = snapshot(0)  # the weights before the first step


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueRecord:
    """The state of a league's learners, by name of the policy.

    Args:
        members: parent and tag of each snapshot whose parent is not its predecessor.
        age: number of steps that each learner has learned since its last snapshot.
        origin: the snapshot from which each learner continued.
        anew: learners that restart before the next step.
        returns: mean return of each step since the last snapshot, if a schedule needs it.
        live: the only learner that learns now; empty: all learners learn.
    """

    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    age: Mapping[str, int] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    anew: tuple[str, ...] = ()
    returns: Mapping[str, Sequence[float]] = field(default_factory=dict)
    live: str = ""

    @classmethod
    def of(cls, state: RunState) -> LeagueRecord:
        """Return the league's record in a run's state."""
        fields = {name: value for name, value in state.json(LEAGUE).items() if name in _FIELDS}
        return cls(**{**fields, "anew": tuple(fields.get("anew", ()))})

    def to_json(self) -> dict[str, Any]:
        """Return the record as values of JSON, without empty values."""
        return {name: value for name, value in asdict(self).items() if value}


_FIELDS = frozenset(LeagueRecord.__dataclass_fields__)


def begin_league(config: RunConfig, engine: Engine, state: RunState) -> RunState:
    """Take the learners into the league before their first step, if they start as members.

    Args:
        config: the run's configuration.
        engine: the run's models.
        state: state at the start of the run, or from the checkpoint.

    Returns:
        The state; if learners take turns, it has the first learner.
    """
    if state.step:
        return state
    names, league = list(config.league.tags), config.league
    for name in names if league.start else ():
        engine.take_member(START.for_policy(name))
    if league.together or len(names) == 1:
        return state
    return state.with_owners(**{LEAGUE: LeagueRecord(live=names[0]).to_json()})


def league_step(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    state: RunState,
    episodes: Iterable[Episode] = (),
    notify: Callable[[int, Iterable[Mapping[str, Any]]], None] | None = None,
) -> RunState:
    """Take a snapshot of each learner for which one is due.

    Args:
        config: the run's configuration.
        engine: the run's models.
        methods: the run's plug-ins.
        state: state after the step.
        episodes: the episodes of the step.
        notify: called with the step and a line for each new snapshot.

    Returns:
        The state; its payoff book lacks dropped snapshots, and has new results among members.

    Raises:
        RolloutError: the members' episodes fail.
    """
    if not config.league.every:
        return state
    record, learners = LeagueRecord.of(state), list(config.league.tags)
    active_names = [record.live] if record.live else learners
    record = _count_step(config, methods, state, record, active_names, episodes)
    due_names = [
        name for name in active_names if _is_due(config, engine, methods, state, record, name)
    ]
    if notify is not None:
        notify(state.step, [_snapshot_line(config, state, record, name) for name in due_names])
    for name in due_names:
        record = _take_snapshot(config, engine, methods, state, record, name)
    if due_names:
        book = with_plays(config, engine, state.payoffs.restricted_to(engine.members), state.step)
        state = state.with_owners(payoffs=book.to_json())
    if due_names and record.live:
        record = replace(record, live=learners[(learners.index(record.live) + 1) % len(learners)])
    present_names = {str(member) for member in engine.members}
    parents = {name: origin for name, origin in record.members.items() if name in present_names}
    return state.with_owners(**{LEAGUE: replace(record, members=parents).to_json()})


def _count_step(
    config: RunConfig,
    methods: Methods,
    state: RunState,
    record: LeagueRecord,
    names: Sequence[str],
    episodes: Iterable[Episode],
) -> LeagueRecord:
    num_steps = (state.step - 1) % config.league.every  # for older checkpoints without a record
    age = {**record.age, **{name: record.age.get(name, num_steps) + 1 for name in names}}
    returns = dict(record.returns)
    for name in names:
        if "returns" in methods.schedules[name].needs:
            mean_return = _mean_return(
                LEARNER.for_policy(name), episodes, has_several=bool(config.league.learners)
            )
            returns[name] = [*returns.get(name, ()), *mean_return]
    return replace(record, age=age, returns=returns)


def _mean_return(learner: PlayerRef, episodes: Iterable[Episode], has_several: bool) -> list[float]:
    returns = [
        episode.returns[seat]
        for episode in episodes
        if not episode.has_outgrown_context
        for seat, (trained, player) in enumerate(zip(episode.trained, episode.players, strict=True))
        if trained and (player if has_several else player.for_policy(MAIN)) == learner
    ]
    return [math.fsum(returns) / len(returns)] if returns else []


def _is_due(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    state: RunState,
    record: LeagueRecord,
    name: str,
) -> bool:
    request = ScheduleRequest(
        age=record.age[name],
        every=config.league.every,
        learner=LEARNER.for_policy(name),
        members=engine.members,
        tags=config.league.tags,
        payoffs=state.payoffs,
        returns=record.returns.get(name, ()),
    )
    is_due: bool = methods.schedules[name](request, progress=state.step / config.steps)
    return is_due


def _snapshot_line(
    config: RunConfig, state: RunState, record: LeagueRecord, name: str
) -> dict[str, str]:
    tag = {"tag": config.league.tags[name]} if config.league.learners else {}
    parent = record.origin.get(name, str(START.for_policy(name)))
    return {"member": str(snapshot(state.step, name)), "parent": parent, **tag}


def _take_snapshot(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    state: RunState,
    record: LeagueRecord,
    name: str,
) -> LeagueRecord:
    league, new_member, start = config.league, snapshot(state.step, name), START.for_policy(name)
    engine.take_member(new_member)
    stream = engine.root.child("keeping").child(state.step)
    snapshots = [member for member in engine.members if member.name == new_member.name]
    permanent_members = [start] if league.start else []
    request = KeepRequest(
        members=[member for member in snapshots if member not in permanent_members],
        keep=league.keep - len(permanent_members),
        payoffs=state.payoffs,
        step=state.step,
        stream=stream if name == MAIN else stream.child(name),
        permanent_members=[
            member
            for member in engine.members
            if member in permanent_members or member.name != new_member.name
        ],
    )
    kept_members = methods.keeping(request, progress=state.step / config.steps)
    for member in request.members:
        if member not in kept_members:
            engine.drop_member(member)
    draw = engine.root.child("restart").child(state.step).child(name).uniform(0)
    is_restarting = draw < league.restart_of(name)
    members = dict(record.members)
    if league.restarts or league.learners:
        parent = record.origin.get(name, str(start) if league.start else "")
        parent_note = {"parent": parent} if parent else {}
        members[str(new_member)] = {
            **parent_note,
            **({"tag": league.tags[name]} if league.learners else {}),
        }
    return replace(
        record,
        members=members,
        age={**record.age, name: 0},
        origin={**record.origin, name: str(start if is_restarting else new_member)},
        returns={**record.returns, name: ()} if name in record.returns else record.returns,
        anew=(*record.anew, name) if is_restarting else record.anew,
    )


def restart_learners(config: RunConfig, engine: Engine, state: RunState) -> RunState:
    """Reset the learners in ``LeagueRecord.anew`` to their initial weights, before a step.

    The reset comes after the snapshot's step, so that this step is evaluated and saved before.

    Args:
        config: the run's configuration.
        engine: the run's models.
        state: state before the step.

    Returns:
        The state; the replay buffer and the estimators of restarted learners are empty.
    """
    record, step = LeagueRecord.of(state), state.step
    if not record.age and config.league.restart and step and step % config.league.every == 0:
        record = replace(record, anew=(MAIN,))  # for older checkpoints without a record
    if not record.anew:
        return state
    empty_states: dict[str, Any] = {"replay": ReplayBuffer()}
    for name in record.anew:
        engine.restart(START.for_policy(name))
        policies = (name,) if config.league.learners else engine.learners
        empty_states |= {owner_of(policy): {} for policy in policies}
    return state.with_owners(**empty_states, **{LEAGUE: replace(record, anew=()).to_json()})
