"""Runs that learn over the attempts of a trial: the turn table has attempts, notes and opponents."""

import json

import numpy as np
import pandas as pd
import pytest

import sparring
from sparring.play.players.biased import BiasedAgent
from tests.run.builders import KillSignal

SMALL_OVERRIDES = [
    "threads=1",
    "model.hidden_size=8",
    "model.layers=1",
    "model.heads=2",
    "rollout.games_per_step=12",
    "rollout.group_size=4",
]
SMALL_OVERRIDES += ["evaluation.every=9", "warmup.updates=0", "store.every=1", "steps=1"]


def train_and_read_rows(tmp_path, credit):
    result = sparring.train("context/trial-reflections", *SMALL_OVERRIDES, f"credit={credit}", run=tmp_path / "run")
    keys = ["step", "episode_id", "seat", "turn_index"]
    return result.table("episodes").to_pandas().merge(result.table("credit").to_pandas(), on=keys)


def test_stored_turns_give_the_same_credit(tmp_path):
    rows = train_and_read_rows(tmp_path, "{name: mage, per_opponent: true, preset: as_released}")
    assert rows["note"].any() and rows["attempt"].max() == 2
    rows = rows.sort_values(["episode_id", "seat", "turn_index"])
    opponent_names = np.array([agents[1 - seat] for agents, seat in zip(rows["agents"], rows["seat"], strict=True)])
    assert len(set(opponent_names)) > 1
    turns = sparring.turn_table(
        reward=rows["reward"],
        episode=rows["episode_id"],
        group=rows["group_id"],
        seat=rows["seat"],
        role=rows["role"].tolist(),
        view=rows["view"].tolist(),
        attempt=rows["attempt"],
        note=rows["note"],
        opponents=pd.factorize(opponent_names)[0],
        components={
            "game": [
                dict(zip(names_of_rewards, values_of_rewards, strict=True)).get("game", 0.0)
                for names_of_rewards, values_of_rewards in zip(rows["reward_names"], rows["reward_values"], strict=True)
            ]
        },
    )
    recomputed = sparring.advantages("mage:as_released", turns, per_opponent=True).advantages
    assert recomputed == pytest.approx(rows["advantage"].to_numpy(), abs=1e-9)
    assert np.abs(recomputed).max() > 0.1


ROCK_OVERRIDES = [
    *(change for change in SMALL_OVERRIDES if not change.startswith(("steps", "evaluation"))),
    "steps=4",
    "checkpoint.every=2",
    "evaluation.every=4",
]


def test_a_run_killed_within_a_trial_resumes_with_the_same_bytes(tmp_path, monkeypatch):
    uninterrupted_run = sparring.train(
        "mage/rock-tiny", *ROCK_OVERRIDES, "evaluation.opponents=[]", run=tmp_path / "whole"
    )
    choose, attempts = BiasedAgent.choose, []

    def raise_in_trial(agent, state, seat, stream):
        attempts.append(state.attempt)
        if len(attempts) > 90 and state.attempt == 1:  # a step has 12 trials of 3 attempts each
            raise KillSignal
        return choose(agent, state, seat, stream)

    monkeypatch.setattr(BiasedAgent, "choose", raise_in_trial)
    with pytest.raises(KillSignal):
        sparring.train("mage/rock-tiny", *ROCK_OVERRIDES, "evaluation.opponents=[]", run=tmp_path / "halves")
    monkeypatch.undo()
    lines = (tmp_path / "halves" / "metrics.jsonl").read_text().splitlines()
    assert 0 < len(lines) < 4
    resumed_run = sparring.train(
        "mage/rock-tiny", *ROCK_OVERRIDES, "evaluation.opponents=[]", run=tmp_path / "halves", resume=True
    )
    for name in ("metrics.jsonl", "checkpoints/step_000004/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert resumed_run.table("episodes").equals(uninterrupted_run.table("episodes"))


def test_a_trial_beyond_the_context_is_truncated_and_counted(tmp_path):
    changes = [*SMALL_OVERRIDES, "model.context=20", "evaluation.opponents=[]"]
    result = sparring.train("mage/rock-tiny", *changes, run=tmp_path / "run")
    (metrics,) = (json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert 0 < metrics["overlong_rate"] < 1 and metrics["overlong_rate"] <= metrics["truncated_rate"]
    assert np.isfinite(metrics["loss"]) and metrics["attempt/trial/1"] is not None
    rows = result.table("episodes").to_pandas()
    assert rows["attempt"].max() == 2, "a random action replaces an unparsable reply, so all three attempts are played"
