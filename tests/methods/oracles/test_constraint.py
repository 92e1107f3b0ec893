"""The constraint oracle finds a puzzle's solver by the game's name, passes on what it says, and refuses the rest."""

import sys

import pytest
from tests.methods.oracles.positions import played

from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part
from sparring.core.errors import ConfigError, OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.solvers import solved_by

OPTIONS = [{}, {"right": "forced"}, {"lost": "solution"}]


def oracle(**options):
    return registry.bind("oracles", "constraint", options)()


@pytest.mark.parametrize("options", OPTIONS, ids=["default", "forced", "lost"])
@pytest.mark.parametrize("name", solved_by("constraint"))
def test_it_passes_on_what_the_file_of_the_game_says(name, options):
    states, judge, abstained = played(make_game(name), number=6), oracle(**options), 0
    solve = registry.with_options(load_part("environments", name, "solver"), options)
    for state, found in zip(states, judge.judge(states), strict=True):
        said = solve(state)
        abstained += said is None
        if said is None or found is None:
            assert said is found
            continue
        assert found.actions == state.legal_actions() and found.values == pytest.approx(list(said.values))
        assert (found.certainty, found.bound) == (said.certainty, said.bound)
        top = max(said.values)
        best = said.best if said.best is not None else [value == pytest.approx(top) for value in said.values]
        assert found.best == {word for word, ok in zip(found.actions, best, strict=True) if ok}
    assert (judge.metrics["judged"], judge.metrics["abstained"]) == (len(states), abstained)


def test_one_oracle_judges_several_puzzles_in_turn():
    games = [make_game(name) for name in solved_by("constraint")]
    starts = [game.reset(Stream.from_seed(seed)) for seed in range(3) for game in games]
    judge = oracle()
    assert judge.judge(starts) == [oracle().judge([state])[0] for state in starts] == judge.judge(starts)


def test_other_games_and_a_missing_solver_are_refused(monkeypatch):
    with pytest.raises(OracleError, match=r"constraint.*sudoku"):
        oracle().judge([make_game("tic_tac_toe").reset(Stream.from_seed(0))])
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(ConfigError, match="pip install 'sparring\\[oracles\\]'"):
        oracle(solver="z3")
