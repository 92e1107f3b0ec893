"""The study of a tic-tac-toe league: figures of a run, and the page."""

import pytest

from studies.common.result_figures import Results
from studies.league_tictactoe import study
from studies.league_tictactoe import tables as page
from tests.studies.builders import Commands, stub_run

NAMES = [study.figure(role, to, "win_or_draw") for to in study.OPPONENTS for role in page.ROLES]


def test_a_run_is_measured_by_the_matches_of_the_page(tmp_path, monkeypatch):
    lines = [
        {"step": step, "distinct_share": step / 10, "match/tic_tac_toe/random/X/win_or_draw": step / 4}
        for step in (1, 2)
    ]
    stub_run(monkeypatch, study, lines, {"rollout": {"games_per_step": 100}})
    match = {"role": "X", "opponent": "random", "intervals": {"win": {"mean": 0.5}, "win_or_draw": {"mean": 0.75}}}
    commands = Commands({"matches": [match]})
    figures = study.run_figures(tmp_path, "", commands, games=7)
    assert figures == {
        "X against random, win": 0.5,
        "X against random, win_or_draw": 0.75,
        "distinct plays": 0.2,
        "X against random, win_or_draw after 100": 0.25,
        "X against random, win_or_draw after 200": 0.5,
    }
    assert commands.words[:5] == ["sparring", "evaluate", str(tmp_path), "--games", "7"]
    assert commands.words[-4:] == ["--opponent", "random", "--opponent", "mcts simulations=100"]


def row(arm, *shares):
    """Return a row of two seeds: seed 0 always reaches the goal, seed 1 has the given shares."""
    values = {name: {"0": 1.0, "1": share} for name, share in zip(NAMES, shares, strict=True)}
    return {"arm": arm, "starts": "all", "values": {**values, "seconds": {"0": 60.0, "1": 120.0}}}


@pytest.mark.parametrize(
    ("shares", "num_reached"), [((0.97, 0.97, 0.9, 0.9), 2), ((0.97, 0.96, 0.9, 0.9), 1), ((1.0, 1.0, 1.0, 0.89), 1)]
)
def test_the_verdict_counts_seeds_in_which_both_roles_reach_the_goal(shares, num_reached):
    text = page.verdict_text(Results({"rows": [row("league", *shares)]}))
    assert f"The league reaches it in {num_reached} of 2 seeds" in text
    assert f"{min(shares[:2]):.3f} against random play, {min(shares[2:]):.3f} against MCTS" in text
