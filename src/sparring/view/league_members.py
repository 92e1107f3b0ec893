"""The members of a league with their parents, from a run's checkpoint and configuration.

The record of a member may have a ``tag`` and a ``parent``. Without a recorded parent, the parent is
the previous snapshot of the policy; the parent of the first snapshot is the policy's start. Former
members are in ``league.jsonl``, but not in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sparring.core.errors import SparringError
from sparring.core.files import parse_json
from sparring.core.records import MAIN, PlayerRef, ref, snapshot
from sparring.run.events import LEAGUE, MAX_STEP, read_lines
from sparring.run.state import STATE
from sparring.view.http_requests import one_line
from sparring.view.run_files import read_regular_file
from sparring.view.viewed_run import ViewedRun

MAX_FORMER = 300  # if a policy has more former members, only every n-th of them is drawn
MAX_POLICIES = 12  # largest number of policies that are drawn
MAX_TAG = 60  # largest number of characters of a displayed tag
KEPT, LEFT, NEW = (
    "kept",
    "left",
    "new",
)  # states of a member; new: added after the newest checkpoint
START, NOW = "start", "now"


def family(run: ViewedRun) -> dict[str, Any]:
    """Return the members of a run's league with their parents."""
    notes: list[str] = []
    step, checkpoint_members = read_newest(run, (ENGINE, STATE), members_of, notes)
    members = checkpoint_members or []
    lineage_of = {str(member): lineage for member, lineage in members}
    rows: list[dict[str, Any]] = []
    policies = _policies(run)
    for name, is_trained in list(policies.items())[:MAX_POLICIES]:
        policy_members = [member for member, _ in members if (member.name or MAIN) == name]
        snapshots = snapshots_of_policy(run, name, notes) if is_trained else {}
        from_checkpoint = {
            member_name: lineage
            for member_name, lineage in lineage_of.items()
            if lineage != Lineage() or member_name not in snapshots
        }
        rows += _policy_rows(
            run,
            name,
            is_trained,
            policy_members,
            step,
            {**snapshots, **from_checkpoint},
            snapshots,
            notes,
        )
    if len(policies) > MAX_POLICIES:
        notes.append(f"{len(policies) - MAX_POLICIES} more policies are not drawn")
    return {"run": run.number, "step": step, "members": _set_parents(rows, notes), "notes": notes}


def members_of(
    engine: Mapping[str, Any], state: Mapping[str, Any]
) -> list[tuple[PlayerRef, Lineage]]:
    """Return the snapshots of a checkpoint with their tags and parents.

    Args:
        engine: the content of ``engine.json``.
        state: the content of ``state.json``.
    """
    league = state.get("league")
    league_members = league.get("members") if isinstance(league, Mapping) else None
    lineages = league_members if isinstance(league_members, Mapping) else {}
    return [
        (member, _lineage(record, lineages.get(name)))
        for policy in engine.get("policies", {MAIN: engine}).values()
        for name, record in policy.get("members", {}).items()
        for member in [ref(name)]
        if member.step is not None and member.step < MAX_STEP
    ]


def _lineage(*records: Any) -> Lineage:
    for record in records:
        if isinstance(record, Mapping) and record.keys() & {"tag", "parent"}:
            tag, parent = (record.get(name) for name in ("tag", "parent"))
            if isinstance(parent, Mapping):
                parent = str(PlayerRef.from_json(parent))
            return Lineage(*(text if isinstance(text, str) else None for text in (tag, parent)))
    return Lineage()


def _policies(run: ViewedRun) -> dict[str, bool]:
    sections = run.config.get("policies")
    if not isinstance(sections, Mapping) or not sections:
        return {MAIN: True}
    return {
        str(name): not (isinstance(section, Mapping) and section.get("frozen") is True)
        for name, section in sections.items()
    }


def _policy_rows(
    run: ViewedRun,
    name: str,
    is_trained: bool,
    members: list[PlayerRef],
    step: int | None,
    lineages: Mapping[str, Lineage],
    snapshot_names: Iterable[str],
    notes: list[str],
) -> list[dict[str, Any]]:
    """Return the rows of a policy, oldest first: start, snapshots, current weights."""
    initial_name = str(snapshot(0, name))  # a league member if league.start is set
    start_name = initial_name
    if initial_name not in lineages:
        start_name = START if name == MAIN else f"{START}-{name}"
    lineages = {
        member_name: lineage._replace(parent=start_name)
        if lineage.parent == initial_name
        else lineage
        for member_name, lineage in lineages.items()
    }
    rows = [_row(start_name, name, 0, START, lineages.get(start_name))]
    if not is_trained:
        return rows
    num_steps, current_names = run.step or 0, {str(member) for member in members}
    snapshots = [
        _row(str(member), name, member.step, KEPT, lineages[str(member)])
        for member in members
        if member.step
    ]
    former = [member_name for member_name in snapshot_names if member_name not in current_names]
    if len(former) > MAX_FORMER:
        stride = -(-len(former) // MAX_FORMER)
        notes.append(f"{name}: one in {stride} of {len(former)} snapshots that left is drawn")
        former = former[::-stride]
    for member_name in former:
        member_step = ref(member_name).step or 0
        state = NEW if step is None or member_step > step else LEFT
        snapshots.append(_row(member_name, name, member_step, state, lineages.get(member_name)))
    rows += sorted(snapshots, key=lambda row: row["step"])
    learner = str(PlayerRef("learner").for_policy(name))
    return [*rows, _row(learner, name, max(num_steps, rows[-1]["step"]), NOW)]


def _row(
    name: str, policy: str, step: int | None, state: str, lineage: Lineage | None = None
) -> dict[str, Any]:
    lineage = lineage or Lineage()
    return {
        "name": name,
        "policy": policy,
        "step": step,
        "state": state,
        "tag": lineage.tag[:MAX_TAG] if lineage.tag is not None else None,
        "parent": lineage.parent,
        "recorded": lineage.parent is not None,
    }


def _set_parents(rows: list[dict[str, Any]], notes: list[str]) -> list[dict[str, Any]]:
    """Set each row's parent: the recorded parent, or else the previous member of its policy."""
    rows_by_name = {row["name"]: row for row in rows}
    for index, row in enumerate(rows):
        recorded_parent, previous = row["parent"], rows[index - 1] if index else None
        parent = rows_by_name.get(recorded_parent)
        is_older = parent is not None and parent is not row and parent["step"] <= row["step"]
        if recorded_parent is not None and not is_older:
            notes.append(
                f"the recorded parent of {row['name']} is not an earlier member: "
                f"{recorded_parent:.60}"
            )
            row["recorded"] = False
        if not row["recorded"]:
            same_policy = previous is not None and previous["policy"] == row["policy"]
            row["parent"] = previous["name"] if same_policy and previous is not None else None
    return rows


ENGINE = "engine.json"
READ_ERRORS = (OSError, ValueError, TypeError, LookupError, AttributeError, SparringError)
Content = TypeVar("Content")


def read_newest(
    run: ViewedRun, files: Sequence[str], read: Callable[..., Content], notes: list[str]
) -> tuple[int | None, Content | None]:
    """Return (step of the newest readable checkpoint, its content).

    Args:
        run: run of the checkpoint.
        files: JSON files in the checkpoint.
        read: converts the content of the files.
        notes: a line is added for each checkpoint that cannot be read.
    """
    for step in reversed(run.checkpoints()):
        folder = checkpoint_folder(run, step)
        try:
            texts = [read_regular_file(folder / name, 0)[0] for name in files]
            return step, read(*map(parse_json, texts))
        except READ_ERRORS as error:
            notes.append(f"the checkpoint of step {step} cannot be read: {one_line(error)}")
    return None, None


def checkpoint_folder(run: ViewedRun, step: int) -> Path:
    """Return the folder of a step's checkpoint."""
    return run.path / "checkpoints" / f"step_{step:06d}"


STEPS = "steps"  # the schedule with a fixed number of steps between snapshots


class Lineage(NamedTuple):
    """The recorded tag and parent of a member."""

    tag: str | None = None
    parent: str | None = None


def snapshots_of_policy(run: ViewedRun, policy: str, notes: list[str]) -> dict[str, Lineage]:
    """Return the lineages of a policy's snapshots: name -> lineage, oldest first.

    Args:
        run: run of the league.
        policy: name of the policy.
        notes: a line is added if the former members are unknown.
    """
    league = run.config.get("league")
    section = league if isinstance(league, Mapping) else {}
    lineages = {str(member): lineage for member, lineage in _recorded_members(run, policy, section)}
    steps = [ref(name).step or 0 for name in lineages]
    interval, step = section.get("every"), run.step or 0
    if type(interval) is not int or interval < 1:
        return lineages
    if _has_fixed_interval(section, policy):
        first = min([*steps, step + 1])
        early = [str(snapshot(past_step, policy)) for past_step in range(interval, first, interval)]
        return {**dict.fromkeys(early, Lineage()), **lineages}
    if not (run.path / LEAGUE).exists() and step >= interval:
        notes.append(f"{policy}: which snapshots have left the league was not recorded")
    return lineages


def _recorded_members(
    run: ViewedRun, policy: str, league: Mapping[str, Any]
) -> Iterator[tuple[PlayerRef, Lineage]]:
    try:
        read_regular_file(run.path / LEAGUE, 0)
    except OSError:
        return
    has_learners = bool(league.get("learners"))
    for line in read_lines(run.path / LEAGUE):
        member, parent = _snapshot(line.get("member")), _snapshot(line.get("parent"))
        if member is None or line["step"] > (run.step or 0) or not member.step:
            continue
        if has_learners and (member.name or MAIN) != policy:
            continue
        tag = line.get("tag")
        parent_name = str(parent.for_policy(policy)) if parent is not None else None
        yield (
            member.for_policy(policy),
            Lineage(tag=tag if isinstance(tag, str) else None, parent=parent_name),
        )


def _snapshot(name: Any) -> PlayerRef | None:
    try:
        player = ref(name) if isinstance(name, str) and len(name) < 200 else None
    except ValueError:
        return None
    is_known = player is not None and player.step is not None and player.step < MAX_STEP
    return player if is_known else None


def _has_fixed_interval(league: Mapping[str, Any], policy: str) -> bool:
    """Return whether snapshots of a policy are taken every ``league.every`` steps."""
    learners = league.get("learners")
    section = learners.get(policy) if isinstance(learners, Mapping) else None
    schedule = section.get("schedule") if isinstance(section, Mapping) else None
    schedule = schedule or league.get("schedule") or STEPS
    name = schedule.get("name") if isinstance(schedule, Mapping) else str(schedule).split()[0]
    return name == STEPS and league.get("together") is not False
