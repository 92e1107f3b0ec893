"""The solver of mastermind against all worlds and all plays, published figures, bounds of the short cut."""

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
from tests.environments.worlds import maker, solver_of

game = maker("mastermind")
belief = solver_of("mastermind")


def random_states(environment, plays, seed=0):
    """Return the states of random plays, half of whose guesses agree with all answers so far."""
    out, root = [], Stream.from_seed(seed)
    for episode in range(plays):
        state, draws = environment.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            out.append(state.clone())
            words = consistent(state) if draws.uniform(2 * state.plies) < 0.5 else state.legal_actions()
            state.apply(words[int(draws.uniform(2 * state.plies + 1) * len(words))])
    return out


def consistent(state, codes=None):
    """Return the words that agree with all answers, one by one."""
    table = state.spiel.table
    words = []
    for index in range(len(state.game.words)) if codes is None else codes:
        code = code_of(table.pegs, table.colours, index)
        guesses = [code_of(table.pegs, table.colours, move) for move in table.moves]
        if all(answer_of(guess, code) == answer for guess, answer in zip(guesses, table.answers, strict=True)):
            words.append(state.game.words[index])
    return words


@pytest.mark.parametrize(("pegs", "colours"), [(2, 3), (3, 3), (3, 4), (4, 3)])
def test_the_table_of_answers_is_the_game_s(pegs, colours):
    codes = [code_of(pegs, colours, index) for index in range(colours**pegs)]
    naive = [[answer_of(guess, code) for code in codes] for guess in codes]
    assert answers(pegs, colours).tolist() == [
        [exact * (pegs + 1) + misplaced for exact, misplaced in row] for row in naive
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
def test_values_and_entropy_are_those_of_all_worlds_and_plays(options):
    seen = set()
    for state in random_states(game(**options), 8):
        if state.observe(0).key in seen:
            continue
        seen.add(state.observe(0).key)
        values, hidden = worlds.judged(state)
        judgement = belief(state, prior="bank")
        assert judgement.values == pytest.approx(values, abs=1e-12)
        assert judgement.entropy == pytest.approx(hidden, abs=1e-12)
        assert (judgement.certainty, judgement.bound, judgement.best) == (1.0, 0.0, None)
        if "codes" not in options:
            assert belief(state) == judgement
    assert len(seen) > 5


@pytest.mark.parametrize(
    ("pegs", "colours", "total", "most"), [(2, 3, 21, 3), (2, 4, 45, 4), (3, 3, 73, 4), (3, 4, 206, 4)]
)
def test_expected_guesses_are_the_least_that_are_known(pegs, colours, total, most):
    """Sums of guesses over all codes under best play, and the fewest guesses that always do."""
    state = game(pegs=pegs, colours=colours, guesses=8, pay="left").reset(Stream.from_seed(0))
    codes = colours**pegs
    assert max(belief(state).values) == pytest.approx((9 * codes - total) / (8 * codes))
    assert max(belief(game(pegs=pegs, colours=colours, guesses=most).reset(Stream.from_seed(0))).values) == 1.0
    assert max(belief(game(pegs=pegs, colours=colours, guesses=most - 1).reset(Stream.from_seed(0))).values) < 1.0


@pytest.mark.parametrize(("pay", "inside", "outside"), [("cracked", 2 / 3, 1.0), ("left", 3 / 12, 3 / 12)])
def test_a_guess_that_cannot_be_the_code_can_be_the_only_best_one(pay, inside, outside):
    state = after_guesses(game(pegs=2, colours=5, guesses=4, pay=pay), "rb", "rr", "gr")
    assert consistent(state) == ["rb", "rw", "rp"]
    values = dict(zip(state.game.words, belief(state).values, strict=True))
    assert (
        values["rb"] == values["rw"] == pytest.approx(inside)
    )  # two guesses for three codes that only differ in one peg
    assert values["bw"] == values["pb"] == max(values.values()) == pytest.approx(outside)
    assert values["rr"] == pytest.approx(1 / 3 if pay == "cracked" else 1 / 12)  # told before


def test_last_guesses_keys_and_refusals():
    state = after_guesses(game(guesses=2), "rgb", "rgg")
    codes = consistent(state)
    judgement = belief(state)
    assert [word for word, value in zip(state.game.words, judgement.values, strict=True) if value] == codes
    assert max(judgement.values) == pytest.approx(1 / len(codes))
    environment = game(guesses=5)
    first, second = (
        after_guesses(environment, "rgb", "rrr", "ggb", "rrr"),
        after_guesses(environment, "rgb", "ggb", "rrr", "ggb"),
    )
    assert key(first, prior="uniform") == key(second, prior="uniform") and belief(first) == belief(second)
    assert key(first, prior="uniform") != key(after_guesses(environment, "rgb", "rrr", "ggb"), prior="uniform")
    with pytest.raises(OracleError, match="no player acts"):
        belief(after_guesses(game(), "rgb", "rgb"))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_short_cut_is_within_its_bound_and_says_that_it_is_one(data):
    environment = game(
        pegs=data.draw(st.integers(2, 3)),
        colours=data.draw(st.integers(2, 3)),
        guesses=data.draw(st.integers(1, 5)),
        pay=data.draw(st.sampled_from(["cracked", "left"])),
    )
    for state in random_states(environment, 1, seed=data.draw(st.integers(0, 99))):
        exact, short = belief(state), belief(state, work=1)
        assert (exact.certainty, exact.bound, short.certainty) == (1.0, 0.0, 0.5)
        assert all(abs(a - b) <= short.bound + 1e-9 for a, b in zip(exact.values, short.values, strict=True))
        assert all(0.0 <= value <= 1.0 + 1e-12 for value in short.values)
        assert short.entropy == exact.entropy


def test_budgets_of_work():
    environment, limits = game(guesses=5), [10**power for power in range(2, 8)]
    states = random_states(environment, 3, seed=5)
    breaker.cache_clear()
    fresh = []
    for state in states:
        for limit in limits:
            breaker.cache_clear()
            fresh.append(belief(state, work=limit))
    breaker.cache_clear()
    again = [belief(state, work=limit) for state in states[::-1] for limit in limits[::-1]][::-1]
    assert again == fresh
    assert {judgement.certainty for judgement in fresh} == {0.5, 1.0}
    state = game(pegs=4, colours=6, guesses=6).reset(Stream.from_seed(3))
    seen = []
    while not state.done:
        judgement = belief(state, work=1_000_000)
        seen.append(judgement.certainty)
        assert (judgement.bound == 0.0) == (judgement.certainty == 1.0)
        assert judgement.entropy == pytest.approx(log(len(consistent(state))))
        state.apply(state.legal_actions()[max(range(len(judgement.values)), key=judgement.values.__getitem__)])
    assert seen[0] == 0.5 and seen[-1] == 1.0 and state.returns == (1.0,)
