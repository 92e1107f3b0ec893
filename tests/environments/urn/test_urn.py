"""Urn: sets of urns in a bank, draws with replacement, payoffs and prompts."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sparring.core.errors import ConfigError, GameError
from sparring.environments.urn import COLOURS, NAMES, UrnOptions, UrnTable, distance, urns_of
from tests.environments.worlds import make_game_factory, make_refusal_test, start

game = make_game_factory("urn")


def test_distances_by_hand_and_sets_that_do_not_exist():
    assert distance((7, 3), (7, 3)) == 0 and distance((7, 3), (3, 7)) == 4 and distance((5, 4, 1), (3, 3, 4)) == 3
    with pytest.raises(ConfigError, match="apart=9"):
        game(apart=9)
    with pytest.raises(ConfigError, match="urn: there are no 6 urns"):
        game(urns=6, balls=4, apart=1)
    assert {frozenset(urns_of(3, 2, 7, 2, 0, number)) for number in range(30)} >= {frozenset({(1, 6), (3, 4), (5, 2)})}


def test_prompts_and_keys_hide_the_urn_and_draws_are_limited():
    states = [start(game(sets=1), seed) for seed in range(20)]
    # one prompt for both hidden urns
    assert len({state.observe(0) for state in states}) == 1 and len({str(state.spiel) for state in states}) == 2
    first_table, second_table = (
        UrnTable(UrnOptions(balls=3, apart=1, draws=4, cost=0.0, sets=1), ((1, 2), (2, 1)), hidden).after(0).after(1)
        for hidden in (0, 1)
    )
    assert first_table.key(0) == second_table.key(0) and str(first_table) != str(second_table)
    assert first_table.chances() == [1 / 3, 2 / 3] and second_table.chances() == [2 / 3, 1 / 3]
    state = start(game(draws=1))
    state.apply("draw")
    with pytest.raises(GameError, match="not legal"):
        state.apply("draw")


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_urns_of_a_set_hold_every_colour_and_differ(data):
    num_colours = data.draw(st.integers(2, 4))
    num_balls, num_urns = data.draw(st.integers(num_colours + 2, 20)), data.draw(st.integers(2, 3))
    urns = urns_of(num_urns, num_colours, num_balls, 1, data.draw(st.integers(0, 9)), data.draw(st.integers(0, 999)))
    assert len(urns) == num_urns and all(
        sum(content) == num_balls and len(content) == num_colours and min(content) > 0 for content in urns
    )
    assert all(distance(first, second) >= 1 for first, second in itertools.combinations(urns, 2))


@pytest.mark.parametrize("apart", [1, 4, 8])
def test_banks_hold_every_pair_of_urns_that_is_far_enough_apart(apart):
    sets = {urns_of(2, 2, 10, apart, 0, number) for number in range(1500)}
    assert sets == {((a, 10 - a), (b, 10 - b)) for a in range(1, 10) for b in range(1, 10) if abs(a - b) >= apart}


def test_draws_with_replacement_follow_the_shares_of_the_hidden_urn():
    rules, counts_by_urn = game(colours=3, balls=8, draws=20, sets=1, apart=2), {}
    for seed in range(120):
        state = start(rules, seed)
        table = state.spiel.table
        for _ in range(20):
            state.apply("draw")
        counts_by_urn.setdefault(table.contents[table.secret], Counter()).update(state.spiel.table.balls_seen)
    assert len(counts_by_urn) == 2
    for content, counts in counts_by_urn.items():
        num_drawn = sum(counts.values())
        expected = [num_drawn * num_balls / 8 for num_balls in content]
        assert stats.chisquare([counts[colour] for colour in range(3)], expected).pvalue > 0.005


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_episodes_match_an_independent_simulation(data):
    num_urns, max_draws = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 6))
    cost = data.draw(st.sampled_from([0.0, 0.1]))
    rules = game(urns=num_urns, draws=max_draws, cost=cost, apart=1)
    state, num_drawn = start(rules, data.draw(st.integers(0, 999))), 0
    hidden = NAMES[state.spiel.table.secret]
    while not state.done:
        assert state.legal_actions() == (*(["draw"] if num_drawn < max_draws else []), *NAMES[:num_urns])
        action = data.draw(st.sampled_from(state.legal_actions()))
        state.apply(action)
        feedback = state.observe(0, state.plies).text
        if action == "draw":
            num_drawn += 1
            assert feedback in COLOURS[:2] and COLOURS.index(feedback) == state.spiel.table.balls_seen[-1]
        else:
            assert feedback == ("right" if action == hidden else f"wrong {hidden}")
            assert state.returns == pytest.approx((float(action == hidden) - cost * num_drawn,))
    assert state.plies <= rules.max_turns == max_draws + 1


def test_prompts_keys_and_parsed_replies():
    words = {"urn", "drawer", ".", "illegal", "draw", "alpha", "beta", "red", "blue", "right", "wrong"}
    assert set(game(sets=1).vocabulary()) == words and set(game().vocabulary()) == {*words, *map(str, range(1, 10))}
    table = UrnTable(UrnOptions(balls=3, apart=1, draws=4, cost=0.25, sets=1), ((1, 2), (2, 1)), 1)
    for index in (0, 1, 0, 0, 1):  # draw, blue; draw, red; declare alpha
        table = table.after(index)
    assert table.key(0) == "urns: alpha 1 2, beta 2 1; drawn: blue red alpha wrong beta"
    assert table.returns() == [-0.5]  # a wrong urn, less two draws: 0 - 2 * 0.25
    state = start(game(sets=2), 1)
    urns = state.spiel.table.contents
    assert state.observe(0).text == f"urn drawer alpha {urns[0][0]} {urns[0][1]} beta {urns[1][0]} {urns[1][1]}"
    assert start(game(sets=1)).observe(0).text == "urn drawer"
    full_state = start(game(style="full"), 2)
    assert (
        full_state.parse("I will draw a ball and see if beta is likelier") == "beta"
        and full_state.parse("I draw a ball") == "draw"
    )
    full_state.apply("draw")
    colour = COLOURS[full_state.spiel.table.balls_seen[0]]
    assert (
        full_state.observe(0, 1).text.startswith(f"You drew a {colour} ball.")
        and f"1 {colour}" in full_state.observe(0, 1).text
    )
    full_state.apply(NAMES[full_state.spiel.table.secret])
    assert f"You declared {NAMES[full_state.spiel.table.secret]}: right." in full_state.observe(
        0
    ).text and full_state.returns == (0.98,)


test_options_out_of_range_are_refused = make_refusal_test("urn", {"balls": 1})
