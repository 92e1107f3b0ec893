"""The policy that a run compares with is the one before its first step: what the warm-up has left, if there is one."""

import json

import pytest

from sparring.api import train
from sparring.engine.local import Policy
from sparring.run.folder import RunFolder

RUN = {
    "steps": 3, "threads": 1, "seed": 5, "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}], "rollout": {"games_per_step": 16},
    "losses": [{"name": "ppo_clip"}, {"name": "kl_penalty", "estimator": "k2", "weight": 0.1}], "learner": {"learning_rate": 0.02},
    "evaluation": {"exact": False},
}
SMALL = {"hidden_size": 16, "layers": 1}


def divergences(folder, **changes):
    train({**RUN, "model": SMALL, **changes}, run=folder)
    return [json.loads(line)["kl_penalty/kl"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("adapted", [False, True], ids=["weights", "adapters"])
@pytest.mark.parametrize("updates", [0, 4])
def test_a_run_begins_at_its_reference(updates, adapted, tiny_folder, tmp_path):
    model = {"name": str(tiny_folder), "device": "cpu", "lora": {"rank": 2}} if adapted else SMALL
    first, *later = divergences(tmp_path / "run", model=model, renderer={"name": "plain"}, warmup={"updates": updates, "games": 8})
    assert first == pytest.approx(0.0, abs=1e-9) and min(later) > 1e-6


def test_the_reference_is_kept_only_where_it_cannot_be_made_anew(tmp_path):
    for updates in (0, 2):
        divergences(tmp_path / f"{updates}", warmup={"updates": updates, "games": 8})
        assert (RunFolder.open(tmp_path / f"{updates}").checkpoint().path / "reference.safetensors").exists() == bool(updates)


def test_a_checkpoint_of_before_goes_on_with_what_its_run_was_made_from(tmp_path, monkeypatch):
    warmed = {"warmup": {"updates": 2, "games": 8}}
    with monkeypatch.context() as before:
        before.setattr(Policy, "kept", property(lambda own: []))
        divergences(tmp_path / "run", steps=2, **warmed)
    train({**RUN, "model": SMALL, **warmed}, run=tmp_path / "run", resume=True)
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["kl_penalty/kl"] > divergences(tmp_path / "other", **warmed)[-1]  # farther from what was random
