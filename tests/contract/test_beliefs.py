"""The contract of solvers for the oracle posterior: the shape of judgements, and only knowledge of the seat is used."""

import math

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.solvers import games_of_oracle
from tests.cases import every_case
from tests.contract.positions import positions

NAMES = games_of_oracle("posterior")
CASES = [(name, prior) for name in NAMES for prior in ("uniform", "bank")]
IDS = [f"{name}-{prior}" for name, prior in CASES]


def solver(name):
    return load_part("environments", name, "solver")


def belief(name, prior):
    bound = registry.with_options(solver(name), {"prior": prior})
    return lambda state: bound(state)


@pytest.mark.parametrize("name", NAMES)
def test_a_solver_names_its_game_and_its_oracle(name):
    assert name in registry.names("environments")
    plugin = solver(name)
    assert plugin.module.ORACLE == "posterior"
    assert make_game(name).spiel.get_type().short_name == name
    assert "prior" in plugin.options


@every_case(("name", "prior"), CASES, ids=IDS)
def test_shape_of_a_judgement(name, prior):
    judge = belief(name, prior)
    for state in positions(make_game(name)):
        judgement = judge(state)
        assert len(judgement.values) == len(state.legal_actions())
        assert all(math.isfinite(value) for value in judgement.values)
        assert judgement.best is None or (len(judgement.best) == len(judgement.values) and any(judgement.best))
        assert 0.0 <= judgement.certainty <= 1.0
        assert math.isfinite(judgement.bound) and judgement.bound >= 0.0
        assert judgement.entropy is None or 0.0 <= judgement.entropy < math.inf


@every_case(("name", "prior"), CASES, ids=IDS)
def test_equal_information_has_equal_judgements(name, prior):
    game, judge, root = make_game(name), belief(name, prior), Stream.from_seed(8)
    judgements, num_repeated, worlds = {}, 0, set()
    for episode in range(600):  # many, as first observations differ in large banks
        if num_repeated >= 20:
            break
        # the same random actions in every episode
        state, stream = (
            game.reset(root.child("deal").child(episode)),
            root.child("draws"),
        )
        while not state.done and state.plies < 2:
            judgement, key = judge(state), state.game.key(state, state.seat)
            num_repeated += key in judgements
            worlds.add(str(state.spiel))
            assert judgements.setdefault(key, judgement) == judgement
            legal = state.legal_actions()
            state.apply(legal[stream.integer(state.plies, len(legal))])
    assert num_repeated >= 20 and len(worlds) > len(judgements)


@every_case(("name", "prior"), CASES, ids=IDS)
def test_the_oracle_returns_the_judgement_of_the_solver(name, prior):
    oracle, judge, states = (
        registry.bind("oracles", "posterior", {"prior": prior})(),
        belief(name, prior),
        positions(make_game(name)),
    )
    for state, verdict in zip(states, oracle.judge(states), strict=True):
        judgement = judge(state)
        assert verdict.values == tuple(judgement.values)
        assert (verdict.certainty, verdict.bound, verdict.entropy) == (
            judgement.certainty,
            judgement.bound,
            judgement.entropy,
        )


@every_case("name", [name for name in NAMES if hasattr(solver(name).module, "key")])
@every_case("prior", ["uniform", "bank"])
def test_equal_keys_mean_equal_judgements(name, prior):
    key, judge, judgements = solver(name).module.key, belief(name, prior), {}
    for state in positions(make_game(name), plays=12):
        judgement = judge(state)
        assert judgements.setdefault(key(state, prior=prior), judgement) == judgement
