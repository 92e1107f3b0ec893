"""A run that learns over the attempts of a trial: the turn table says what is an attempt and a note, and who else played."""

import numpy as np
import pandas as pd
import pytest

import sparring

TINY = ["threads=1", "model.hidden_size=8", "model.layers=1", "model.heads=2", "rollout.games_per_step=12", "rollout.group_size=4"]
TINY += ["evaluation.every=9", "warmup.updates=0", "store.every=1", "steps=1"]


def learnt(tmp_path, credit):
    run = sparring.train("context/trial-reflections", *TINY, f"credit={credit}", run=tmp_path / "run")
    keys = ["step", "episode_id", "seat", "turn_index"]
    return run.table("episodes").to_pandas().merge(run.table("credit").to_pandas(), on=keys)


def test_what_is_stored_gives_the_same_credit_again(tmp_path):
    """By the episodes as they lie on the disk: attempts, notes and opponents are those that the run learnt from."""
    rows = learnt(tmp_path, "{name: mage, per_opponent: true, preset: as_released}")
    assert rows["note"].any() and rows["attempt"].max() == 2
    rows = rows.sort_values(["episode_id", "seat", "turn_index"])
    names = np.array([agents[1 - seat] for agents, seat in zip(rows["agents"], rows["seat"], strict=True)])
    assert len(set(names)) > 1
    turns = sparring.turn_table(
        reward=rows["reward"],
        episode=rows["episode_id"],
        group=rows["group_id"],
        seat=rows["seat"],
        role=rows["role"].tolist(),
        view=rows["view"].tolist(),
        attempt=rows["attempt"],
        note=rows["note"],
        opponents=pd.factorize(names)[0],
        components={"game": [dict(zip(n, v, strict=True)).get("game", 0.0) for n, v in zip(rows["reward_names"], rows["reward_values"], strict=True)]},
    )
    found = sparring.advantages("mage:as_released", turns, per_opponent=True).advantages
    assert found == pytest.approx(rows["advantage"].to_numpy(), abs=1e-9)
    assert np.abs(found).max() > 0.1
