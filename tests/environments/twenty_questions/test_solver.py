"""The solver of twenty questions against brute force and by hand; its approximation; large games."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from tests.environments import worlds
from tests.environments.worlds import check_beliefs, load_solver, make_game_factory

game = make_game_factory("twenty_questions")
judge = load_solver("twenty_questions")


SMALL_GAMES = [
    {"objects": 4, "attributes": 2, "values": 2, "questions": 2, "tables": 2, "cost": 0.05, "noise": 0.2},
    {"objects": 3, "attributes": 1, "values": 3, "questions": 3, "tables": 1, "noise": 0.1},
    {"objects": 5, "attributes": 2, "values": 3, "questions": 2, "tables": 3, "cost": 0.3},
    {"objects": 6, "attributes": 2, "values": 3, "questions": 3, "tables": 2},
]


@pytest.mark.parametrize("options", SMALL_GAMES, ids=["noise-cost", "noise", "cost", "plain"])
@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_values_and_entropy_match_brute_force(options, prior):
    check_beliefs(game(**options), judge, 10, 8, prior=prior)


def start_cube(**options):
    return game(objects=8, attributes=3, values=2, **options).reset(Stream.from_seed(0))


@pytest.mark.parametrize(("questions", "value"), [(1, 2 / 8), (2, 4 / 8), (3, 1.0), (7, 1.0)])
def test_values_of_halving_questions_by_hand(questions, value):
    judgement = judge(start_cube(questions=questions))
    assert judgement.values == pytest.approx([value] * 6 + [1 / 8] * 8)
    assert judgement.entropy == pytest.approx(log(8))


def test_values_with_a_cost_by_hand():
    state = start_cube(questions=3, cost=0.1)
    assert max(judge(state).values) == pytest.approx(0.7)
    state.apply("red")
    state.apply("red")  # a repeated question gives no information
    values = dict(zip(state.legal_actions(), judge(state).values, strict=True))
    assert values["red"] == pytest.approx(0.25 - 0.3) and values["small"] == pytest.approx(0.5 - 0.3)
    assert sorted(set(values.values()))[:1] == [pytest.approx(-0.2)]  # an impossible guess
    judgement = judge(start_cube(questions=3, cost=0.5))
    assert max(judgement.values[:6]) == pytest.approx(2 / 8 - 0.5) and judgement.values[6] == 1 / 8


def test_values_with_noise_by_hand():
    state = game(objects=2, attributes=1, values=2, questions=3, noise=0.25, tables=1).reset(Stream.from_seed(0))
    values = dict(zip(state.legal_actions(), judge(state).values, strict=True))
    probability_correct = 0.75**3 + 3 * 0.75**2 * 0.25  # the majority of three answers
    assert values["red"] == pytest.approx(probability_correct) and values["green"] == pytest.approx(probability_correct)
    state.apply("red")
    posterior = sorted(judge(state).values[-2:])
    assert posterior == pytest.approx([0.25, 0.75])
    assert judge(state).entropy == pytest.approx(-0.25 * log(0.25) - 0.75 * log(0.75))


def test_tiny_noise_hardly_changes_values():
    exact_rules, noisy_rules = game(questions=2), game(questions=2, noise=1e-10)
    for exact_state, noisy_state in zip(
        worlds.sample_states(exact_rules, 6, seed=2), worlds.sample_states(noisy_rules, 6, seed=2), strict=False
    ):
        if (
            exact_state.legal_actions() == noisy_state.legal_actions()
            and exact_state.observe(0).key == noisy_state.observe(0).key
        ):
            assert judge(exact_state).values == pytest.approx(judge(noisy_state).values, abs=1e-6)


def test_approximate_values_of_equal_and_repeated_questions():
    state = game(objects=27, attributes=3, values=3, questions=5, tables=1).reset(Stream.from_seed(0))
    judgement = judge(state, beliefs=100)
    assert judgement.certainty == 0.5 and judgement.bound > 0.0
    assert (
        len({round(value, 12) for value in judgement.values[:9]}) == 1
    )  # every question splits the objects 1/3 to 2/3
    for _ in range(2):
        state.apply("red")
    judgement = judge(state, beliefs=100)
    repeated_value = judgement.values[state.legal_actions().index("red")]
    assert repeated_value == min(judgement.values[:9]) < max(judgement.values[:9])


def test_the_largest_game_is_judged_throughout():
    state = game(objects=32, attributes=5, values=4, questions=20, noise=0.1, cost=0.01).reset(Stream.from_seed(0))
    while not state.done:
        judgement = judge(state, beliefs=2000)
        assert judgement.certainty in (0.5, 1.0) and (judgement.bound == 0.0) == (judgement.certainty == 1.0)
        state.apply(state.legal_actions()[max(range(len(judgement.values)), key=judgement.values.__getitem__)])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_approximate_values_are_within_their_bound(data):
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
        exact, approximate = judge(state), judge(state, beliefs=1)
        assert exact.certainty == 1.0 and exact.bound == 0.0
        assert all(
            abs(a - b) <= approximate.bound + 1e-9 for a, b in zip(exact.values, approximate.values, strict=True)
        )
        can_ask = state.spiel.table.num_questions_asked < environment.spiel.opening.questions and exact.entropy > 0.0
        assert approximate.certainty == (0.5 if can_ask else 1.0)
        assert approximate.entropy == exact.entropy
