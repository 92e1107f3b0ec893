"""Which snapshots a run has taken into its league, also those that have left.

``league.jsonl`` has a line for each. A run of before it was written, or its first steps, has none:
where its snapshots are taken every so many steps, they are known from the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sparring.core.refs import MAIN, PlayerRef, ref, snapshot
from sparring.run.events import LAST_STEP, LEAGUE, read_lines
from sparring.view.plain_files import read_from
from sparring.view.runs import Run

STEPS = "steps"  # the schedule that takes one every so many steps


class Told(NamedTuple):
    """What a record says of a member."""

    tag: str | None = None
    parent: str | None = None


def taken(run: Run, policy: str, notes: list[str]) -> dict[str, Told]:
    """Return the snapshots of a policy that a run has taken, oldest first, by their names.

    Args:
        run: whose league it is.
        policy: its name.
        notes: takes a line where it cannot be known what has left.
    """
    league = run.config.get("league")
    section = league if isinstance(league, Mapping) else {}
    found = {str(member): told for member, told in _recorded(run, policy, section)}
    steps = [ref(name).step or 0 for name in found]
    every, done = section.get("every"), run.step or 0
    if type(every) is not int or every < 1:
        return found
    if _is_steady(section, policy):
        first = min([*steps, done + 1])
        early = [str(snapshot(at, policy)) for at in range(every, first, every)]
        return {**dict.fromkeys(early, Told()), **found}
    if not (run.path / LEAGUE).exists() and done >= every:
        notes.append(f"{policy}: which snapshots have left the league was not recorded")
    return found


def _recorded(run: Run, policy: str, league: Mapping[str, Any]) -> Iterator[tuple[PlayerRef, Told]]:
    """Yield the snapshots of a policy that are recorded up to the last step that is done."""
    try:
        read_from(run.path / LEAGUE, 0)
    except OSError:
        return
    apart = bool(league.get("learners"))
    for line in read_lines(run.path / LEAGUE):
        member, parent = _snapshot(line.get("member")), _snapshot(line.get("parent"))
        if member is None or line["step"] > (run.step or 0) or not member.step:
            continue
        if apart and (member.name or MAIN) != policy:
            continue
        tag = line.get("tag")
        came = str(parent.of(policy)) if parent is not None else None
        yield (
            member.of(policy),
            Told(tag=tag if isinstance(tag, str) else None, parent=came),
        )


def _snapshot(name: Any) -> PlayerRef | None:
    """Return the snapshot that a record names, if it names one."""
    try:
        found = ref(name) if isinstance(name, str) and len(name) < 200 else None
    except ValueError:
        return None
    known = found is not None and found.step is not None and found.step < LAST_STEP
    return found if known else None


def _is_steady(league: Mapping[str, Any], policy: str) -> bool:
    """Return whether snapshots of a policy are taken every ``league.every`` steps."""
    learners = league.get("learners")
    own = learners.get(policy) if isinstance(learners, Mapping) else None
    schedule = own.get("schedule") if isinstance(own, Mapping) else None
    schedule = schedule or league.get("schedule") or STEPS
    name = schedule.get("name") if isinstance(schedule, Mapping) else str(schedule).split()[0]
    return name == STEPS and league.get("together") is not False
