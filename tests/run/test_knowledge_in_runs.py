"""Runs that know something beside their weights and learn from what it says of candidates."""

import json

import pytest

import sparring
from sparring.config import resolve
from sparring.core.errors import ConfigError, GameError, MissingError
from tests.engine.fleet.simulated import simulated_workers

BASE = {
    "name": "knowing", "threads": 1, "steps": 3, "environments": [{"name": "rps_spock_lizard", "illegal": {"rule": "random", "penalty": 0.5}}],
    "model": {"context": 16}, "rollout": {"games_per_step": 64, "candidates": {"count": 3, "commit": "random"}},
    "knowledge": {"name": "latent_space", "every": 1}, "credit": {"name": "candidate_value"}, "losses": [{"name": "turn_dpo", "preset": "lspo"}],
    "warmup": {"updates": 20, "games": 64}, "evaluation": {"every": 3}, "checkpoint": {"every": 1, "keep": 9}, "store": {"every": 1},
}


def config(**changes):
    return {**BASE, **changes}


def test_what_it_says_of_the_replies_is_recorded_and_learnt_from(tmp_path):
    run = sparring.train(config(), run=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["knowledge/latent_space/clusters"] for row in rows if "loss" in row] == [3, 4, 5]
    assert all(row["knowledge/judged"] == row["credit/judged"] == 1.0 for row in rows if "loss" in row)
    replies = run.table("episodes").to_pandas().merge(run.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    assert len(replies) == 3 * 64 * 2 * 3 and replies.score.notna().all()
    assert abs(replies.score - replies.advantage).max() < 1e-6
    states = [json.loads((folder / "state.json").read_text())["knowledge"] for folder in sorted((tmp_path / "run" / "checkpoints").iterdir())]
    assert [state["iteration"] for state in states] == [0, 1, 2]


def test_plays_of_workers_are_judged_as_those_of_one_process(tmp_path):
    found = []
    for name, scale in (("here", {}), ("two", {"fleet": "processes", "workers": 2})):
        with simulated_workers():
            sparring.train(config(scale=scale), run=tmp_path / name)
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        found.append([(row["loss"], row["knowledge/latent_space/apart"]) for row in rows if "loss" in row])
    assert found[0] == found[1]


def test_with_a_lag_too(tmp_path):
    losses = [{"name": "turn_dpo", "preset": "lspo"}, {"name": "truncated_is"}]
    with simulated_workers():
        sparring.train(config(scale={"lag": 1, "fleet": "processes", "workers": 1}, losses=losses), run=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["knowledge/latent_space/iteration"] for row in rows if "loss" in row] == [1, 2, 3]


def test_speeches_of_werewolf_are_clustered_without_names_and_judged_with_them(tmp_path):
    """With as many clusters as patterns every reply is judged, whoever is named; the seer is not to call its villager a wolf."""
    game = {"name": "werewolf", "options": {"players": 3, "tie": "none", "rounds": 1, "abstain": False, "say": ["result"], "order": "simultaneous"}}
    knowledge = {"name": "latent_space", "actions": True, "cfr_steps": 60}
    asked = config(
        environments=[{**game, "illegal": {"rule": "random", "penalty": 0.5}}], knowledge=knowledge, model={"context": 64},
        rollout={**BASE["rollout"], "max_new_tokens": 4}, steps=1, warmup={"updates": 10, "games": 32}, evaluation={"every": 9, "exact": False},
    )
    run = sparring.train(asked, run=tmp_path / "run")
    (folder,) = (tmp_path / "run" / "checkpoints").iterdir()
    known = json.loads((folder / "state.json").read_text())["knowledge"]["space"]["kinds"]
    assert sorted(known) == ["seer speaks", "villager speaks", "wolf speaks"]
    assert all(sorted(own["sentences"]) == ["seer @ good", "seer @ wolf", "silence"] for own in known.values())
    replies = run.table("episodes").to_pandas()
    chosen = replies[replies.groupby(["episode_id", "seat", "turn_index"]).candidate.transform("count") == 3]
    assert len(chosen) > 64 * 5 * 3 and chosen.score.notna().all()


@pytest.mark.parametrize("options", [{}, {"gists": False, "depth": 2, "embedding": "ngrams size=64"}])
def test_a_game_without_a_tree_is_judged_by_sampled_plays_the_same_in_every_run(tmp_path, options):
    """Ties by lot are chance after the start, which the solver of the whole tree refuses."""
    game = {"name": "werewolf", "options": {"players": 4, "tie": "random", "rounds": 1, "say": ["result"]}}
    asked = config(
        environments=[{**game, "illegal": {"rule": "random", "penalty": 0.5}}],
        knowledge={"name": "latent_space", "actions": True, "every": 1, "solver": "sampled", "cfr_steps": 8, **options},
        model={"context": 96, "hidden_size": 16, "layers": 1}, rollout={**BASE["rollout"], "games_per_step": 16, "max_new_tokens": 4}, steps=2,
        warmup={"updates": 2, "games": 16}, evaluation={"every": 9, "exact": False},
    )
    found = []
    for name in ("one", "other"):
        sparring.train(asked, run=tmp_path / name)
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        found.append([(row["loss"], row["knowledge/judged"], row["knowledge/latent_space/apart"]) for row in rows if "loss" in row])
    assert found[0] == found[1] and len(found[0]) == 2  # a step in which nothing is judged has no loss
    assert all(0 < judged < 1 for _, judged, _ in found[0])
    folders = sorted((tmp_path / "one" / "checkpoints").iterdir())
    space = json.loads((folders[-1] / "state.json").read_text())["knowledge"]["space"]
    assert {len(centre) for kind in space["kinds"].values() for centre in kind["centres"]} == ({64} if options else {256})
    assert {key.split()[0] for key in space["strategies"]["werewolf"]} == ({"0", "1", "2", "3"} if options else {"wolf", "seer", "villager"})
    whole = {**asked, "knowledge": {**asked["knowledge"], "solver": "whole"}}
    with pytest.raises(GameError, match="write solver: sampled"):
        sparring.train(whole, run=tmp_path / "whole")


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"rollout": {"games_per_step": 64}, "credit": {"name": "rae"}}, MissingError, r"candidates: \{count: 3, commit: random\}"),
        ({"rollout": {"games_per_step": 64, "candidates": {"count": 3}}}, MissingError, r"candidates: \{count: 3, commit: random\}"),
        ({"replay": {"name": "r3"}}, ConfigError, "replay 'r3' learns from older ones; leave replay out"),
        ({"knowledge": {"name": "latent_spaces"}}, ConfigError, "Did you mean 'latent_space'"),
        ({"knowledge": {"name": "latent_space", "prefer": "regret"}}, ConfigError, "prefer"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(changes, error, match):
    with pytest.raises(error, match=match):
        resolve(config(**changes))


def test_the_resolved_configuration_is_as_before_without_knowledge():
    assert "knowledge" not in resolve({"environments": [{"name": "kuhn_poker"}]}).model_dump()
    assert "player" not in resolve({"environments": [{"name": "kuhn_poker"}]}).model_dump()["warmup"]
