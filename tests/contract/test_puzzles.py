"""The contract of solvers for the oracle constraint: equal options, the shape of judgements, and references."""

import math

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part, names_with_line_in_part
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.solvers import games_of_oracle, has_reference, reference_of
from tests.cases import every_case
from tests.contract.positions import positions

NAMES = games_of_oracle("constraint")
CASES = [(name, options) for name in NAMES for options in ({}, {"right": "forced"}, {"lost": "solution"})]
IDS = [f"{name}-{'-'.join(options) or 'default'}" for name, options in CASES]


def solver(name):
    return load_part("environments", name, "solver")


@pytest.mark.parametrize("name", NAMES)
def test_a_solver_names_its_puzzle_and_its_oracle(name):
    assert name in registry.names("environments")
    plugin = solver(name)
    assert plugin.module.ORACLE == "constraint"
    assert make_game(name).spiel.get_type().short_name == name
    assert make_game(name).num_seats == 1
    assert list(plugin.options) == list(registry.load("oracles", "constraint").options)


@every_case(("name", "options"), CASES, ids=IDS)
def test_shape_of_a_judgement(name, options):
    judge, num_judged = registry.with_options(solver(name), options), 0
    for state in positions(make_game(name), plays=8, most=24):
        judgement = judge(state)
        if judgement is None:
            continue
        num_judged += 1
        assert len(judgement.values) == len(state.legal_actions())
        assert all(state.game.min_utility <= value <= state.game.max_utility for value in judgement.values)
        assert judgement.best is None or (len(judgement.best) == len(judgement.values) and any(judgement.best))
        assert 0.0 <= judgement.certainty <= 1.0
        assert math.isfinite(judgement.bound) and judgement.bound >= 0.0
    assert num_judged


@pytest.mark.parametrize("name", NAMES)
def test_forced_moves_are_right(name):
    judge_solution, judge_forced = (
        registry.with_options(solver(name), {"right": right}) for right in ("solution", "forced")
    )
    for state in positions(make_game(name), plays=8, most=24):
        solution, forced_judgement = judge_solution(state), judge_forced(state)
        assert (solution is None) == (forced_judgement is None)
        if solution is not None:
            assert list(solution.values) == list(forced_judgement.values)
            top = max(solution.values)
            assert forced_judgement.best is None or all(
                value == top
                for value, is_best in zip(forced_judgement.values, forced_judgement.best, strict=True)
                if is_best
            )


@pytest.mark.parametrize("name", names_with_line_in_part("environments", "solver", "def reference("))
def test_a_reference_solves_the_puzzle_also_after_another_move(name):
    game = make_game(name)
    for seed in range(6):
        state = game.reset(Stream.from_seed(seed))
        assert has_reference(game)
        plan = reference_of(state)
        state_after = state.clone()
        state_after.apply(next((word for word in state.legal_actions() if word != plan[0]), plan[0]))
        assert state_after.done or reference_of(state_after) == plan
        for word in plan:
            assert not state.done
            state.apply(word)
        assert state.done and state.returns == (game.max_utility,)
