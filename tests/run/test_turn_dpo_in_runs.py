"""Runs that learn from preferences between the replies to one prompt."""

import json

import pytest

import sparring
from sparring.config import resolve
from sparring.core.errors import MissingError

LOSS = {"name": "turn_dpo", "beta": 1.0}


def config(**changes):
    given = {
        "name": "turn_dpo", "threads": 1, "steps": 15,
        "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}, "oracle": {"name": "cfr", "iterations": 50}}],
        "rollout": {"games_per_step": 64, "candidates": {"count": 3, "commit": "random"}}, "rewards": [{"name": "regret"}],
        "credit": {"name": "candidate_value"}, "losses": [LOSS], "reorder_outcomes": True, "warmup": {"updates": 20, "games": 32},
        "learner": {"minibatches": 2, "learning_rate": 0.005}, "evaluation": {"every": 15, "opponents": []},
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


@pytest.mark.parametrize("changes", [{}, {"reduction": "agent_mean"}, {"leaves": 2}, {"order": "reverse_turns"}])
@pytest.mark.parametrize("reference", ["start", "step"])
def test_one_pass_and_several_learn_the_same_beside_a_kl_penalty(tmp_path, reference, changes):
    losses = [{**LOSS, "labels": "soft", "reference": reference}, {"name": "kl_penalty", "estimator": "k2"}]
    found = []
    for tokens in (8192, 40):
        learner = {"minibatches": 2, "learning_rate": 0.005, "micro_tokens": tokens, **changes}
        path = tmp_path / str(tokens)
        short = {"steps": 1, "warmup": {"updates": 5, "games": 16}, "evaluation": {"exact": False, "opponents": []}}
        sparring.train(config(losses=losses, learner=learner, **short), run=path)
        found.append(scores(path)[0])
    one, several = found
    assert one["kl_penalty/kl"] > 0 and one["turn_dpo/pairs"] > 10
    for name in ("loss", "gradient_norm", "turn_dpo/margin"):
        assert one[name] == pytest.approx(several[name], rel=1e-3, abs=1e-5), name


def test_there_must_be_several_replies():
    with pytest.raises(MissingError, match=r"compares the replies to one prompt here.*rollout\.candidates\.count: 4"):
        resolve(config(rollout={"games_per_step": 64}))
