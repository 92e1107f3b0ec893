"""What a run that goes on is asked to do otherwise is noticed, refused or written down."""

import json

import pytest

from sparring.api.load import load_run
from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core import files
from sparring.core.errors import RunError
from sparring.engine.local import LocalEngine
from sparring.run import config_checks as changes
from sparring.run.folder import RunFolder
from sparring.run.loop import train

CONFIG = {
    "steps": 2, "threads": 1, "environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 4}, "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"exact": False}, "checkpoint": {"every": 1}, "store": {"every": 0},
}


def run(path, *, resume=True, **keys):
    config = resolve({**CONFIG, **keys})
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    if resume:
        changes.check_same(folder, config.model_dump(mode="json"))
    with folder:
        return train(config, LocalEngine(config), folder, resume=resume)


def noted(path):
    return [json.loads(line) for line in (path / "changes.jsonl").read_text().splitlines()]


@pytest.fixture
def trained(tmp_path):
    run(tmp_path / "run", resume=False)
    return tmp_path / "run"


def test_a_run_that_is_not_changed_notes_how_it_began(trained):
    before = (trained / "changes.jsonl").read_bytes()
    (start,) = noted(trained)
    assert (start["step"], start["start"]["steps"], start["start"]["checkpoint"]["every"]) == (0, 2, 1)
    run(trained)
    assert (trained / "changes.jsonl").read_bytes() == before


def test_what_may_change_is_written_down_and_stays_in_force(trained):
    assert run(trained, steps=4, checkpoint={"every": 2}).steps == 4
    assert RunFolder.open(trained).config()["steps"] == 4
    assert noted(trained)[1:] == [
        {"step": 2, "key": "checkpoint.every", "old": 1, "new": 2},
        {"step": 2, "key": "steps", "old": 2, "new": 4},
    ]
    run(trained, steps=5, checkpoint={"every": 2})
    assert noted(trained)[3:] == [{"step": 4, "key": "steps", "old": 4, "new": 5}]


def test_a_change_is_noted_once_however_often_it_is_killed(trained, monkeypatch):
    """Whether the kill came before or after config.yaml was written."""

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    for written in (0, 1, 2):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            calls = iter([files.write_bytes_atomic] * written + [killed] * 9)
            patch.setattr(changes, "write_bytes_atomic", lambda *args, calls=calls: next(calls)(*args))
            patch.setattr("sparring.run.loop.MetricsWriter", killed)
            run(trained, steps=4)
    run(trained, steps=4)
    assert noted(trained)[1:] == [{"step": 2, "key": "steps", "old": 2, "new": 4}]


def test_a_change_that_was_taken_back_before_anything_was_trained_is_none(trained, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("sparring.run.loop.MetricsWriter", lambda *_: 1 / 0)
        run(trained, steps=4)
    run(trained, steps=2)
    assert len(noted(trained)) == 1


def test_a_run_of_before_changes_were_noted_began_with_its_config(trained):
    (trained / "changes.jsonl").unlink()
    run(trained, steps=3)
    assert noted(trained)[0]["start"]["steps"] == 2
    assert noted(trained)[1:] == [{"step": 2, "key": "steps", "old": 2, "new": 3}]


def test_a_run_of_before_there_were_several_learners_had_one(trained):
    (start,) = noted(trained)
    del start["start"]["learner"]
    (trained / "changes.jsonl").write_text(json.dumps(start) + "\n")
    run(trained, steps=3)
    assert [line["key"] for line in noted(trained)[1:]] == ["steps"]


def test_an_edited_configuration_is_noticed(trained, caplog):
    text = (trained / "config.yaml").read_text()
    (trained / "config.yaml").write_text(text.replace("seed: 0", "seed: 7"))
    with pytest.raises(RunError, match=r"config.yaml was edited after step 2 was saved: seed differs \(0, now 7\)"):
        run(trained, seed=7)
    load_run(trained)  # may be what is wanted, as on another machine
    assert "was edited after step 2 was saved, and is used as it is now: seed differs (0, now 7)" in caplog.text
    (trained / "config.yaml").write_text(text)
    assert run(trained).finished


def test_an_edit_of_what_may_change_counts_as_a_change(trained):
    path = trained / "config.yaml"
    path.write_text(path.read_text().replace("steps: 2", "steps: 3"))
    assert run(trained, steps=3).steps == 3
    assert noted(trained)[1:] == [{"step": 2, "key": "steps", "old": 2, "new": 3}]
