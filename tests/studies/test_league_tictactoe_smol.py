"""The study of SmolLM2 in tic-tac-toe: its arms, figures of a run, and the page."""

import pytest
from safetensors.numpy import load_file

from sparring.run import checkpoint
from studies.common.result_figures import Results
from studies.league_tictactoe_smol import study
from studies.league_tictactoe_smol import tables as page
from tests.run_with_members import run
from tests.studies.builders import Commands, config_of, stub_run

TINY = [
    "model={name: tiny, hidden_size: 8, layers: 1, heads: 1}",
    "renderer={name: plain}",
    "warmup.updates=2",
    "warmup.games=4",
]


def test_the_league_plays_640_games_a_step_only_with_its_members():
    config = config_of(study, study.LEAGUE)
    assert config.steps * config.rollout.games_per_step == 640
    assert config.matchmaker.options["bots"].keys() == config.bots.keys() == {"start"}
    assert config.bots["start"].name == "mixture" and config.bots["start"].options == {"players": {"past-000000": 1}}
    assert config.league.start and not config.evaluation.opponents


def test_the_mirror_arm_has_the_configured_number_of_seeds():
    keys = [cell.key for cell in study.cells({**study.STUDY.setting, "seeds": 2, "mirrors": 1})]
    assert keys == [("start", 0), ("league", 0), ("mirror", 0), ("start", 1), ("league", 1)]


def test_the_mirror_arm_differs_in_opponents_and_loss():
    league, mirror = (config_of(study, arm).model_dump() for arm in (study.LEAGUE, "mirror"))
    assert {key for key in league if league[key] != mirror[key]} == {"matchmaker", "losses"}
    assert mirror["matchmaker"]["name"] == "mirror" and not mirror["matchmaker"].get("options")
    assert [loss["name"] for loss in mirror["losses"]] == ["ppo_clip", "entropy_bonus"]


def test_the_start_arm_has_the_leagues_initial_weights(tmp_path):
    for arm, changes in ((study.LEAGUE, ["steps=1", "rollout.games_per_step=4", "league.every=1"]), (study.START, [])):
        run(tmp_path / arm, config_of(study, arm, *TINY, *changes))
    member = load_file(checkpoint.load_latest(tmp_path / study.LEAGUE).path / "past-000000.safetensors")
    league_weights, start_weights = (
        load_file(checkpoint.load_latest(tmp_path / arm).path / "model.safetensors")
        for arm in (study.LEAGUE, study.START)
    )
    assert start_weights.keys() == member.keys()
    assert all((start_weights[name] == member[name]).all() for name in member)
    assert any((league_weights[name] != member[name]).any() for name in member)


def test_a_run_is_measured_by_self_play_and_a_match(tmp_path, monkeypatch):
    stub_run(
        monkeypatch,
        study,
        [{"step": step, "distinct_share": step / 4} for step in (1, 2)],
        {"rollout": {"games_per_step": 32}},
    )
    match = {"role": "X", "opponent": "random", "intervals": {"win": {"mean": 0.5}, "win_or_draw": {"mean": 0.75}}}
    self_plays = [{"distinct": 40, "commonest": 3, "illegal": {"mean": 0.25, "low": 0.125, "high": 0.5}}]
    commands = Commands({"matches": [match], "self_plays": self_plays})
    assert study.run_figures(tmp_path, "", commands, games=7, plays=9) == {
        "different plays": 40,
        "plays of the commonest course": 3,
        "legal replies": 0.75,
        "legal replies, low": 0.5,
        "legal replies, high": 0.875,
        "X against random, win": 0.5,
        "X against random, win_or_draw": 0.75,
        "share of different plays after 32": 0.25,
        "share of different plays after 64": 0.5,
    }
    assert commands.words == [
        "sparring",
        "evaluate",
        str(tmp_path),
        "--games",
        "7",
        "--opponent",
        "random",
        "--self-plays",
        "9",
        "--no-exact",
        "--json",
    ]


def row(arm, *, differ=33, legal=0.95, x=0.75):
    """Return a row of two seeds: seed 0 always reaches the goal, seed 1 has the given figures."""
    values = {
        study.DIFFER: {"0": 64, "1": differ},
        study.LEGAL: {"0": 1.0, "1": legal},
        "X against random, win_or_draw": {"0": 0.9, "1": x},
        "seconds": {"0": 60.0, "1": 120.0},
    }
    return {"arm": arm, "starts": "all", "plays": 64, "games": 256, "values": values}


@pytest.mark.parametrize(
    ("figures", "counts"),
    [
        ({}, (2, 2, 2, 2)),
        ({"differ": 32}, (1, 2, 2, 1)),
        ({"legal": 0.949}, (2, 1, 2, 1)),
        ({"x": 0.5625}, (2, 2, 1, 1)),
    ],
)
def test_the_verdict_counts_seeds_per_goal_and_for_all_goals(figures, counts):
    start = row(study.START)
    start["values"]["X against random, win_or_draw"] = {"0": 0.5, "1": 0.5}
    text = page.verdict_text(Results({"rows": [start, row("league", **figures)]}))
    num_different, num_legal, num_share, num_all = counts
    assert (
        f"**league** reaches the first goal in {num_different}, the second in {num_legal}, the third in {num_share}, and all three in {num_all} of 2 seeds."
        in text
    )
    assert "**start**" not in text
