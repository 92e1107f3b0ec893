"""Candidates beside everything else that changes what is played, recorded or trained: pairs of options."""

import json

import pytest

import sparring

KUHN = {"name": "kuhn_poker", "illegal": {"rule": "retry", "retries": 1, "penalty": 0.2}, "oracle": {"name": "cfr", "iterations": 50}}
VPR = {"name": "vpr", "baseline": "candidates", "process": "regret"}
SMALL = {"hidden_size": 8, "heads": 1, "layers": 1}
ROLLOUT = {"games_per_step": 16, "group_size": 4, "candidates": {"count": 3}}


def config(**changes):
    return {
        "name": "pairs", "threads": 1, "steps": 2, "environments": [KUHN], "model": SMALL, "rollout": ROLLOUT,
        "rewards": [{"name": "regret"}], "credit": VPR, "reorder_outcomes": True, "warmup": {"updates": 1, "games": 8},
        "evaluation": {"every": 2, "opponents": []}, "checkpoint": {"every": 1}, "store": {"every": 1}, **changes,
    }


def rollout(**changes):
    return {**ROLLOUT, **changes}


AUCTION = {"name": "sealed_auction", "illegal": {"rule": "random", "penalty": 0.1}}
LENGTH = {"rewards": [{"name": "length", "shortest": 1, "longest": 4, "bonus": 0.1}], "credit": {**VPR, "process": "length"}}
PAIRS = {
    "moves at once": {"environments": [AUCTION], **LENGTH},
    "several runs of one seat": {"environments": [{"name": "lookups"}], **LENGTH, "rollout": rollout(max_new_tokens=6)},
    "tree": {"rollout": rollout(plan={"name": "tree", "branching": [2, 2]})},
    "branch": {"rollout": rollout(plan={"name": "branch"})},
    "playouts": {"rollout": rollout(playouts=2)},
    "refills": {"rollout": rollout(refills=1)},
    "cut": {"rollout": rollout(max_turns=2)},
    "replay": {"replay": {"name": "r3"}},
    "markov": {"environments": [{"name": "liars_dice", "options": {"dice": 1}, "illegal": {"rule": "random"}}], "context": {"name": "markov"}, "evaluation": {"every": 2, "opponents": [], "exact": False}, **LENGTH},
    "summary": {"context": {"name": "summary", "every": 1}},
    "window": {"context": {"name": "sliding_window", "exchanges": 1}},
    "reward model": {"credit": {"name": "oprl"}},
    "critic": {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]},
    "truncation": {"rollout": rollout(top_k=3)},
    "past selves": {"matchmaker": {"name": "mixed"}, "league": {"every": 1}},
    "two policies": {"policies": {"one": {"credit": VPR}, "two": {"credit": {"name": "mars"}}}, "roles": {"first": "one", "second": "two"}},
}


@pytest.mark.parametrize("pair", PAIRS)
def test_candidates_beside(pair, tmp_path):
    run = sparring.train(config(**PAIRS[pair]), run=tmp_path / "run", overwrite=True)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    for name, value in rows[-1].items():
        if name.endswith("logprob_difference_max"):
            assert value < 1e-4
    episodes = run.table("episodes").to_pandas()
    keys = ["step", "episode_id", "seat", "turn_index", "candidate"]
    assert not episodes.duplicated(keys).any()
    several = episodes[episodes.state_group.notna()].groupby(["step", "episode_id", "state_group"])
    assert (several.committed.sum() == 1).all() and (several.candidate.nunique() == 3).all() and len(several)
    assert (several.moment.nunique() == 1).all()
    credit = run.table("credit").to_pandas()
    assert not credit.duplicated(keys).any()
    back = [episode for _, episode in run.episodes()]
    assert sum(len(turn.candidates) + 1 for episode in back for turn in episode.turns) == len(episodes)
