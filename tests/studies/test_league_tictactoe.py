"""The study of tic-tac-toe in a league: what is kept of a run, and what its page says of it."""

import json

import pytest

from studies.common.result_figures import Results
from studies.league_tictactoe import study
from studies.league_tictactoe import tables as page
from tests.studies.told_run import told_run

NAMES = [study.figure(role, to, "win_or_draw") for to in study.OPPONENTS for role in page.ROLES]


def test_an_evaluation_is_kept_by_its_plays_and_other_figures_are_not():
    line = {"step": 3, "loss": 0.1, "match/tic_tac_toe/mcts/O/win_or_draw": 0.25, "match/tic_tac_toe/mcts/O/win_or_draw_low": 0.1, "match/tic_tac_toe/mcts/O/win": 0.2}
    assert study.on_the_way(line, 64) == [("O against mcts, win_or_draw after 192", 0.25)]


def test_a_run_is_measured_by_the_matches_of_the_page(tmp_path, monkeypatch):
    lines = [{"step": step, "distinct_share": step / 10, "match/tic_tac_toe/random/X/win_or_draw": step / 4} for step in (1, 2)]
    told_run(monkeypatch, study, lines, {"rollout": {"games_per_step": 100}})
    asked = []

    def ask(words):
        asked.extend(words)
        match = {"role": "X", "opponent": "random", "intervals": {"win": {"mean": 0.5}, "win_or_draw": {"mean": 0.75}}}
        return json.dumps({"matches": [match]})

    found = study.measured(tmp_path, "", ask, games=7)
    assert found == {
        "X against random, win": 0.5,
        "X against random, win_or_draw": 0.75,
        "distinct plays": 0.2,
        "X against random, win_or_draw after 100": 0.25,
        "X against random, win_or_draw after 200": 0.5,
    }
    assert asked[:5] == ["sparring", "evaluate", str(tmp_path), "--games", "7"]
    assert asked[-4:] == ["--opponent", "random", "--opponent", "mcts simulations=100"]


def row(arm, *shares):
    """Return a row of two seeds; the shares are those of seed 1, and seed 0 always reaches what is asked for."""
    values = {name: {"0": 1.0, "1": share} for name, share in zip(NAMES, shares, strict=True)}
    later = {f"{name} after {plays}": {"0": plays / 100, "1": 0.0} for name in NAMES for plays in (50, 100)}
    rest = {"seconds": {"0": 60.0, "1": 120.0}, "distinct plays": {"0": 1.0, "1": 0.5}}
    return {"arm": arm, "starts": "all", "values": values | later | rest}


@pytest.mark.parametrize(("shares", "reached"), [((0.97, 0.97, 0.9, 0.9), 2), ((0.97, 0.96, 0.9, 0.9), 1), ((1.0, 1.0, 1.0, 0.89), 1)])
def test_the_verdict_counts_seeds_in_which_both_roles_reach_what_is_asked(shares, reached):
    said = page.verdict(Results({"rows": [row("league", *shares)]}))
    assert f"by the league: {reached} of 2 seeds" in said
    assert f"{min(shares[:2]):.3f} against random play, {min(shares[2:]):.3f} against MCTS" in said


def test_the_table_has_a_line_per_seed_and_the_chart_a_curve_per_arm_and_role():
    results = Results({"rows": [row("league", 0.1, 0.2, 0.3, 0.4), row("mirror", 0.5, 0.6, 0.7, 0.8)]})
    lines = page.ends(results).splitlines()
    assert lines[3] == "| league | 1 | 0.100 | 0.200 | 0.300 | 0.400 | 50% | 2 |"
    assert len(lines) == 6
    assert page.curve(results.rows()[0], f"{NAMES[0]} after ") == [(50, 0.25), (100, 0.5)]
    charts = page.charts(results)
    assert sorted(charts) == ["league-tictactoe-mcts.svg", "league-tictactoe-random.svg"]
    assert all(f"{arm}, {role}" in chart for chart in charts.values() for arm in study.ARMS for role in page.ROLES)
