"""Twenty questions: tables, an independent simulation, the rate of noisy answers, prompts."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sparring.core.errors import GameError
from sparring.environments.twenty_questions import ATTRIBUTES, NOUNS, QuestionsTable, draw_rows
from tests.environments.worlds import check_contains, make_game_factory, make_refusal_test, start

game = make_game_factory("twenty_questions")


def test_words_are_unique_and_tables_uniform():
    words = [*NOUNS, *(value for _, values in ATTRIBUTES for value in values)]
    assert len(set(words)) == len(words) == 32 + 20 and len({name for name, _ in ATTRIBUTES}) == 5
    counts = Counter(draw_rows(2, 2, 2, 0, number) for number in range(3000))
    pairs = [(a, b) for a in ((0, 0), (0, 1), (1, 0), (1, 1)) for b in ((0, 0), (0, 1), (1, 0), (1, 1)) if a != b]
    assert set(counts) == set(pairs)
    assert stats.chisquare([counts[pair] for pair in pairs]).pvalue > 0.005
    assert sorted(draw_rows(27, 3, 3, 0, 5)) == sorted((a, b, c) for a in range(3) for b in range(3) for c in range(3))


def test_prompts_hide_the_object_and_questions_are_limited():
    states = [start(game(tables=1), seed) for seed in range(30)]
    assert len({state.observe(0) for state in states}) == 1
    first_state, second_state = (
        QuestionsTable(objects=2, attributes=1, values=2, questions=3, tables=1, rows=((0,), (1,)), secret=hidden)
        for hidden in (0, 1)
    )
    assert (
        first_state.key(0) == second_state.key(0)
        and str(first_state) != str(second_state)
        and first_state.after(0).key(0) != second_state.after(0).key(0)
    )
    state = start(game(questions=1))
    state.apply("red")
    for word in ("red", "green"):
        with pytest.raises(GameError, match="not legal"):
            state.apply(word)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_episodes_match_an_independent_simulation(data):
    values, attributes = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    objects = data.draw(st.integers(2, min(12, values**attributes)))
    questions, cost = data.draw(st.integers(1, 6)), data.draw(st.sampled_from([0.0, 0.1]))
    environment = game(objects=objects, attributes=attributes, values=values, questions=questions, cost=cost, tables=9)
    state = start(environment, data.draw(st.integers(0, 999)))
    properties_of = {words[0]: set(words[1:]) for words in state.spiel.table.sheet()}
    noun, num_asked = NOUNS[state.spiel.table.secret], 0
    askable = [value for _, attribute_values in ATTRIBUTES[:attributes] for value in attribute_values[:values]]
    assert (
        len(properties_of) == objects
        and len({frozenset(properties) for properties in properties_of.values()}) == objects
    )
    while not state.done:
        assert state.legal_actions() == (*(askable if num_asked < questions else []), *NOUNS[:objects])
        word = data.draw(st.sampled_from(state.legal_actions()))
        state.apply(word)
        answer = state.observe(0, state.plies).text
        if word in askable:
            num_asked += 1
            assert answer == ("yes" if word in properties_of[noun] else "no")
        else:
            assert answer == ("right" if word == noun else f"wrong {noun}")
            assert state.done and state.returns == pytest.approx((float(word == noun) - cost * num_asked,))
    assert state.plies <= environment.max_turns == questions + 1


def test_answers_are_wrong_independently_with_the_rate_of_the_noise():
    environment, is_wrong = game(noise=0.2, questions=20, tables=1), []
    for seed in range(100):
        state = start(environment, seed)
        for _ in range(20):
            state.apply("red")
            table = state.spiel.table
            is_wrong.append(table.answers[-1] != table.true_answer(table.secret, 0))
    assert stats.binomtest(sum(is_wrong), len(is_wrong), 0.2).pvalue > 0.005
    num_both_wrong = sum(a and b for a, b in zip(is_wrong[::2], is_wrong[1::2], strict=True))
    assert stats.binomtest(num_both_wrong, len(is_wrong) // 2, 0.04).pvalue > 0.005
    node = environment.spiel.new_initial_state().child(0).child(3).child(0)
    assert node.is_chance_node() and sorted(dict(node.chance_outcomes()).values()) == [0.2, 0.8]


def test_prompts_keys_and_returns():
    small_options = {"objects": 2, "attributes": 1, "values": 2, "questions": 2}
    state = start(game(**small_options, tables=2), 1)
    sheet = " ".join(" ".join(words) for words in state.spiel.table.sheet())
    assert sheet in ("ball red bell green", "ball green bell red")
    assert state.observe(0).text == f"twentyquestions guesser {sheet}"
    assert start(game(**small_options, tables=1)).observe(0).text == "twentyquestions guesser"
    table = (
        QuestionsTable(objects=2, attributes=1, values=2, questions=2, cost=0.25, tables=1, rows=((0,), (1,)), secret=1)
        .after(0)
        .after(1)
        .after(2)
    )
    assert table.key(0) == "objects: ball red, bell green; red no; green yes; ball wrong bell"
    assert table.returns() == [-0.5]
    full_state = start(game(style="full", noise=0.1, cost=0.05), 3)
    check_contains(
        full_state.observe(0).text,
        "wrong with probability 0.1",
        "less 0.05 point(s)",
        "You may ask 4 more question(s).",
    )
    full_state.apply("red")
    assert full_state.observe(0, 1).text.startswith(("You asked red: yes.", "You asked red: no."))
    full_state.apply(NOUNS[full_state.spiel.table.secret])
    assert "right." in full_state.observe(0, 2).text and full_state.returns == (0.95,)
    assert "All answers are true" in start(game(style="full")).observe(0).text


test_options_out_of_range_are_refused = make_refusal_test(
    "twenty_questions", {"objects": 33, "attributes": 5}, {"objects": 28}, {"noise": 0.5}
)
