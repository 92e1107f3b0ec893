"""A league that cannot work is refused before a run is begun."""

import logging

import pytest

import sparring
from sparring.config import resolve
from sparring.core.errors import ConfigError, PluginError
from sparring.engine.local import LocalEngine
from sparring.run.payoff_plays import check_league
from tests.run_with_members import BASE

THREE = [{"name": "kuhn_poker", "options": {"players": 3}}]


def checked(**changes):
    config = resolve({**BASE, **changes})
    check_league(config, LocalEngine(config).environments)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"league": {**BASE["league"], "answer": "nash"}}, "league.answer"),
        ({"matchmaker": {"name": "meta_strategy"}}, "matchmaker.solver"),
        ({"matchmaker": {"name": "meta_strategy", "solver": {"name": "pfsp"}}}, "matchmaker.solver"),
    ],
)
def test_a_solver_of_two_teams_is_refused_at_the_start_and_nothing_is_written(
    tmp_path, changes, where
):
    with pytest.raises(ConfigError, match=f"{where}: the meta-solver .* is for two teams, and 'kuhn_poker' has 3; write"):
        sparring.train({**BASE, "environments": THREE, **changes}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    checked(**changes)  # two teams


def test_a_held_out_environment_may_have_more_teams():
    checked(
        environments=[ {"name": "kuhn_poker"}, {"name": "kuhn_poker", "label": "three", "weight": 0, "options": {"players": 3}}, ],
        league={**BASE["league"], "answer": "nash"},
    )


APART = {"name": "meta_strategy", "solver": "uniform", "sides": "apart"}
LEARNERS = {"main": {}, "exploiter": {"matchmaker": APART}}


@pytest.mark.parametrize(
    ("changes", "where"),
    [ ({"matchmaker": APART}, "matchmaker.sides"), ( {"league": {**BASE["league"], "learners": LEARNERS}}, "league.learners.exploiter.matchmaker.sides", ), ],
)
def test_sides_apart_are_refused_at_the_start_where_there_are_not_two(tmp_path, changes, where):
    told = f"{where}: apart is for two sides, and 'kuhn_poker' has 3; write sides: together"
    with pytest.raises(ConfigError, match=told):
        sparring.train({**BASE, "environments": THREE, **changes}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match="'sudoku' has 1"):
        checked(environments=[{"name": "sudoku"}], **changes)
    checked(**changes)  # two seats
    checked(environments=[{"name": "team_matrix"}], **changes)  # two teams
    checked(environments=[{"name": "signalling"}], **changes)  # one team of two seats


def test_a_held_out_environment_of_three_sides_is_refused_where_the_answer_is_measured_in_it():
    both = [{"name": "kuhn_poker"}, {**THREE[0], "label": "three", "weight": 0}]
    checked(environments=both, matchmaker=APART)
    league = {**BASE["league"], "answer": "uniform"}
    with pytest.raises(ConfigError, match=r"'three' \(held out, and measured\) has 3"):
        checked(environments=both, matchmaker=APART, league=league)
    checked(environments=both, league=league)


@pytest.mark.parametrize(("solver", "plays", "warned"), [("nash", 0, True), ("nash", 5, False), ("uniform", 0, False)])
def test_members_that_never_meet_are_warned_of(caplog, solver, plays, warned):
    with caplog.at_level(logging.WARNING):
        checked(matchmaker={"name": "meta_strategy", "solver": solver}, league={**BASE["league"], "plays": plays})
    assert ("matchmaker.solver: the members never meet" in caplog.text) == warned


@pytest.mark.parametrize("weights", ["[0.5] * n", "[-1.0, 2.0] + [0.0] * (n - 2)", "[float('nan')] * n", "[1.0] * (n + 1)"])
def test_a_solver_from_outside_that_gives_no_distribution_costs_nothing(
    tmp_path, monkeypatch, weights
):
    """The step that asked is not saved; the checkpoint before it is whole, and goes on with another answer."""
    (tmp_path / "wrong_solver.py").write_text(
        "import numpy as np\nfrom sparring.league.meta_solvers.base import MetaStrategy\n\nSLOT = 'league.meta_solvers'\n\n\n"
        f"def wrong_solver(game):\n    n = len(game.payoffs[0])\n    if n < 3:\n        return MetaStrategy(sides=(np.eye(n)[0],) * 2)\n"
        f"    return MetaStrategy(sides=(np.array({weights}),) * 2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "wrong_solver", raising=False)
    league = {"every": 1, "start": True, "answer": "wrong_solver.wrong_solver"}
    setting = {**BASE, "league": league, "evaluation": {"exact": False, "every": 1}, "checkpoint": {"every": 1}}
    with pytest.raises(PluginError, match=r"wrong_solver.*(sum to 1|weight per member).*step 2 of 2.*step 1"):
        sparring.train(setting, run=tmp_path / "run")
    kept = sparring.load_run(tmp_path / "run")
    assert kept.step == 1 and len(kept.answer("uniform").members) == 2
