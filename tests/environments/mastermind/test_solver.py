"""The solver of mastermind against brute force and published figures; bounds of its approximation."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.mastermind import answer_of, code_of
from sparring.environments.mastermind.solver import answers, breaker, key
from tests.environments import worlds
from tests.environments.mastermind.test_mastermind import after_guesses
from tests.environments.worlds import load_solver, make_game_factory

game = make_game_factory("mastermind")
judge = load_solver("mastermind")


def sample_states(environment, plays, seed=0):
    """Return the states of random episodes; half of the guesses agree with all answers so far."""
    states, root = [], Stream.from_seed(seed)
    for episode in range(plays):
        state, stream = environment.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            states.append(state.clone())
            words = consistent_words(state) if stream.uniform(2 * state.plies) < 0.5 else state.legal_actions()
            state.apply(words[int(stream.uniform(2 * state.plies + 1) * len(words))])
    return states


def consistent_words(state, codes=None):
    """Return the words that agree with all answers."""
    table = state.spiel.table
    words = []
    for index in range(len(state.game.words)) if codes is None else codes:
        code = code_of(table.pegs, table.colours, index)
        guesses = [code_of(table.pegs, table.colours, move) for move in table.moves]
        if all(answer_of(guess, code) == answer for guess, answer in zip(guesses, table.answers, strict=True)):
            words.append(state.game.words[index])
    return words


@pytest.mark.parametrize(("pegs", "colours"), [(2, 3), (3, 3), (3, 4), (4, 3)])
def test_answer_table_matches_the_environment(pegs, colours):
    codes = [code_of(pegs, colours, index) for index in range(colours**pegs)]
    pairs = [[answer_of(guess, code) for code in codes] for guess in codes]
    assert answers(pegs, colours).tolist() == [
        [exact * (pegs + 1) + misplaced for exact, misplaced in row] for row in pairs
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"pegs": 2, "colours": 2, "guesses": 4},
        {"pegs": 2, "colours": 3, "guesses": 2, "pay": "left"},
        {"pegs": 2, "colours": 3, "guesses": 3, "codes": 5},
        {"pegs": 2, "colours": 3, "guesses": 3, "codes": 6, "bank": 2, "pay": "left"},
        {"pegs": 3, "colours": 2, "guesses": 3, "codes": 5, "pay": "left"},
    ],
    ids=["two-colours", "left", "bank", "bank-left", "three-pegs"],
)
def test_values_and_entropy_match_brute_force(options):
    keys = set()
    for state in sample_states(game(**options), 8):
        if state.observe(0).key in keys:
            continue
        keys.add(state.observe(0).key)
        values, entropy = worlds.brute_force_judgement(state)
        judgement = judge(state, prior="bank")
        assert judgement.values == pytest.approx(values, abs=1e-12)
        assert judgement.entropy == pytest.approx(entropy, abs=1e-12)
        assert (judgement.certainty, judgement.bound, judgement.best) == (1.0, 0.0, None)
        if "codes" not in options:
            assert judge(state) == judgement
    assert len(keys) > 5


@pytest.mark.parametrize(
    ("pegs", "colours", "total", "most"), [(2, 3, 21, 3), (2, 4, 45, 4), (3, 3, 73, 4), (3, 4, 206, 4)]
)
def test_expected_guesses_match_the_published_minima(pegs, colours, total, most):
    """`total` sums the guesses over all codes under best play; `most` guesses always suffice."""
    state = game(pegs=pegs, colours=colours, guesses=8, pay="left").reset(Stream.from_seed(0))
    codes = colours**pegs
    # with n of 8 guesses the return is (9 - n) / 8
    assert max(judge(state).values) == pytest.approx((9 * codes - total) / (8 * codes))
    assert max(judge(game(pegs=pegs, colours=colours, guesses=most).reset(Stream.from_seed(0))).values) == 1.0
    assert max(judge(game(pegs=pegs, colours=colours, guesses=most - 1).reset(Stream.from_seed(0))).values) < 1.0


@pytest.mark.parametrize(
    ("pay", "best_of_codes", "best_of_others"), [("cracked", 2 / 3, 1.0), ("left", 3 / 12, 3 / 12)]
)
def test_the_best_guess_can_be_a_word_that_cannot_be_the_code(pay, best_of_codes, best_of_others):
    state = after_guesses(game(pegs=2, colours=5, guesses=4, pay=pay), "rb", "rr", "gr")
    assert consistent_words(state) == ["rb", "rw", "rp"]
    values = dict(zip(state.game.words, judge(state).values, strict=True))
    assert (
        values["rb"] == values["rw"] == pytest.approx(best_of_codes)
    )  # two guesses for three codes that differ in one peg
    assert values["bw"] == values["pb"] == max(values.values()) == pytest.approx(best_of_others)
    assert values["rr"] == pytest.approx(1 / 3 if pay == "cracked" else 1 / 12)  # a repeated guess gives no information


def test_last_guesses_keys_and_finished_states():
    state = after_guesses(game(guesses=2), "rgb", "rgg")
    codes = consistent_words(state)
    judgement = judge(state)
    assert [word for word, value in zip(state.game.words, judgement.values, strict=True) if value] == codes
    assert max(judgement.values) == pytest.approx(1 / len(codes))
    environment = game(guesses=5)
    first_state, second_state = (
        after_guesses(environment, "rgb", "rrr", "ggb", "rrr"),
        after_guesses(environment, "rgb", "ggb", "rrr", "ggb"),
    )
    assert key(first_state, prior="uniform") == key(second_state, prior="uniform") and judge(first_state) == judge(
        second_state
    )
    assert key(first_state, prior="uniform") != key(after_guesses(environment, "rgb", "rrr", "ggb"), prior="uniform")
    with pytest.raises(OracleError, match="no player acts"):
        judge(after_guesses(game(), "rgb", "rgb"))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_approximate_values_are_within_their_bound(data):
    environment = game(
        pegs=data.draw(st.integers(2, 3)),
        colours=data.draw(st.integers(2, 3)),
        guesses=data.draw(st.integers(1, 5)),
        pay=data.draw(st.sampled_from(["cracked", "left"])),
    )
    for state in sample_states(environment, 1, seed=data.draw(st.integers(0, 99))):
        exact_judgement, approximate_judgement = judge(state), judge(state, work=1)
        assert (exact_judgement.certainty, exact_judgement.bound, approximate_judgement.certainty) == (1.0, 0.0, 0.5)
        assert all(
            abs(a - b) <= approximate_judgement.bound + 1e-9
            for a, b in zip(exact_judgement.values, approximate_judgement.values, strict=True)
        )
        assert all(0.0 <= value <= 1.0 + 1e-12 for value in approximate_judgement.values)
        assert approximate_judgement.entropy == exact_judgement.entropy


def test_judgements_depend_only_on_the_state_and_the_work_limit():
    environment, limits = game(guesses=5), [10**power for power in range(2, 8)]
    states = sample_states(environment, 3, seed=5)
    breaker.cache_clear()
    uncached_judgements = []
    for state in states:
        for limit in limits:
            breaker.cache_clear()
            uncached_judgements.append(judge(state, work=limit))
    breaker.cache_clear()
    cached_judgements = [judge(state, work=limit) for state in states[::-1] for limit in limits[::-1]][::-1]
    assert cached_judgements == uncached_judgements
    assert {judgement.certainty for judgement in uncached_judgements} == {0.5, 1.0}
    state = game(pegs=4, colours=6, guesses=6).reset(Stream.from_seed(3))
    certainties = []
    while not state.done:
        judgement = judge(state, work=1_000_000)
        certainties.append(judgement.certainty)
        assert (judgement.bound == 0.0) == (judgement.certainty == 1.0)
        assert judgement.entropy == pytest.approx(log(len(consistent_words(state))))
        state.apply(state.legal_actions()[max(range(len(judgement.values)), key=judgement.values.__getitem__)])
    assert certainties[0] == 0.5 and certainties[-1] == 1.0 and state.returns == (1.0,)
