"""What every solver that oracle posterior asks must keep: told nothing that its seat was not, of one shape."""

import inspect
import math
from pathlib import Path

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.solvers import solved_by
from tests.cases import every_case

ROOT = Path(__file__).parents[2]
NAMES = solved_by("posterior")
HEADINGS = ("What:", "When to use:", "Mathematics:", "Pitfalls:", "Reference:", "Verified by:")
CASES = [(name, prior) for name in NAMES for prior in ("uniform", "bank")]
IDS = [f"{name}-{prior}" for name, prior in CASES]


def solver(name):
    return load_part("environments", name, "solver")


def positions(name, plays=6):
    """Return states of random plays of a game."""
    game, root, out = make_game(name), Stream.from_seed(4), []
    for episode in range(plays):
        state, draws = game.reset(root.child("deal").child(episode)), root.child("draws").child(episode)
        while not state.done:
            out.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[draws.integer(state.plies, len(legal))])
    step = max(1, math.ceil(len(out) / 16))
    return out[::step]


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
    text = inspect.getdoc(plugin.function)
    assert [heading for heading in HEADINGS if heading not in text] == []
    for path in text.partition("Verified by:")[2].partition("\n\n")[0].replace("\n", " ").rstrip(". ").split(","):
        assert (ROOT / path.strip()).is_file(), path


@every_case(("name", "prior"), CASES, ids=IDS)
def test_shape_of_a_judgement(name, prior):
    judge = belief(name, prior)
    for state in positions(name):
        found = judge(state)
        assert len(found.values) == len(state.legal_actions())
        assert all(math.isfinite(value) for value in found.values)
        assert found.best is None or (len(found.best) == len(found.values) and any(found.best))
        assert 0.0 <= found.certainty <= 1.0
        assert math.isfinite(found.bound) and found.bound >= 0.0
        assert found.entropy is None or 0.0 <= found.entropy < math.inf


@every_case(("name", "prior"), CASES, ids=IDS)
def test_what_the_seat_cannot_tell_apart_is_judged_alike(name, prior):
    game, judge, root = make_game(name), belief(name, prior), Stream.from_seed(8)
    seen, alike, worlds = {}, 0, set()
    for episode in range(600):  # banks are large, and what a seat sees first can differ
        if alike >= 20:
            break
        state, draws = game.reset(root.child("deal").child(episode)), root.child("draws")  # the same draws in every play
        while not state.done and state.plies < 2:
            found, known = judge(state), state.game.key(state, state.seat)
            alike += known in seen
            worlds.add(str(state.spiel))
            assert seen.setdefault(known, found) == found
            legal = state.legal_actions()
            state.apply(legal[draws.integer(state.plies, len(legal))])
    assert alike >= 20 and len(worlds) > len(seen)


@every_case(("name", "prior"), CASES, ids=IDS)
def test_the_oracle_passes_a_judgement_on(name, prior):
    oracle, judge, states = registry.bind("oracles", "posterior", {"prior": prior})(), belief(name, prior), positions(name)
    for state, verdict in zip(states, oracle.judge(states), strict=True):
        found = judge(state)
        assert verdict.values == tuple(found.values)
        assert (verdict.certainty, verdict.bound, verdict.entropy) == (found.certainty, found.bound, found.entropy)


@every_case("name", [name for name in NAMES if hasattr(solver(name).module, "key")])
@every_case("prior", ["uniform", "bank"])
def test_equal_keys_mean_equal_judgements(name, prior):
    key, judge, seen = solver(name).module.key, belief(name, prior), {}
    for state in positions(name, plays=12):
        found = judge(state)
        assert seen.setdefault(key(state, prior=prior), found) == found
