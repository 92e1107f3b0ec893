"""The solver of urn against brute force, a closed form, and values by hand."""

from fractions import Fraction
from math import comb, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.urn.solver import UrnValues
from tests.environments.worlds import check_beliefs, load_solver, make_game_factory

game = make_game_factory("urn")
judge = load_solver("urn")


@pytest.mark.parametrize(
    "options",
    [
        {"urns": 2, "colours": 2, "draws": 6, "cost": 0.03, "sets": 3},
        {"urns": 3, "colours": 2, "draws": 5, "cost": 0.0, "sets": 2, "apart": 2},
        {"urns": 3, "colours": 3, "draws": 4, "cost": 0.01, "sets": 2, "balls": 7, "apart": 2},
        {"urns": 2, "colours": 4, "draws": 2, "cost": 0.5, "sets": 1, "balls": 6, "apart": 1},
    ],
    ids=["two", "three", "colours", "expensive"],
)
@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_values_and_entropy_match_brute_force(options, prior):
    check_beliefs(game(**options), judge, 12, 4, prior=prior)


@pytest.mark.parametrize("draws", [1, 3, 7, 15])
def test_free_draws_from_mirrored_urns_end_in_a_majority_vote(draws):
    values = UrnValues(((7, 3), (3, 7)), draws, 0.0)
    probability_correct = sum(
        comb(draws, red) * Fraction(7, 10) ** red * Fraction(3, 10) ** (draws - red)
        for red in range(draws // 2 + 1, draws + 1)
    )
    assert values.value((0, 0)) == pytest.approx(float(probability_correct), abs=1e-12)


def test_probabilities_and_values_by_hand():
    values = UrnValues(((7, 3), (3, 7)), 8, 0.0)
    assert values.chances((2, 1)) == pytest.approx([0.7, 0.3])  # 7 * 7 * 3 : 3 * 3 * 7 = 7 : 3
    assert values.chances((0, 0)) == [0.5, 0.5]
    assert UrnValues(((1, 4), (2, 3), (3, 2)), 8, 0.0).chances((1, 1)) == pytest.approx([4 / 16, 6 / 16, 6 / 16])
    values = UrnValues(((7, 3), (3, 7)), 1, 0.05)
    # 0.7 after the draw, less its cost; then no draw is left
    assert values.draw_value((0, 0)) == pytest.approx(0.65) and values.value((1, 0)) == pytest.approx(0.7)


def test_judgements_include_the_cost_of_earlier_draws():
    state = game(cost=0.4).reset(Stream.from_seed(0))
    judgement = judge(state)
    assert judgement.values[0] < 0.5 and judgement.values[1:] == [0.5, 0.5]
    assert judgement.entropy == pytest.approx(log(2))
    state.apply("draw")
    assert sum(judge(state).values[1:]) == pytest.approx(1.0 - 2 * 0.4)  # both declarations have paid the draw


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (2, 3)])
def test_values_depend_only_on_the_shares_of_colours(counts):
    few_balls, many_balls = UrnValues(((2, 3), (4, 1)), 6, 0.02), UrnValues(((4, 6), (8, 2)), 6, 0.02)
    assert few_balls.value(counts) == pytest.approx(many_balls.value(counts), abs=1e-12)


def test_the_largest_game_is_judged_exactly():
    state = game(urns=6, colours=4, balls=20, apart=4, draws=20, sets=1).reset(Stream.from_seed(0))
    judgement = judge(state)
    assert judgement.certainty == 1.0 and judgement.values[0] > max(judgement.values[1:])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_more_draws_or_a_lower_cost_never_hurt(data):
    num_urns = data.draw(st.integers(2, 4))
    num_colours = data.draw(st.integers(2, 3))
    contents = tuple(
        tuple(data.draw(st.lists(st.integers(1, 6), min_size=num_colours, max_size=num_colours)))
        for _ in range(num_urns)
    )
    num_balls = max(map(sum, contents))
    contents = tuple((*content[:-1], content[-1] + num_balls - sum(content)) for content in contents)
    cost = data.draw(st.sampled_from([0.0, 0.01, 0.1]))
    counts = tuple(data.draw(st.lists(st.integers(0, 2), min_size=num_colours, max_size=num_colours)))
    num_drawn = sum(counts)
    few_draws, more_draws, cheaper = (
        UrnValues(contents, num_drawn + 1, cost),
        UrnValues(contents, num_drawn + 3, cost),
        UrnValues(contents, num_drawn + 3, cost / 2),
    )
    assert (
        max(few_draws.chances(counts)) - 1e-12
        <= few_draws.value(counts)
        <= more_draws.value(counts) + 1e-12
        <= cheaper.value(counts) + 2e-12
        <= 1.0 + 3e-12
    )
