"""The family tree of a league, read from checkpoints and configurations as runs write them."""

import json

import pytest

from sparring.view.family import MOST

LEAGUE = "league: {every: 10, keep: 2}\n"
TWO = "policies: {red: {}, blue: {}, judge: {frozen: true}}\n"


def checkpoint(run, step, engine, **owners):
    """Write the records of a checkpoint that name members."""
    folder = run / "checkpoints" / f"step_{step:06d}"
    folder.mkdir(parents=True)
    (folder / "engine.json").write_text(json.dumps(engine))
    (folder / "state.json").write_text(json.dumps({"payoffs": {}, **owners}))


def with_config(run, text):
    """Add lines to the configuration of a run."""
    (run / "config.yaml").write_text((run / "config.yaml").read_text() + text)
    return run


def told(client):
    """Return the answer, its members by name."""
    found = client.get("/api/runs/0/family").json()
    return {row["name"]: row for row in found["members"]}, found


def test_a_snapshot_comes_from_the_one_before_it_and_the_first_from_the_start(opened, run_folder):
    with_config(run_folder, LEAGUE)
    checkpoint(run_folder, 20, {"version": 20, "members": {"past-000020": 20}})
    rows, found = told(opened(run_folder))
    assert [(name, row["parent"], row["state"]) for name, row in rows.items()] == [
        ("start", None, "start"),
        ("past-000010", "start", "left"),
        ("past-000020", "past-000010", "kept"),
        ("past-000030", "past-000020", "new"),  # after the newest checkpoint
        ("learner", "past-000030", "now"),
    ]
    assert found["step"] == 20 and found["notes"] == []
    assert not any(row["recorded"] for row in rows.values())


def test_policies_lie_side_by_side_and_a_frozen_one_has_its_start_alone(opened, run_folder):
    with_config(run_folder, LEAGUE + TWO)
    own = {name: {"members": {f"past-{name}-000030": 30}} for name in ("red", "blue")}
    checkpoint(run_folder, 30, {"policies": {**own, "judge": {"members": {}}}})
    rows, _ = told(opened(run_folder))
    assert [name for name, row in rows.items() if row["policy"] == "judge"] == ["start-judge"]
    assert rows["past-red-000030"]["parent"] == "past-red-000020"
    assert rows["past-blue-000010"]["parent"] == "start-blue"
    assert rows["past-blue-000030"]["state"] == "kept"


def test_a_start_that_is_a_member_stands_once(opened, run_folder):
    with_config(run_folder, "league: {every: 10, keep: 3, start: true, restart: true}\n")
    members = {name: {"parent": "past-000000"} for name in ("past-000010", "past-000020")}
    checkpoint(run_folder, 20, {"version": 20, "members": {"past-000000": 0, "past-000010": 10, "past-000020": 20}}, league={"members": members})
    rows, found = told(opened(run_folder))
    assert [(name, row["parent"], row["state"]) for name, row in rows.items()][:3] == [
        ("past-000000", None, "start"),
        ("past-000010", "past-000000", "kept"),
        ("past-000020", "past-000000", "kept"),
    ]
    assert "start" not in rows and found["notes"] == []


@pytest.mark.parametrize("where", ["engine", "league"])
def test_a_recorded_tag_and_parent_are_read(opened, run_folder, where):
    record = {"version": 30, "tag": "counter", "parent": {"kind": "snapshot", "step": 10}}
    with_config(run_folder, LEAGUE)
    names = {"past-000010": 10, "past-000030": record if where == "engine" else 30}
    more = {} if where == "engine" else {"league": {"members": {"past-000030": record}}}
    checkpoint(run_folder, 30, {"members": names}, **more)
    rows, _ = told(opened(run_folder))
    own = rows["past-000030"]
    assert (own["tag"], own["parent"], own["recorded"]) == ("counter", "past-000010", True)
    assert rows["past-000010"]["tag"] is None


def test_a_parent_that_is_none_is_said_and_the_order_of_steps_holds(opened, run_folder):
    with_config(run_folder, LEAGUE)
    parents = {10: "past-000030", 20: "past-000020", 30: "nobody"}
    names = {f"past-{step:06d}": {"parent": own, "tag": 3} for step, own in parents.items()}
    checkpoint(run_folder, 30, {"members": names})
    rows, found = told(opened(run_folder))
    assert rows["past-000010"]["parent"] == "start" and rows["past-000030"]["tag"] is None
    assert rows["past-000030"]["parent"] == "past-000020"
    assert len(found["notes"]) == 3 and "nobody" in found["notes"][2]


def test_a_run_without_snapshots_or_checkpoint_has_its_start(opened, run_folder):
    rows, found = told(opened(run_folder))
    assert [*rows] == ["start", "learner"] and found["step"] is None


@pytest.mark.parametrize(
    "engine", ["[]", "{", '{"members": {"past-x": 1}, "policies": 3}', '{"members": [1]}']
)
def test_a_checkpoint_that_cannot_be_read_is_said(opened, run_folder, engine):
    with_config(run_folder, LEAGUE)
    checkpoint(run_folder, 30, {})
    (run_folder / "checkpoints" / "step_000030" / "engine.json").write_text(engine)
    rows, found = told(opened(run_folder))
    assert "step 30 cannot be read" in found["notes"][0] and rows["past-000010"]["state"] == "new"


def test_very_many_snapshots_are_thinned_and_said(opened, run_folder):
    with_config(run_folder, "league: {every: 1, keep: 2}\n")
    (run_folder / "metrics.jsonl").write_text('{"step": 5002, "loss": 1.0}\n')
    checkpoint(run_folder, 5002, {"members": {"past-005002": 5002}})
    rows, found = told(opened(run_folder))
    assert len(rows) <= MOST + 3 and "past-005001" in rows
    assert "one in 17 of 5001" in found["notes"][0]
