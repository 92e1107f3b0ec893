"""What every solver that oracle constraint asks must keep: the same options, judgements of one shape."""

import inspect
import math
from pathlib import Path

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part, offering
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.solvers import has_reference, reference_of, solved_by
from tests.cases import every_case

ROOT = Path(__file__).parents[2]
NAMES = solved_by("constraint")
HEADINGS = ("What:", "When to use:", "Mathematics:", "Pitfalls:", "Reference:", "Verified by:")
CASES = [(name, options) for name in NAMES for options in ({}, {"right": "forced"}, {"lost": "solution"})]
IDS = [f"{name}-{'-'.join(options) or 'default'}" for name, options in CASES]


def solver(name):
    return load_part("environments", name, "solver")


def positions(name, plays=8, most=24):
    """Return states of random plays of a game."""
    game, root, out = make_game(name), Stream.from_seed(4), []
    for episode in range(plays):
        state, draws = game.reset(root.child("deal").child(episode)), root.child("draws").child(episode)
        while not state.done:
            out.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[draws.integer(state.plies, len(legal))])
    return out[:: max(1, math.ceil(len(out) / most))]


@pytest.mark.parametrize("name", NAMES)
def test_a_puzzle_is_a_game_and_says_what_it_is(name):
    assert name in registry.names("environments")
    plugin = solver(name)
    assert plugin.module.ORACLE == "constraint"
    assert make_game(name).spiel.get_type().short_name == name
    assert make_game(name).num_seats == 1
    assert list(plugin.options) == list(registry.load("oracles", "constraint").options)
    text = inspect.getdoc(plugin.function)
    assert [heading for heading in HEADINGS if heading not in text] == []
    for path in text.partition("Verified by:")[2].partition("\n\n")[0].replace("\n", " ").rstrip(". ").split(","):
        assert (ROOT / path.strip()).is_file(), path


@every_case(("name", "options"), CASES, ids=IDS)
def test_shape_of_a_judgement(name, options):
    judge, judged = registry.with_options(solver(name), options), 0
    for state in positions(name):
        found = judge(state)
        if found is None:
            continue
        judged += 1
        assert len(found.values) == len(state.legal_actions())
        assert all(state.game.min_utility <= value <= state.game.max_utility for value in found.values)
        assert found.best is None or (len(found.best) == len(found.values) and any(found.best))
        assert 0.0 <= found.certainty <= 1.0
        assert math.isfinite(found.bound) and found.bound >= 0.0
    assert judged


@pytest.mark.parametrize("name", NAMES)
def test_forced_moves_are_right(name):
    every, forced = (registry.with_options(solver(name), {"right": right}) for right in ("solution", "forced"))
    for state in positions(name):
        one, two = every(state), forced(state)
        assert (one is None) == (two is None)
        if one is not None:
            assert list(one.values) == list(two.values)
            top = max(one.values)
            assert two.best is None or all(value == top for value, ok in zip(two.values, two.best, strict=True) if ok)


@pytest.mark.parametrize("name", offering("environments", "solver", "def reference("))
def test_a_reference_solves_the_game_whenever_it_is_asked_for(name):
    game = make_game(name)
    for seed in range(6):
        state = game.reset(Stream.from_seed(seed))
        assert has_reference(game)
        plan = reference_of(state)
        later = state.clone()
        later.apply(next((word for word in state.legal_actions() if word != plan[0]), plan[0]))
        assert later.done or reference_of(later) == plan
        for word in plan:
            assert not state.done
            state.apply(word)
        assert state.done and state.returns == (game.max_utility,)
