"""The members of a league and who came from whom: what a run's checkpoint and configuration say.

A record of a member may have a ``tag`` and a ``parent``. Where it names no parent, a snapshot came
from the one before it of its policy, and the first from the policy's start. What left the league
is in no checkpoint: ``league.jsonl`` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sparring.core.errors import SparringError
from sparring.core.files import parse_json
from sparring.core.records import MAIN, PlayerRef, ref, snapshot
from sparring.run.events import LAST_STEP, LEAGUE, read_lines
from sparring.run.state import STATE
from sparring.view.http_requests import one_line
from sparring.view.run_files import read_from
from sparring.view.runs import Run

MOST = 300  # members that left and are drawn; of more, every so many-th stays
POLICIES = 12  # that are drawn
TEXT = 60  # characters of a tag
KEPT, LEFT, NEW = "kept", "left", "new"  # new: taken after the newest checkpoint
START, NOW = "start", "now"


def family(run: Run) -> dict[str, Any]:
    """Return the members of a run's league, and what each of them came from."""
    notes: list[str] = []
    step, there = newest(run, (ENGINE, STATE), members_of, notes)
    found = there or []
    known = {str(member): told for member, told in found}
    rows: list[dict[str, Any]] = []
    policies = _policies(run)
    for name, trained in list(policies.items())[:POLICIES]:
        own = [member for member, _ in found if (member.name or MAIN) == name]
        before = taken(run, name, notes) if trained else {}
        more = {text: told for text, told in known.items() if told != Told() or text not in before}
        rows += _of_policy(run, name, trained, own, step, {**before, **more}, before, notes)
    if len(policies) > POLICIES:
        notes.append(f"{len(policies) - POLICIES} more policies are not drawn")
    return {"run": run.number, "step": step, "members": _with_parents(rows, notes), "notes": notes}


def members_of(engine: Mapping[str, Any], state: Mapping[str, Any]) -> list[tuple[PlayerRef, Told]]:
    """Return the snapshots of a checkpoint, with what its records say of them.

    Args:
        engine: what ``engine.json`` holds.
        state: what ``state.json`` holds.
    """
    league = state.get("league")
    more = league.get("members") if isinstance(league, Mapping) else None
    told = more if isinstance(more, Mapping) else {}
    return [
        (member, _told(record, told.get(name)))
        for policy in engine.get("policies", {MAIN: engine}).values()
        for name, record in policy.get("members", {}).items()
        for member in [ref(name)]
        if member.step is not None and member.step < LAST_STEP
    ]


def _told(*records: Any) -> Told:
    """Return the tag and the parent that the first record with one of them names."""
    for record in records:
        if isinstance(record, Mapping) and record.keys() & {"tag", "parent"}:
            tag, parent = (record.get(name) for name in ("tag", "parent"))
            if isinstance(parent, Mapping):
                parent = str(PlayerRef.from_json(parent))
            return Told(*(text if isinstance(text, str) else None for text in (tag, parent)))
    return Told()


def _policies(run: Run) -> dict[str, bool]:
    found = run.config.get("policies")
    if not isinstance(found, Mapping) or not found:
        return {MAIN: True}
    return {
        str(name): not (isinstance(own, Mapping) and own.get("frozen") is True)
        for name, own in found.items()
    }


def _of_policy(
    run: Run,
    name: str,
    trained: bool,
    members: list[PlayerRef],
    step: int | None,
    known: Mapping[str, Told],
    before: Iterable[str],
    notes: list[str],
) -> list[dict[str, Any]]:
    """Return the rows of a policy, oldest first: its start, its snapshots, and what it is now."""
    origin = start = str(snapshot(0, name))  # a member, where league.start says so
    if start not in known:
        start = START if name == MAIN else f"{START}-{name}"
    known = {
        text: told._replace(parent=start) if told.parent == origin else told
        for text, told in known.items()
    }
    rows = [_row(start, name, 0, START, known.get(start))]
    if not trained:
        return rows
    done, there = run.step or 0, {str(member) for member in members}
    kept = [_row(str(own), name, own.step, KEPT, known[str(own)]) for own in members if own.step]
    gone = [text for text in before if text not in there]
    if len(gone) > MOST:
        every = -(-len(gone) // MOST)
        notes.append(f"{name}: one in {every} of {len(gone)} snapshots that left is drawn")
        gone = gone[::-every]
    for text in gone:
        at = ref(text).step or 0
        how = NEW if step is None or at > step else LEFT
        kept.append(_row(text, name, at, how, known.get(text)))
    rows += sorted(kept, key=lambda row: row["step"])
    newest = str(PlayerRef("learner").of(name))
    return [*rows, _row(newest, name, max(done, rows[-1]["step"]), NOW)]


def _row(
    name: str, policy: str, step: int | None, state: str, told: Told | None = None
) -> dict[str, Any]:
    told = told or Told()
    return {
        "name": name,
        "policy": policy,
        "step": step,
        "state": state,
        "tag": told.tag[:TEXT] if told.tag is not None else None,
        "parent": told.parent,
        "recorded": told.parent is not None,
    }


def _with_parents(rows: list[dict[str, Any]], notes: list[str]) -> list[dict[str, Any]]:
    """Give each member its parent: the one that is recorded, else the one before it."""
    by_name = {row["name"]: row for row in rows}
    for place, row in enumerate(rows):
        own, before = row["parent"], rows[place - 1] if place else None
        parent = by_name.get(own)
        is_older = parent is not None and parent is not row and parent["step"] <= row["step"]
        if own is not None and not is_older:
            notes.append(f"the recorded parent of {row['name']} is no earlier member: {own:.60}")
            row["recorded"] = False
        if not row["recorded"]:
            same = before is not None and before["policy"] == row["policy"]
            row["parent"] = before["name"] if same and before is not None else None
    return rows


ENGINE = "engine.json"
UNREADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError, SparringError)
Read = TypeVar("Read")


def newest(
    run: Run, files: Sequence[str], read: Callable[..., Read], notes: list[str]
) -> tuple[int | None, Read | None]:
    """Return the step of the newest checkpoint that can be read, and what was read.

    Args:
        run: whose checkpoint it is.
        files: of JSON in the checkpoint.
        read: makes something of what the files say.
        notes: takes a line for each checkpoint that cannot be read.
    """
    for step in reversed(run.checkpoints()):
        folder = folder_of(run, step)
        try:
            return step, read(*(parse_json(read_from(folder / name, 0)[0]) for name in files))
        except UNREADABLE as error:
            notes.append(f"the checkpoint of step {step} cannot be read: {one_line(error)}")
    return None, None


def folder_of(run: Run, step: int) -> Path:
    """Return where the checkpoint of a step is."""
    return run.path / "checkpoints" / f"step_{step:06d}"


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
        yield (member.of(policy), Told(tag=tag if isinstance(tag, str) else None, parent=came))


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
