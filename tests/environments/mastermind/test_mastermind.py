"""Mastermind: answers by hand and by matching pegs, banks of codes, payoffs and prompts."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import GameError
from sparring.environments.mastermind import MastermindTable, answer_of, bank_of, code_of, word_of
from tests.environments.worlds import apply_actions, make_game_factory, make_refusal_test, start

game = make_game_factory("mastermind")


@pytest.mark.parametrize(
    ("guess", "code", "answer"),
    [
        ("1122", "1122", (4, 0)),
        ("1122", "2211", (0, 4)),
        ("1111", "1222", (1, 0)),  # the code has a single 1, so three 1s of the guess have no match
        ("1123", "3111", (1, 2)),
        ("1234", "1243", (2, 2)),
    ],
)
def test_answers_by_hand(guess, code, answer):
    assert answer_of(tuple(map(int, guess)), tuple(map(int, code))) == answer


def match_pegs(guess, code):
    """Return the answer by matching: remove exact matches, then match the other pegs by colour."""
    guess_colours, code_colours, num_exact = [], [], 0
    for guess_colour, code_colour in zip(guess, code, strict=True):
        if guess_colour == code_colour:
            num_exact += 1
        else:
            guess_colours.append(guess_colour)
            code_colours.append(code_colour)
    misplaced = 0
    for colour in guess_colours:
        if colour in code_colours:
            code_colours.remove(colour)
            misplaced += 1
    return num_exact, misplaced


@settings(max_examples=200, deadline=None)
@given(data=st.data(), pegs=st.integers(2, 4))
def test_answers_match_an_independent_count_and_are_symmetric(data, pegs):
    codes = st.lists(st.integers(0, 5), min_size=pegs, max_size=pegs).map(tuple)
    guess, code = data.draw(codes), data.draw(codes)
    answer = answer_of(guess, code)
    assert answer == match_pegs(guess, code) == answer_of(code, guess)
    assert sum(answer) <= pegs and answer != (pegs - 1, 1) and (answer[0] == pegs) == (guess == code)


def test_words_codes_and_banks():
    assert [word_of(2, 3, index) for index in range(9)] == ["rr", "rg", "rb", "gr", "gg", "gb", "br", "bg", "bb"]
    assert [code_of(4, 6, index) for index in range(6**4)] == list(itertools.product(range(6), repeat=4))
    assert len({word_of(4, 6, index) for index in range(6**4)}) == 6**4
    assert not {"".join(letters) for letters in itertools.product("rgbwpv", repeat=2)} & {
        "be",
        "by",
        "go",
        "we",
        "a",
        "or",
    }
    assert sorted(bank_of(3, 3, 5)) == list(range(27))
    assert {start(game(codes=4, bank=5), seed).spiel.table.secret for seed in range(60)} == set(bank_of(3, 3, 5)[:4])
    assert bank_of(3, 3, 6) != bank_of(3, 3, 5)


def test_prompts_hide_the_code_and_illegal_guesses_are_refused():
    states = [start(game(), seed) for seed in range(40)]
    assert len({state.observe(0) for state in states}) == 1 and len({str(state.spiel) for state in states}) > 10
    table, table_of_other_code = (
        MastermindTable(pegs=2, colours=4, guesses=3, secret=code).after(0) for code in (5, 6)
    )
    assert (
        table.answers == table_of_other_code.answers
        and table.key(0) == table_of_other_code.key(0)
        and str(table) != str(table_of_other_code)
    )
    state = start(game(), 1)
    apply_actions(state, "rrr", "rrr")
    assert state.parse("rrw") is state.parse("rr") is state.parse("rrrr") is None
    with pytest.raises(GameError, match="not legal"):
        state.apply("rrw")


@pytest.mark.parametrize("pay", ["cracked", "left"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_episodes_match_an_independent_simulation(pay, data):
    pegs, colours, guesses = data.draw(st.integers(2, 3)), data.draw(st.integers(2, 4)), data.draw(st.integers(1, 6))
    environment = game(pegs=pegs, colours=colours, guesses=guesses, pay=pay)
    state = start(environment, data.draw(st.integers(0, 999)))
    code = code_of(pegs, colours, state.spiel.table.secret)
    for number in range(guesses):
        assert state.legal_actions() == environment.words and not state.done and state.returns == (0.0,)
        guess = data.draw(
            st.one_of(st.just(environment.words[state.spiel.table.secret]), st.sampled_from(environment.words))
        )
        state.apply(guess)
        words = state.observe(0, state.plies).text.split()
        assert tuple(map(int, words[:2])) == match_pegs(["rgbw".index(letter) for letter in guess], code)
        if int(words[0]) == pegs:
            assert words[2:] == ["cracked"] and state.done
            assert state.returns == pytest.approx(((guesses - number) / guesses if pay == "left" else 1.0,))
            return
    assert state.done and state.returns == (0.0,)
    assert words[2:] == ["lost", environment.words[state.spiel.table.secret]]


def after_guesses(environment, code, *guesses):
    bank_index = bank_of(environment.pegs, len({letter for word in environment.words for letter in word}), 0).index(
        environment.indices[code]
    )
    state = environment.state_of(environment.spiel.new_initial_state().child(bank_index))
    for guess in guesses:
        state.apply(guess)
    return state


def test_prompts_and_parsed_replies():
    environment = game(guesses=3)
    state = after_guesses(environment, "rgb", "rrg", "rbg")
    assert state.observe(0).text == "mastermind breaker rrg 1 1 rbg 1 2"
    assert (state.observe(0, 1).text, state.observe(0, 2).text) == ("1 1 1 2", "1 2")
    assert after_guesses(environment, "rgb", "rrg", "rgb").observe(0, 2).text == "3 0 cracked"
    assert after_guesses(environment, "rgb", "rrg", "rbg", "bbb").observe(0, 3).text == "1 0 lost rgb"
    environment = game(guesses=3, style="full")
    text = after_guesses(environment, "rgb", "rrg").observe(0).text
    assert "You guessed rrg: 1 exact, 1 misplaced." in text and "You have 2 guess(es) left." in text
    assert "You cracked the code." in after_guesses(environment, "rgb", "rgb").observe(0, 1).text
    assert (
        "No guess is left; the code was rgb."
        in after_guesses(environment, "rgb", "rrg", "rrg", "rrg").observe(0, 3).text
    )
    assert "0.25 less for every later guess" in start(game(pay="left", style="full")).observe(0).text
    assert start(environment).parse("I think that red-green-blue is likely: [rgb]") == "rgb"
    state = start(game(pegs=4, colours=6, guesses=10, style="full"))
    text = state.observe(0).text
    assert "Legal actions: every word of 4 letters out of r, g, b, w, p, v.\nPlease reply" in text and len(text) < 1500
    assert "every word of 4 letters" in state.game.correction(state, None)


test_options_out_of_range_are_refused = make_refusal_test("mastermind", {"codes": 28})
