"""The study of SmolLM2 in tic-tac-toe: what its arms are, what is kept of a run, and what its page says of it."""

import json

import pytest
from safetensors.numpy import load_file

from sparring.config import recipe, resolve
from sparring.run import checkpoint
from studies.common.result_figures import Results
from studies.league_tictactoe_smol import study
from studies.league_tictactoe_smol import tables as page
from tests.run_with_members import run
from tests.studies.told_run import told_run

TINY = ["model={name: tiny, hidden_size: 8, layers: 1, heads: 1}", "renderer={name: plain}", "warmup.updates=2", "warmup.games=4"]


def config_of(arm, *changes):
    """Return the configuration of an arm's first seed."""
    cell = next(cell for cell in study.cells({**study.STUDY.setting, "changes": list(changes)}) if cell.key == (arm, 0))
    return resolve(recipe.apply_overrides(recipe.load_recipe(cell.command[2]), cell.command[3:]))


def test_the_league_plays_640_and_seats_its_own_members_alone():
    config = config_of(study.LEAGUE)
    assert config.steps * config.rollout.games_per_step == 640
    assert config.matchmaker.options["bots"].keys() == config.bots.keys() == {"start"}
    assert config.bots["start"].name == "mixture" and config.bots["start"].options == {"players": {"past-000000": 1}}
    assert config.league.start and not config.evaluation.opponents


def test_the_mirror_has_as_many_seeds_as_are_asked_for():
    keys = [cell.key for cell in study.cells({**study.STUDY.setting, "seeds": 2, "mirrors": 1})]
    assert keys == [("start", 0), ("league", 0), ("mirror", 0), ("start", 1), ("league", 1)]


def test_the_mirror_differs_from_the_league_in_who_is_met_and_in_the_loss():
    league, mirror = (config_of(arm).model_dump() for arm in (study.LEAGUE, "mirror"))
    assert {key for key in league if league[key] != mirror[key]} == {"matchmaker", "losses"}
    assert mirror["matchmaker"]["name"] == "mirror" and not mirror["matchmaker"].get("options")
    assert [loss["name"] for loss in mirror["losses"]] == ["ppo_clip", "entropy_bonus"]


def test_the_start_is_what_the_league_begins_as(tmp_path):
    for arm, more in ((study.LEAGUE, ["steps=1", "rollout.games_per_step=4", "league.every=1"]), (study.START, [])):
        run(tmp_path / arm, config_of(arm, *TINY, *more))
    begun = load_file(checkpoint.load_latest(tmp_path / study.LEAGUE).path / "past-000000.safetensors")
    learnt, start = (load_file(checkpoint.load_latest(tmp_path / arm).path / "model.safetensors") for arm in (study.LEAGUE, study.START))
    assert start.keys() == begun.keys()
    assert all((start[name] == begun[name]).all() for name in begun)
    assert any((learnt[name] != begun[name]).any() for name in begun)


def test_a_run_is_measured_by_plays_against_itself_and_a_match(tmp_path, monkeypatch):
    told_run(monkeypatch, study, [{"step": step, "distinct_share": step / 4} for step in (1, 2)], {"rollout": {"games_per_step": 32}})
    asked = []

    def ask(words):
        asked.extend(words)
        match = {"role": "X", "opponent": "random", "intervals": {"win": {"mean": 0.5}, "win_or_draw": {"mean": 0.75}}}
        own = {"distinct": 40, "commonest": 3, "illegal": {"mean": 0.25, "low": 0.125, "high": 0.5}}
        return json.dumps({"matches": [match], "self_plays": [own]})

    assert study.measured(tmp_path, "", ask, games=7, plays=9) == {
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
    assert asked == ["sparring", "evaluate", str(tmp_path), "--games", "7", "--opponent", "random", "--self-plays", "9", "--no-exact", "--json"]


def row(arm, *, differ=33, legal=0.95, x=0.75):
    """Return a row of two seeds; the figures given are those of seed 1, and seed 0 always reaches what is asked for."""
    values = {
        study.DIFFER: {"0": 64, "1": differ},
        study.COMMON: {"0": 1, "1": 65 - differ},
        study.LEGAL: {"0": 1.0, "1": legal},
        study.LOW: {"0": 1.0, "1": legal - 0.02},
        study.HIGH: {"0": 1.0, "1": legal + 0.01},
        "X against random, win_or_draw": {"0": 0.9, "1": x},
        "O against random, win_or_draw": {"0": 0.9, "1": 0.25},
        f"{study.ALONG}32": {"0": 1.0, "1": 0.5},
        f"{study.ALONG}64": {"0": 0.5, "1": 0.0},
        "seconds": {"0": 60.0, "1": 120.0},
    }
    return {"arm": arm, "starts": "all", "plays": 64, "games": 256, "values": values}


def start_row():
    """Return the start's row: half of the games in both seeds."""
    made = row(study.START)
    made["values"]["X against random, win_or_draw"] = {"0": 0.5, "1": 0.5}
    return made


@pytest.mark.parametrize(
    ("figures", "counts"),
    [({}, (2, 2, 2, 2)), ({"differ": 32}, (1, 2, 2, 1)), ({"legal": 0.949}, (2, 1, 2, 1)), ({"x": 0.5625}, (2, 2, 1, 1))],
)
def test_the_verdict_counts_seeds_that_reach_each_part_and_all_of_what_was_asked(figures, counts):
    said = page.verdict(Results({"rows": [start_row(), row("league", **figures)]}))
    differ, legal, share, every = counts
    assert f"**league**: different plays in {differ}, legal replies in {legal}, share as X in {share}, all three in {every} of 2 seeds." in said
    assert "**start**" not in said


def test_the_table_has_a_line_per_seed_with_intervals_and_the_chart_a_curve_per_arm_that_learns():
    results = Results({"rows": [start_row(), row("league", differ=40)]})
    lines = page.ends(results).splitlines()
    assert lines[0].startswith("| arm | seed | different plays of 64 | plays of the commonest course | legal replies | X wins or draws, of 256 |")
    assert lines[5] == "| league | 1 | 40 | 25 | 0.950 [0.930, 0.960] | 0.750 [0.694, 0.799] | 0.250 [0.201, 0.306] | 2 |"
    assert len(lines) == 6
    (chart,) = page.charts(results).values()
    assert "league" in chart and "start" not in chart
