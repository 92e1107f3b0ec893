"""The contract of meta-solvers, and solvers that the public check refuses."""

import numpy as np
import pytest

from sparring.config.plugins import registry
from sparring.core.errors import GameError, PluginError
from sparring.league.meta_game import MetaStrategy
from sparring.testing import check_meta_solver
from tests.cases import every_case

NAMES = registry.names("league.meta_solvers")
QUICK = {"steps": 30, "rounds": 30}  # instead of thousands by default


@every_case("name", NAMES)
def test_the_public_check_passes(name):
    plugin = registry.load("league.meta_solvers", name)
    quick = {key: value for key, value in QUICK.items() if key in plugin.options}
    for preset in (None, *plugin.presets):
        check_meta_solver(registry.bind("league.meta_solvers", name, quick, preset=preset), games=15)


CALLS = []


def answer_by_call(game):
    CALLS.append(game)
    return MetaStrategy(sides=tuple(np.eye(size)[len(CALLS) % size] for size in game.shape))


def change_the_payoffs(game):
    game.payoffs[0][0, 0] += 1
    return MetaStrategy(sides=tuple(np.eye(size)[0] for size in game.shape))


def raise_an_error(game):
    raise GameError("no")


def not_normalised(game):
    return MetaStrategy(sides=tuple(np.ones(size) for size in game.shape))


@pytest.mark.parametrize(
    ("solver", "error", "message"),
    [
        (answer_by_call, AssertionError, "must answer equal requests equally"),
        (change_the_payoffs, AssertionError, "must not change the payoffs"),
        (raise_an_error, GameError, "no"),
        (not_normalised, PluginError, "sum to 1"),
    ],
)
def test_a_solver_that_breaks_the_contract_is_refused(solver, error, message):
    with pytest.raises(error, match=message):
        check_meta_solver(solver)
