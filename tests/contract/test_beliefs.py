"""What every solver that oracle posterior asks must keep: told nothing that its seat was not, of one shape."""

import math

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.solvers import solved_by
from tests.cases import every_case
from tests.contract.positions import positions

NAMES = solved_by("posterior")
CASES = [(name, prior) for name in NAMES for prior in ("uniform", "bank")]
IDS = [f"{name}-{prior}" for name, prior in CASES]


def solver(name):
    return load_part("environments", name, "solver")


def belief(name, prior):
    bound = registry.with_options(solver(name), {"prior": prior})
    return lambda state: bound(state)


@pytest.mark.parametrize("name", NAMES)
def test_a_belief_is_about_a_game_and_says_what_it_is(name):
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
def test_what_the_seat_cannot_tell_apart_is_judged_alike(name, prior):
    game, judge, root = make_game(name), belief(name, prior), Stream.from_seed(8)
    seen, alike, worlds = {}, 0, set()
    for episode in range(600):  # banks are large, and what a seat sees first can differ
        if alike >= 20:
            break
        state, draws = (
            game.reset(root.child("deal").child(episode)),
            root.child("draws"),
        )  # the same draws in every play
        while not state.done and state.plies < 2:
            judgement, known = judge(state), state.game.key(state, state.seat)
            alike += known in seen
            worlds.add(str(state.spiel))
            assert seen.setdefault(known, judgement) == judgement
            legal = state.legal_actions()
            state.apply(legal[draws.integer(state.plies, len(legal))])
    assert alike >= 20 and len(worlds) > len(seen)


@every_case(("name", "prior"), CASES, ids=IDS)
def test_the_oracle_passes_a_judgement_on(name, prior):
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
    key, judge, seen = solver(name).module.key, belief(name, prior), {}
    for state in positions(make_game(name), plays=12):
        judgement = judge(state)
        assert seen.setdefault(key(state, prior=prior), judgement) == judgement
