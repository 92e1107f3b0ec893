"""The family tree of a league, read from the checkpoints and the configuration of a run."""

import json

import pytest

from sparring.view.league_members import MAX_FORMER

LEAGUE = "league: {every: 10, keep: 2}\n"
THREE_POLICIES = "policies: {red: {}, blue: {}, judge: {frozen: true}}\n"


def checkpoint(run, step, engine, **state):
    folder = run / "checkpoints" / f"step_{step:06d}"
    folder.mkdir(parents=True)
    (folder / "engine.json").write_text(json.dumps(engine))
    (folder / "state.json").write_text(json.dumps({"payoffs": {}, **state}))


def members_of(open_client, run, config=""):
    (run / "config.yaml").write_text((run / "config.yaml").read_text() + config)
    family = open_client(run).get("/api/runs/0/family").json()
    return {row["name"]: row for row in family["members"]}, family


def test_a_snapshots_parent_is_the_previous_one_or_the_initial_weights(open_client, run_folder):
    checkpoint(run_folder, 20, {"version": 20, "members": {"past-000020": 20}})
    rows, family = members_of(open_client, run_folder, LEAGUE)
    assert [(name, row["parent"], row["state"]) for name, row in rows.items()] == [
        ("start", None, "start"),
        ("past-000010", "start", "left"),
        ("past-000020", "past-000010", "kept"),
        ("past-000030", "past-000020", "new"),  # newer than the newest checkpoint
        ("learner", "past-000030", "now"),
    ]
    assert family["step"] == 20 and family["notes"] == []
    assert not any(row["recorded"] for row in rows.values())


def test_each_policy_has_a_branch_and_a_frozen_policy_has_only_its_root(open_client, run_folder):
    policies = {name: {"members": {f"past-{name}-000030": 30}} for name in ("red", "blue")}
    checkpoint(run_folder, 30, {"policies": {**policies, "judge": {"members": {}}}})
    rows, _ = members_of(open_client, run_folder, LEAGUE + THREE_POLICIES)
    assert [name for name, row in rows.items() if row["policy"] == "judge"] == ["start-judge"]
    assert rows["past-red-000030"]["parent"] == "past-red-000020"
    assert rows["past-blue-000010"]["parent"] == "start-blue"
    assert rows["past-blue-000030"]["state"] == "kept"


def test_an_initial_member_appears_once(open_client, run_folder):
    members = {name: {"parent": "past-000000"} for name in ("past-000010", "past-000020")}
    checkpoint(
        run_folder,
        20,
        {"version": 20, "members": {"past-000000": 0, "past-000010": 10, "past-000020": 20}},
        league={"members": members},
    )
    rows, family = members_of(open_client, run_folder, "league: {every: 10, keep: 3, start: true, restart: true}\n")
    assert [(name, row["parent"], row["state"]) for name, row in rows.items()][:3] == [
        ("past-000000", None, "start"),
        ("past-000010", "past-000000", "kept"),
        ("past-000020", "past-000000", "kept"),
    ]
    assert "start" not in rows and family["notes"] == []


@pytest.mark.parametrize("location", ["engine", "league"])
def test_a_recorded_tag_and_parent_are_read(open_client, run_folder, location):
    record = {"version": 30, "tag": "counter", "parent": {"kind": "snapshot", "step": 10}}
    names = {"past-000010": 10, "past-000030": record if location == "engine" else 30}
    state_part = {} if location == "engine" else {"league": {"members": {"past-000030": record}}}
    checkpoint(run_folder, 30, {"members": names}, **state_part)
    rows, _ = members_of(open_client, run_folder, LEAGUE)
    member = rows["past-000030"]
    assert (member["tag"], member["parent"], member["recorded"]) == ("counter", "past-000010", True)
    assert rows["past-000010"]["tag"] is None


def test_an_unknown_parent_is_reported(open_client, run_folder):
    rows, family = members_of(open_client, run_folder)
    assert [*rows] == ["start", "learner"] and family["step"] is None
    parents = {10: "past-000030", 20: "past-000020", 30: "nobody"}
    names = {f"past-{step:06d}": {"parent": parent, "tag": 3} for step, parent in parents.items()}
    checkpoint(run_folder, 30, {"members": names})
    rows, family = members_of(open_client, run_folder, LEAGUE)
    assert rows["past-000010"]["parent"] == "start" and rows["past-000030"]["tag"] is None
    assert rows["past-000030"]["parent"] == "past-000020"
    assert len(family["notes"]) == 3 and "nobody" in family["notes"][2]


@pytest.mark.parametrize("engine", ["[]", "{", '{"members": {"past-x": 1}, "policies": 3}', '{"members": [1]}'])
def test_an_unreadable_checkpoint_is_reported(open_client, run_folder, engine):
    checkpoint(run_folder, 30, {})
    (run_folder / "checkpoints" / "step_000030" / "engine.json").write_text(engine)
    rows, family = members_of(open_client, run_folder, LEAGUE)
    assert "step 30 cannot be read" in family["notes"][0] and rows["past-000010"]["state"] == "new"


def test_very_many_snapshots_are_thinned_with_a_note(open_client, run_folder):
    (run_folder / "metrics.jsonl").write_text('{"step": 5002, "loss": 1.0}\n')
    checkpoint(run_folder, 5002, {"members": {"past-005002": 5002}})
    rows, family = members_of(open_client, run_folder, "league: {every: 1, keep: 2}\n")
    assert len(rows) <= MAX_FORMER + 3 and "past-005001" in rows
    assert "one in 17 of 5001" in family["notes"][0]


def write_lineage(run, *snapshots):
    (run / "league.jsonl").write_text("".join(json.dumps(line) + "\n" for line in snapshots))


@pytest.mark.parametrize("schedule", ["gate", "{name: plateau, window: 5}"])
def test_snapshots_of_another_schedule_are_at_their_recorded_steps(open_client, run_folder, schedule):
    snapshots = [(13, "past-000000"), (24, "past-000000"), (29, "past-000024"), (31, "past-000029")]
    write_lineage(
        run_folder, *({"step": step, "member": f"past-{step:06d}", "parent": parent} for step, parent in snapshots)
    )
    checkpoint(run_folder, 28, {"version": 28, "members": {"past-000000": 0, "past-000024": 24}})
    rows, family = members_of(
        open_client, run_folder, f"league: {{every: 10, keep: 2, start: true, restart: true, schedule: {schedule}}}\n"
    )
    assert [(name, row["parent"], row["state"]) for name, row in rows.items()] == [
        ("past-000000", None, "start"),
        ("past-000013", "past-000000", "left"),
        ("past-000024", "past-000000", "kept"),
        ("past-000029", "past-000024", "new"),
        ("learner", "past-000029", "now"),  # step 31 was interrupted, so its record is ignored
    ]
    assert rows["past-000013"]["recorded"] and family["notes"] == []


def test_each_learner_of_a_league_has_its_snapshots(open_client, run_folder):
    snapshots = [
        {"step": 20, "member": name, "parent": parent, "tag": tag}
        for name, parent, tag in (
            ("past-000020", "past-000010", "m"),
            ("past-counter-000020", "past-counter-000000", "c"),
        )
    ]
    write_lineage(run_folder, {"step": 10, "member": "past-000010", "parent": "past-000000", "tag": "m"}, *snapshots)
    checkpoint(run_folder, 30, {"policies": {name: {"members": {}} for name in ("main", "counter")}})
    rows, _ = members_of(
        open_client,
        run_folder,
        "policies: {main: {}, counter: {}}\nleague: {every: 10, keep: 2, learners: {main: {}, counter: {schedule: gate}}}\n",
    )
    assert [(name, row["parent"], row["tag"]) for name, row in rows.items() if row["state"] == "left"] == [
        ("past-000010", "start", "m"),
        ("past-000020", "past-000010", "m"),
        ("past-counter-000020", "start-counter", "c"),
    ]


def test_policies_of_roles_have_snapshots_of_the_same_steps(open_client, run_folder):
    write_lineage(run_folder, {"step": 17, "member": "past-000017", "parent": "past-000000"})
    rows, _ = members_of(open_client, run_folder, "league: {every: 10, keep: 2, schedule: gate}\n" + THREE_POLICIES)
    assert {"past-red-000017", "past-blue-000017"} <= rows.keys() and "past-judge-000017" not in rows
    assert rows["past-blue-000017"]["parent"] == "start-blue"


def test_snapshots_older_than_the_records_are_listed_by_the_schedule(open_client, run_folder):
    write_lineage(run_folder, {"step": 30, "member": "past-000030", "parent": "past-000020"})
    rows, _ = members_of(open_client, run_folder, LEAGUE)
    assert [name for name, row in rows.items() if row["state"] == "new"] == [
        "past-000010",
        "past-000020",
        "past-000030",
    ]


def test_unrecorded_parents_are_not_invented(open_client, run_folder):
    checkpoint(run_folder, 30, {"members": {"past-000023": 23}})
    rows, family = members_of(open_client, run_folder, "league: {every: 10, keep: 2, schedule: gate}\n")
    assert [*rows] == ["start", "past-000023", "learner"]
    assert family["notes"] == ["main: which snapshots have left the league was not recorded"]


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 10, "member": 3}',
        '{"step": 10, "member": "learner"}',
        '{"step": 10}',
        '{"member": "past-000010"}',
        "[",
        '{"step": 10, "member": "past-000010", "parent": "\\u0000"}',
    ],
)
def test_an_invalid_record_is_skipped(open_client, run_folder, line):
    (run_folder / "league.jsonl").write_text(line + "\n")
    rows, _ = members_of(open_client, run_folder, "league: {every: 10, schedule: gate}\n")
    assert set(rows) <= {"start", "past-000010", "learner"}


def test_a_record_outside_the_run_is_not_read(open_client, run_folder, tmp_path):
    (tmp_path / "elsewhere.jsonl").write_text('{"step": 10, "member": "past-000010"}\n')
    (run_folder / "league.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    assert [*members_of(open_client, run_folder, "league: {every: 10, schedule: gate}\n")[0]] == ["start", "learner"]
