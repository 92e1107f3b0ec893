"""Code words: payoffs by hand, exact values of conventions, and the prompts of every seat."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.base import seats_by_player, teams_of
from sparring.environments.catalogue import make_game
from sparring.environments.code_words import (
    CodeWordsPosition,
    Deal,
    code_words,
    deals,
    decode_word,
    encode_word,
)
from sparring.measure.exploitability import team_exploitability
from sparring.measure.info_states import enumerate_info_states
from sparring.ops.game_tree import policy_values
from tests.environments.worlds import make_contract_test


def new_episode(deal=((0, 1), (1, 2)), **options):
    rules = code_words(**options)
    play = rules.reset(Stream.from_seed(0))
    play.position = CodeWordsPosition(Deal(*deal))
    return play


test_environment_contract = make_contract_test(
    code_words, [{}, {"style": "full", "words": 2}, {"words": 6, "leak": 1.0}], plays=5
)


@pytest.mark.parametrize(
    ("guesses", "pay", "understood", "leaked"),
    [
        (("red green", "green red"), 0.0, (1, 1), (1, 1)),
        (("red blue", "green blue"), 0.0, (1, 1), (0, 0)),
        (("red green", "green blue"), 0.5, (1, 1), (0, 1)),
        (("red green", "red green"), 1.5, (1, 0), (0, 1)),
        (("blue blue", "green red"), -1.5, (0, 1), (1, 0)),
    ],
)
def test_payoffs_and_figures_by_hand(guesses, pay, understood, leaked):
    episode = new_episode()  # red and green, keys 1 and 2
    assert episode.due() == (0, 2) and episode.returns == (0.0,) * 4
    episode.step({0: "green", 2: "green"})
    assert episode.due() == (1, 3) and not episode.done
    episode.step({1: guesses[0], 3: guesses[1]})
    assert episode.done and episode.due() == () and episode.returns == pytest.approx((pay, pay, -pay, -pay))
    figures = episode.figures()
    assert figures["understood"][::2] == understood and figures["leaked"][::2] == leaked
    # team a says green for red, as key 1 demands; team b says its word green in clear
    assert figures["clear"] == (0, 0, 1, 1) and figures["by_key"] == (1, 1, 0, 0)


@pytest.mark.parametrize(
    ("reply", "exact", "guess"),
    [
        ("red blue", True, "red blue"),
        ("My team's is Red, the other team's blue.", False, "red blue"),
        ("red, blue", False, "red blue"),
        ("red, blue", True, None),
        ("red", False, None),
        ("red or green, blue", False, None),
        ("Answer: green green", False, "green green"),
        ("red and coloured blue-ish", False, None),
    ],
)
def test_a_guess_is_read_as_two_words(reply, exact, guess):
    play = new_episode()
    play.step({0: "red", 2: "red"})
    assert play.read(1, reply, exact) == guess


def test_deals_and_teams():
    rules = code_words(words=2)
    openings = rules.openings()
    assert [share for share, _ in openings] == [1 / 16] * 16
    sampled_deals = [rules.reset(Stream.from_seed(seed)).position.deal for seed in range(400)]
    assert {play.position.deal for _, play in openings} == set(sampled_deals)
    assert seats_by_player(teams_of(rules)) == ((0, 1), (2, 3))
    assert new_episode().read(0, "I say green.") == "green" and new_episode().read(0, "yellow") is None
    assert new_episode().legal(2) == ("red", "green", "blue") and len(new_episode().legal(3)) == 9


CONVENTIONS = {  # (teller's encoding, guesser's decoding of its own team's word, decoding of the other team's word)
    "key": (encode_word, decode_word, decode_word),
    "key, others as said": (encode_word, decode_word, lambda word, key, size: word),
    "clear": (lambda word, key, size: word,) + (lambda word, key, size: word,) * 2,
    "next word": (
        lambda word, key, size: encode_word(word, 1, size),
        lambda word, key, size: decode_word(word, 1, size),
        lambda word, key, size: word,
    ),
}


@pytest.fixture(scope="module", params=[2, 3])
def game_and_states(request):
    game = make_game("code_words", options={"words": request.param, "leak": 0.4})
    return game, enumerate_info_states(game)


def convention_profile(game, states, conventions):
    """Return the profile in which each team follows its convention; the convention None is uniform play."""
    num_words, profile = len(game.words), []
    for query in states.queries:
        name, words = conventions[query.seat // 2], query.key.split()
        width = len(query.legal_actions)
        if name is None:
            profile.append(np.full(width, 1 / width))
            continue
        encode, decode_own, decode_other = CONVENTIONS[name]
        key, words_heard = int(words[2]), [game.words.index(word) for word in words[4::2]]
        if query.seat % 2:
            action_index = num_words * decode_own(words_heard[0], key, num_words) + decode_other(
                words_heard[1], key, num_words
            )
        else:
            action_index = encode(words_heard[0], key, num_words)
        profile.append(np.eye(width)[action_index])
    return profile


def test_exploitability_of_conventions(game_and_states):
    game, states = game_and_states
    size, leak = len(game.words), game.leak
    for name, expected_joint in [
        ("key", 0),
        ("key, others as said", leak / size),
        ("clear", leak),
        (None, 1 - 1 / size),
    ]:
        report = team_exploitability(states, game.teams, [convention_profile(game, states, (name, name))])
        assert report.joint == pytest.approx((expected_joint, expected_joint), abs=1e-12), name
        assert report.single == pytest.approx((0, 0), abs=1e-12), name
        assert report.values == pytest.approx((0, 0), abs=1e-12)


@pytest.mark.parametrize(
    ("convention", "other_convention", "expected_payoff"),
    [
        ("key, others as said", "clear", lambda size, leak: leak * (1 - 1 / size)),
        ("next word", "clear", lambda size, leak: leak),
        ("key", "clear", lambda size, leak: 0),
        ("next word", "key, others as said", lambda size, leak: leak / size),
        ("key", "next word", lambda size, leak: 0),
        ("key", None, lambda size, leak: 1 - 1 / size),
        ("clear", None, lambda size, leak: 1 - 1 / size),
    ],
)
def test_payoffs_between_conventions(game_and_states, convention, other_convention, expected_payoff):
    game, states = game_and_states
    expected = expected_payoff(len(game.words), game.leak)
    for pair, factor in (((convention, other_convention), 1), ((other_convention, convention), -1)):
        returns = policy_values(states.tree, states.seats, convention_profile(game, states, pair)).returns
        assert returns == pytest.approx(np.array([1, 1, -1, -1]) * factor * expected, abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(data=st.data(), leak=st.sampled_from([0.0, 0.3, 1.0]), size=st.sampled_from([2, 3]))
def test_the_key_convention_earns_the_share_that_opponents_misunderstand(data, leak, size):
    word_index = st.integers(0, size - 1)
    encoding = data.draw(st.lists(word_index, min_size=size * size, max_size=size * size))
    decodings = [data.draw(st.lists(word_index, min_size=size**3, max_size=size**3)) for _ in range(2)]
    payoff = share_not_understood = 0.0
    for deal in deals(size):
        word, key = deal.secret[1], deal.key[1]
        words = (encode_word(deal.secret[0], deal.key[0], size), encoding[word * size + key])
        decoding_index = (key * size + words[1]) * size + words[0]
        other_guess = decodings[0][decoding_index], decodings[1][decoding_index]
        own_guess = tuple(decode_word(spoken, deal.key[0], size) for spoken in words)
        position = CodeWordsPosition(deal, words, (own_guess, other_guess))
        assert position.understood[0]
        payoff += position.payoffs(leak)[0] / size**4
        share_not_understood += (not position.understood[1]) / size**4
    assert payoff == pytest.approx(share_not_understood) and payoff >= 0


def test_prompts():
    for style in ("brief", "full"):
        for seat, hidden_fact in itertools.product(range(4), ("own word", "other word", "other key")):
            team = seat // 2
            secret, key = [0, 1], [1, 2]
            list_and_index = (
                (secret, team)
                if hidden_fact == "own word"
                else (secret, 1 - team)
                if hidden_fact == "other word"
                else (key, 1 - team)
            )
            observations = []
            for value in (0, 2):
                list_and_index[0][list_and_index[1]] = value
                play = new_episode(((secret[0], secret[1]), (key[0], key[1])), style=style)
                first_observation = play.observe(seat)
                play.step({0: "red", 2: "blue"})
                observations.append((first_observation, play.observe(seat)))
            assert (observations[0] == observations[1]) == (hidden_fact != "own word" or seat in (1, 3))
    play = new_episode(style="full")
    observation = play.observe(2)
    assert "You are teller_b. You play with guesser_b, against teller_a and guesser_a." in observation.text
    assert "By your team's key one says blue for red, red for green, green for blue." in observation.text
    assert observation.prompt.endswith("Your team's secret word is green.") and "loses 0.5 points" in observation.text
    play.step({0: "green", 2: "red"})
    assert play.observe(3).prompt.endswith("teller_b said red. teller_a said green.")
    assert play.observe(0).prompt == "teller_a said green. teller_b said red."
    play.step({1: "red red", 3: "green green"})
    assert play.ending(3) == (
        "teller_b said red. teller_a said green. The secret word of team b was green; guesser_b named green for its own team and "
        "green for the other. The secret word of team a was red; guesser_a named red for its own team and red for the other. "
        "Your team got 0."
    )
    assert play.described(1) == (
        "The play is over. The secret word of team a is red. Its key is 1. The secret word of team b is green. teller_a said green. "
        "teller_b said red. guesser_a said red red. guesser_b said green green."
    )
    assert (
        "1 point if" in new_episode(style="full", leak=1).observe(0).prompt
        and "loses 1 point if" in new_episode(style="full", leak=1).observe(0).prompt
    )
    play = new_episode(words=3)
    assert (play.observe(0).prompt, play.observe(1).prompt) == ("key 1 word red say", "key 1")
    play.step({0: "green", 2: "red"})
    assert (play.observe(1).prompt, play.observe(2).prompt) == ("key 1 we green they red guess", "we red they green")
    play.step({1: "red blue", 3: "green red"})
    assert play.ending(0) == "we say green word red guess red blue they say red word green guess green red"
