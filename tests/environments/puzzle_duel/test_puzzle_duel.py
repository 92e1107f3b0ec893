"""Puzzle duel: payoffs and prompts by hand, malformed replies, and random replies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.puzzle_duel import puzzle_duel
from tests.cases import every_case
from tests.environments.worlds import make_contract_test

ALL_NUMBERS = {"largest": 9, "allowed": 9}  # every number from 1 to 9 is allowed
VALID_PUZZLE, RIGHT_SOLUTION, WRONG_SOLUTION, INVALID_PUZZLE = (
    "3 5 7 target 22 proof 3 * 5 + 7",
    "7 + 5 * 3",
    "3 + 5 + 7",
    "3 5 7 target 23 proof 3 * 5 + 7",
)


def make_puzzle_duel(**options):
    return make_game("puzzle_duel", options={**ALL_NUMBERS, **options})


def play_replies(*replies, **options):
    play = make_puzzle_duel(**options).reset(Stream.from_seed(0))
    for reply in replies:
        (seat,) = play.due()
        play.step({seat: reply})
    return play


test_environment_contract = make_contract_test(
    puzzle_duel,
    [
        {},
        {"payoff": "duel", "rounds": 3, "style": "full"},
        {"numbers": 6, "rounds": 16, "easy": 0.0},
        {"numbers": 2, "largest": 2, "allowed": 2, "most": 4, "sets": 1},
        {"largest": 99, "numbers": 6, "most": 9999, "style": "full"},
    ],
    plays=10,
)


@pytest.mark.parametrize(
    ("payoff", "replies", "is_done", "returns"),
    [
        ("frontier", (), False, (0.0, 0.0)),
        ("frontier", (VALID_PUZZLE,), False, (0.0, 0.0)),
        ("frontier", (VALID_PUZZLE, RIGHT_SOLUTION), False, (0.25, 1.0)),
        ("frontier", (VALID_PUZZLE, WRONG_SOLUTION), False, (1.0, 0.0)),
        ("frontier", (VALID_PUZZLE, WRONG_SOLUTION, VALID_PUZZLE, RIGHT_SOLUTION), False, (1.25, 1.0)),
        (
            "frontier",
            (VALID_PUZZLE, WRONG_SOLUTION, VALID_PUZZLE, RIGHT_SOLUTION, VALID_PUZZLE, RIGHT_SOLUTION),
            True,
            (1.5, 2.0),
        ),
        ("frontier", (INVALID_PUZZLE,), True, (-1.0, 0.0)),
        ("frontier", (VALID_PUZZLE, WRONG_SOLUTION, INVALID_PUZZLE), True, (0.0, 0.0)),
        ("duel", (VALID_PUZZLE, RIGHT_SOLUTION), False, (-1.0, 1.0)),
        ("duel", (VALID_PUZZLE, WRONG_SOLUTION), False, (0.0, 0.0)),
        ("duel", (INVALID_PUZZLE,), True, (-3.0, 3.0)),
        ("duel", (VALID_PUZZLE, RIGHT_SOLUTION, INVALID_PUZZLE), True, (-3.0, 3.0)),
        ("duel", (VALID_PUZZLE, WRONG_SOLUTION, INVALID_PUZZLE), True, (-2.0, 2.0)),
        ("duel", (VALID_PUZZLE, WRONG_SOLUTION) * 3, True, (0.0, 0.0)),
    ],
)
def test_payoffs_by_hand(payoff, replies, is_done, returns):
    play = play_replies(*replies, payoff=payoff, rounds=3, easy=0.25)
    assert (play.done, play.returns) == (is_done, returns)
    assert play.due() == (() if is_done else (len(replies) % 2,))


def test_prompts_of_both_seats():
    play = play_replies(VALID_PUZZLE)
    assert play.observe(1).text == "solve 3 5 7 target 22"
    full_style_play = play_replies("I take <puzzle>3  5 7 ->22</puzzle> as <proof>(3*5)+7</proof>", style="full")
    text = full_style_play.observe(1).text
    assert "The puzzle: 3 5 7 -> 22\n" in text and "(3*5)" not in text and "I take" not in text
    play = play_replies(VALID_PUZZLE, WRONG_SOLUTION, rounds=2)
    assert play.observe(0).text == "failed propose 1 2 3 4 5 6 7 8 9"
    play.step({0: VALID_PUZZLE})
    assert play.observe(1).text == "failed solve 3 5 7 target 22"
    full_style_play = play_replies(
        "<puzzle>3 5 -> 15</puzzle><proof>3*5</proof>", "<solution>5*3</solution>", rounds=2, style="full"
    )
    assert full_style_play.returns == (0.5, 1.0)
    assert full_style_play.observe(0).text.startswith(
        "The last puzzle was solved.\nRound 2 of 2. The numbers of your puzzle may be, also repeatedly: 1 2 3"
    )
    with pytest.raises(GameError, match=r"seats \(0,\) are due"):
        make_puzzle_duel().reset(Stream.from_seed(0)).step({1: VALID_PUZZLE})


@every_case("style", ["brief", "full"])
@every_case(
    "reply",
    [
        "",
        " ",
        "x" * 10**6,
        "(" * 10**5,
        "'; exit()",
        '"',
        "</proof><proof>",
        "\x00",
        "😀",
        "٣ ٥ target ١٥ proof ٣*٥",
        "\ud800",
    ],
)
def test_malformed_replies_only_lose(style, reply):
    play = play_replies(reply, style=style)
    assert play.done and play.returns == (-1.0, 0.0)
    play = play_replies(
        "<puzzle>3 5 -> 15</puzzle><proof>3*5</proof>" if style == "full" else "3 5 target 15 proof 3 * 5",
        reply,
        style=style,
    )
    assert play.done and play.returns == (1.0, 0.0)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rounds=st.integers(1, 4),
    payoff=st.sampled_from(["duel", "frontier"]),
    random_text=st.text(max_size=20),
)
def test_payoffs_stay_in_bounds_and_words_in_the_vocabulary(seed, rounds, payoff, random_text):
    rules = make_game("puzzle_duel", options={"rounds": rounds, "payoff": payoff})
    play, stream, vocabulary, turns = (
        rules.reset(Stream.from_seed(seed)),
        Stream.from_seed(seed).child("play"),
        set(rules.vocabulary()),
        0,
    )
    while not play.done:
        (seat,) = play.due()
        reply = play.sample(seat, stream.child(turns))
        assert {*reply.split(), *play.observe(seat).text.split()} - vocabulary <= {
            word for word in reply.split() if word.startswith("-")
        }
        play.step({seat: random_text if stream.uniform(turns) < 0.2 else reply})
        turns += 1
        assert all(rules.min_utility <= value <= rules.max_utility for value in play.returns)
        assert payoff == "frontier" or sum(play.returns) == 0
    assert turns <= rules.max_turns


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"largest": 5, "allowed": 6}, "allowed=6 must be at least 2 and at most 5"),
        ({"most": 20}, "write most=27"),
        ({"most": 10_000}, "at most 9999"),
    ],
)
def test_options_out_of_range_are_refused(options, text):
    with pytest.raises(ConfigError, match=text):
        make_game("puzzle_duel", options=options)
