"""The solver of twenty questions against all worlds and all plays, by hand, its short cut against exact values, reductions."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from tests.environments import worlds
from tests.environments.worlds import check_beliefs, load_solver, make_game_factory

game = make_game_factory("twenty_questions")
belief = load_solver("twenty_questions")


SMALL = [
    {"objects": 4, "attributes": 2, "values": 2, "questions": 2, "tables": 2, "cost": 0.05, "noise": 0.2},
    {"objects": 3, "attributes": 1, "values": 3, "questions": 3, "tables": 1, "noise": 0.1},
    {"objects": 5, "attributes": 2, "values": 3, "questions": 2, "tables": 3, "cost": 0.3},
    {"objects": 6, "attributes": 2, "values": 3, "questions": 3, "tables": 2},
]


@pytest.mark.parametrize("options", SMALL, ids=["noise-cost", "noise", "cost", "plain"])
@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_values_and_entropy_are_those_of_all_worlds_and_plays(options, prior):
    check_beliefs(game(**options), belief, 10, 8, prior=prior)


def cube(**options):
    return game(objects=8, attributes=3, values=2, **options).reset(Stream.from_seed(0))


@pytest.mark.parametrize(("questions", "value"), [(1, 2 / 8), (2, 4 / 8), (3, 1.0), (7, 1.0)])
def test_halving_by_hand(questions, value):
    judgement = belief(cube(questions=questions))
    assert judgement.values == pytest.approx([value] * 6 + [1 / 8] * 8)
    assert judgement.entropy == pytest.approx(log(8))


def test_values_by_hand_and_large_games():
    state = cube(questions=3, cost=0.1)
    assert max(belief(state).values) == pytest.approx(0.7)
    state.apply("red")
    state.apply("red")  # tells nothing new
    result = dict(zip(state.legal_actions(), belief(state).values, strict=True))
    assert result["red"] == pytest.approx(0.25 - 0.3) and result["small"] == pytest.approx(0.5 - 0.3)
    assert sorted(set(result.values()))[:1] == [pytest.approx(-0.2)]  # to guess what cannot be it
    result = belief(cube(questions=3, cost=0.5))
    assert max(result.values[:6]) == pytest.approx(2 / 8 - 0.5) and result.values[6] == 1 / 8
    state = game(objects=2, attributes=1, values=2, questions=3, noise=0.25, tables=1).reset(Stream.from_seed(0))
    result = dict(zip(state.legal_actions(), belief(state).values, strict=True))
    right = 0.75**3 + 3 * 0.75**2 * 0.25  # the majority of three answers
    assert result["red"] == pytest.approx(right) and result["green"] == pytest.approx(right)
    state.apply("red")
    posterior = sorted(belief(state).values[-2:])
    assert posterior == pytest.approx([0.25, 0.75])
    assert belief(state).entropy == pytest.approx(-0.25 * log(0.25) - 0.75 * log(0.75))
    truthful, noisy = game(questions=2), game(questions=2, noise=1e-10)
    for exact_state, other in zip(
        worlds.sample_states(truthful, 6, seed=2), worlds.sample_states(noisy, 6, seed=2), strict=False
    ):
        if exact_state.legal_actions() == other.legal_actions() and exact_state.observe(0).key == other.observe(0).key:
            assert belief(exact_state).values == pytest.approx(belief(other).values, abs=1e-6)
    state = game(objects=27, attributes=3, values=3, questions=5, tables=1).reset(Stream.from_seed(0))
    result = belief(state, beliefs=100)
    assert result.certainty == 0.5 and result.bound > 0.0
    assert len({round(value, 12) for value in result.values[:9]}) == 1  # a third against two thirds, each of them
    for _ in range(2):
        state.apply("red")
    judgement = belief(state, beliefs=100)
    wasted = judgement.values[state.legal_actions().index("red")]
    assert wasted == min(judgement.values[:9]) < max(judgement.values[:9])
    state = game(objects=32, attributes=5, values=4, questions=20, noise=0.1, cost=0.01).reset(Stream.from_seed(0))
    while not state.done:
        result = belief(state, beliefs=2000)
        assert result.certainty in (0.5, 1.0) and (result.bound == 0.0) == (result.certainty == 1.0)
        state.apply(state.legal_actions()[max(range(len(result.values)), key=result.values.__getitem__)])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_short_cut_is_within_its_bound_and_says_that_it_is_one(data):
    environment = game(
        objects=data.draw(st.integers(2, 6)),
        attributes=2,
        values=3,
        questions=data.draw(st.integers(1, 3)),
        noise=data.draw(st.sampled_from([0.0, 0.1, 0.4])),
        cost=data.draw(st.sampled_from([0.0, 0.02, 0.2])),
        tables=3,
    )
    for state in worlds.sample_states(environment, 2, seed=data.draw(st.integers(0, 99))):
        exact, short = belief(state), belief(state, beliefs=1)
        assert exact.certainty == 1.0 and exact.bound == 0.0
        assert all(abs(a - b) <= short.bound + 1e-9 for a, b in zip(exact.values, short.values, strict=True))
        open_question = state.spiel.table.num_asked < environment.spiel.opening.questions and exact.entropy > 0.0
        assert short.certainty == (0.5 if open_question else 1.0)
        assert short.entropy == exact.entropy
