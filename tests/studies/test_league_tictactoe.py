"""The study of tic-tac-toe in a league: what is kept of a run, and what its page says of it."""

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
    ask = Commands({"matches": [match]})
    figures = study.measured(tmp_path, "", ask, games=7)
    assert figures == {
        "X against random, win": 0.5,
        "X against random, win_or_draw": 0.75,
        "distinct plays": 0.2,
        "X against random, win_or_draw after 100": 0.25,
        "X against random, win_or_draw after 200": 0.5,
    }
    assert ask.words[:5] == ["sparring", "evaluate", str(tmp_path), "--games", "7"]
    assert ask.words[-4:] == ["--opponent", "random", "--opponent", "mcts simulations=100"]


def row(arm, *shares):
    """Return a row of two seeds; the shares are those of seed 1, and seed 0 always reaches what is asked for."""
    values = {name: {"0": 1.0, "1": share} for name, share in zip(NAMES, shares, strict=True)}
    return {"arm": arm, "starts": "all", "values": {**values, "seconds": {"0": 60.0, "1": 120.0}}}


@pytest.mark.parametrize(
    ("shares", "reached"), [((0.97, 0.97, 0.9, 0.9), 2), ((0.97, 0.96, 0.9, 0.9), 1), ((1.0, 1.0, 1.0, 0.89), 1)]
)
def test_the_verdict_counts_seeds_in_which_both_roles_reach_what_is_asked(shares, reached):
    text = page.verdict(Results({"rows": [row("league", *shares)]}))
    assert f"by the league: {reached} of 2 seeds" in text
    assert f"{min(shares[:2]):.3f} against random play, {min(shares[2:]):.3f} against MCTS" in text
