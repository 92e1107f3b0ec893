"""The state of a run: one value that a loop passes on, and what each owner writes of it."""

import json

import pytest

from sparring.config import resolve
from sparring.core.errors import CheckpointError
from sparring.engine.local import LocalEngine
from sparring.run.state import FILED, RunState
from sparring.run.step import Methods, play_round

BASE = {
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}], "steps": 4, "threads": 1,
    "rollout": {"games_per_step": 16, "group_size": 4, "starts": 4}, "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "credit": {"name": "rae"},
    "curriculum": {"name": "vade"}, "replay": {"name": "prioritised_replay"},
}


def rounds(config, number, state=None):
    engine, methods, states = LocalEngine(config), Methods.of(config), [state or RunState()]
    while len(states) <= number:
        states.append(play_round(config, engine, methods, states[-1]).state)
    return states


def written(state, folder):
    folder.mkdir()
    state.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_loop_that_passes_the_state_on_forgets_nothing(tmp_path):
    """Estimator, curriculum and replay buffer each remember every step."""
    states = rounds(resolve(BASE), 3)
    assert [state.step for state in states] == [0, 1, 2, 3]
    assert states[0].owners == {}
    for state in states[1:]:
        assert set(state.owners) == {"credit", "curriculum", "payoffs", "replay"}
        assert state.json("credit")
        records = [record for arm in state.json("curriculum").values() for record in arm]
        assert len(records) == 4 * state.step  # one per group of games
    sizes = [len(state.replay.stored) for state in states]
    assert sizes[0] == 0 < sizes[1] < sizes[3]


def test_a_step_leaves_the_state_before_it_as_it_was(tmp_path):
    """So a step may be taken again from the same state, with the same outcome."""
    config = resolve(BASE)
    before, after = rounds(config, 2)[1:]
    first = written(before, tmp_path / "first")
    again = play_round(config, (engine := LocalEngine(config)), Methods.of(config), before).state
    assert written(before, tmp_path / "second") == first
    assert again.step == after.step
    assert engine.model.version == 1


def test_what_is_saved_is_restored(tmp_path):
    state = rounds(resolve(BASE), 2)[-1]
    files = written(state, tmp_path / "one")
    assert set(files) == {"state.json", "replay.parquet", "replay.json"}
    found = RunState.restored(tmp_path / "one", state.step, json.loads(files["state.json"]))
    assert found.step == 2
    assert found.json("credit") == state.json("credit")
    assert found.replay.stored == state.replay.stored
    assert written(found, tmp_path / "two") == files


def test_of_the_beginning_nothing_but_an_empty_mapping_is_written(tmp_path):
    assert written(RunState(), tmp_path / "empty") == {"state.json": b"{}"}
    found = RunState.restored(tmp_path / "empty", 0, {})
    assert (found.json("credit"), found.replay.stored) == ({}, ())
    assert written(found, tmp_path / "again") == {"state.json": b"{}"}


def test_an_owner_of_a_later_version_is_carried_along(tmp_path):
    """A state that nobody here asks for is neither lost nor refused."""
    state = RunState(step=1, owners={"ratings": {"a": [1, 2]}}).after(credit={"x": 1.0})
    files = written(state, tmp_path / "one")
    assert json.loads(files["state.json"]) == {"credit": {"x": 1.0}, "ratings": {"a": [1, 2]}}


def test_what_is_no_owners_is_kept_apart(tmp_path):
    state = RunState(step=1, owners={"credit": {}})
    folder = tmp_path / "one"
    folder.mkdir()
    state.save(folder, config={"seed": 1})
    found = json.loads((folder / "state.json").read_bytes())
    assert found == {"credit": {}, "config": {"seed": 1}}
    assert set(RunState.restored(folder, 1, found, apart=frozenset({"config"})).owners) == {"credit", *FILED}


@pytest.mark.parametrize("damage", [[], 1, "text", None])
def test_a_state_of_another_kind_is_refused(tmp_path, damage):
    with pytest.raises(CheckpointError, match="holds no state of credit"):
        RunState.restored(tmp_path, 1, {"credit": damage})


def test_a_torn_file_of_an_owner_is_refused(tmp_path):
    state = rounds(resolve(BASE), 1)[-1]
    files = written(state, tmp_path / "one")
    (tmp_path / "one" / "replay.parquet").write_bytes(files["replay.parquet"][:-20])
    with pytest.raises(CheckpointError, match="replay buffer"):
        RunState.restored(tmp_path / "one", 1, {})


def test_the_copy_that_is_asked_for_is_ones_own():
    state = RunState(step=1, owners={"credit": {"mean": 1.0}})
    state.json("credit")["mean"] = 2.0
    assert state.json("credit") == {"mean": 1.0}
