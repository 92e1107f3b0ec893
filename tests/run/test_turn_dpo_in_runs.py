"""Runs that learn from preferences between the replies to one prompt."""

import json

import pytest

import sparring
from sparring.config import resolve
from sparring.errors import MissingError

LOSS = {"name": "turn_dpo", "beta": 1.0}


def config(**changes):
    given = {
        "name": "turn_dpo",
        "threads": 1,
        "steps": 15,
        "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}, "oracle": {"name": "cfr", "iterations": 50}}],
        "rollout": {"games_per_step": 64, "candidates": {"count": 3, "commit": "random"}},
        "rewards": [{"name": "regret"}],
        "credit": {"name": "candidate_value"},
        "losses": [LOSS],
        "reorder_outcomes": True,
        "warmup": {"updates": 20, "games": 32},
        "learner": {"minibatches": 2, "learning_rate": 0.005},
        "evaluation": {"every": 15, "opponents": []},
    }
    return {**given, **changes}


def scores(path):
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "loss" in row]


@pytest.mark.parametrize(("labels", "reference", "weight"), [("hard", "start", 1.0), ("soft", "step", 8.0)])
def test_what_was_judged_better_becomes_likelier(tmp_path, labels, reference, weight):
    losses = [{**LOSS, "labels": labels, "reference": reference}]
    sparring.train(config(losses=losses, rewards=[{"name": "regret", "weight": weight}]), run=tmp_path / "run")
    rows = scores(tmp_path / "run")
    assert rows[0]["turn_dpo/pairs"] > 10 and rows[-1]["logprob_difference_max"] < 1e-4
    assert rows[-1]["candidates/score"] > rows[0]["candidates/score"] + 0.1 * weight
    assert rows[0]["credit/judged"] == 1.0


def test_there_must_be_several_replies():
    with pytest.raises(MissingError, match=r"compares the replies to one prompt here.*rollout\.candidates\.count: 4"):
        resolve(config(rollout={"games_per_step": 64}))
