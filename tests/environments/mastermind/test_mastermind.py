"""Mastermind: answers by hand and by matching pegs, codes without bias, what pays, the wording."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import GameError
from sparring.environments.mastermind import MastermindTable, answer_of, bank_of, code_of, word_of
from tests.environments.worlds import actions, maker, refusing, start

game = maker("mastermind")


@pytest.mark.parametrize(
    ("guess", "code", "answer"),
    [
        ("1122", "1122", (4, 0)),
        ("1122", "2211", (0, 4)),
        ("1111", "1222", (1, 0)),  # the other ones have no peg left to match
        ("1123", "3111", (1, 2)),
        ("1234", "1243", (2, 2)),
    ],
)
def test_answers_by_hand(guess, code, answer):
    assert answer_of(tuple(map(int, guess)), tuple(map(int, code))) == answer


def pegs_matched(guess, code):
    """Return the answer by laying pegs: exact ones are taken away, then each other peg takes one of its colour."""
    unmatched, other, exact = [], [], 0
    for guessed, hidden in zip(guess, code, strict=True):
        if guessed == hidden:
            exact += 1
        else:
            unmatched.append(guessed)
            other.append(hidden)
    misplaced = 0
    for colour in unmatched:
        if colour in other:
            other.remove(colour)
            misplaced += 1
    return exact, misplaced


@settings(max_examples=200, deadline=None)
@given(data=st.data(), pegs=st.integers(2, 4))
def test_answers_by_laying_pegs_are_symmetric_and_bounded(data, pegs):
    codes = st.lists(st.integers(0, 5), min_size=pegs, max_size=pegs).map(tuple)
    guess, code = data.draw(codes), data.draw(codes)
    answer = answer_of(guess, code)
    assert answer == pegs_matched(guess, code) == answer_of(code, guess)
    assert sum(answer) <= pegs and answer != (pegs - 1, 1) and (answer[0] == pegs) == (guess == code)


def test_banks_and_a_game_for_one():
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
    assert {start(game(codes=4, bank=5), seed).spiel.table.hidden for seed in range(60)} == set(bank_of(3, 3, 5)[:4])
    assert bank_of(3, 3, 6) != bank_of(3, 3, 5)
    states = [start(game(), seed) for seed in range(40)]
    assert len({state.observe(0) for state in states}) == 1 and len({str(state.spiel) for state in states}) > 10
    first, second = (MastermindTable(pegs=2, colours=4, guesses=3, hidden=hidden).after(0) for hidden in (5, 6))
    assert first.answers == second.answers and first.key(0) == second.key(0) and str(first) != str(second)
    state = start(game(), 1)
    actions(state, "rrr", "rrr")
    assert state.parse("rrw") is state.parse("rr") is state.parse("rrrr") is None
    with pytest.raises(GameError, match="not legal"):
        state.apply("rrw")


@pytest.mark.parametrize("pay", ["cracked", "left"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_play_against_an_independent_judge(pay, data):
    pegs, colours, guesses = data.draw(st.integers(2, 3)), data.draw(st.integers(2, 4)), data.draw(st.integers(1, 6))
    environment = game(pegs=pegs, colours=colours, guesses=guesses, pay=pay)
    state = start(environment, data.draw(st.integers(0, 999)))
    code = code_of(pegs, colours, state.spiel.table.hidden)
    for number in range(guesses):
        assert state.legal_actions() == environment.words and not state.done and state.returns == (0.0,)
        guess = data.draw(
            st.one_of(st.just(environment.words[state.spiel.table.hidden]), st.sampled_from(environment.words))
        )
        state.apply(guess)
        words = state.observe(0, state.plies).text.split()
        assert tuple(map(int, words[:2])) == pegs_matched(["rgbw".index(letter) for letter in guess], code)
        if int(words[0]) == pegs:
            assert words[2:] == ["cracked"] and state.done
            assert state.returns == pytest.approx(((guesses - number) / guesses if pay == "left" else 1.0,))
            return
    assert state.done and state.returns == (0.0,)
    assert words[2:] == ["lost", environment.words[state.spiel.table.hidden]]


def after_guesses(environment, code, *guesses):
    draw = bank_of(environment.pegs, len({letter for word in environment.words for letter in word}), 0).index(
        environment.indices[code]
    )
    state = environment.state_of(environment.spiel.new_initial_state().child(draw))
    for guess in guesses:
        state.apply(guess)
    return state


def test_wording():
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


test_options_out_of_range_are_refused = refusing("mastermind", {"codes": 28})
