"""Puzzle duel: plays and payoffs by hand, hard replies, starts that are held out, and the same from its spec."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.puzzle_duel import puzzle_duel
from tests.cases import every_case
from tests.environments.worlds import keeping

ALL = {"largest": 9, "allowed": 9}  # every number from 1 to 9 is allowed
VALID, RIGHT, WRONG, INVALID = (
    "3 5 7 target 22 proof 3 * 5 + 7",
    "7 + 5 * 3",
    "3 + 5 + 7",
    "3 5 7 target 23 proof 3 * 5 + 7",
)


def game(**options):
    return make_game("puzzle_duel", options={**ALL, **options})


def played(*replies, **options):
    play = game(**options).reset(Stream.from_seed(0))
    for reply in replies:
        (seat,) = play.due()
        play.step({seat: reply})
    return play


test_it_keeps_what_every_environment_must = keeping(
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
    ("payoff", "replies", "done", "returns"),
    [
        ("frontier", (), False, (0.0, 0.0)),
        ("frontier", (VALID,), False, (0.0, 0.0)),
        ("frontier", (VALID, RIGHT), False, (0.25, 1.0)),
        ("frontier", (VALID, WRONG), False, (1.0, 0.0)),
        ("frontier", (VALID, WRONG, VALID, RIGHT), False, (1.25, 1.0)),
        ("frontier", (VALID, WRONG, VALID, RIGHT, VALID, RIGHT), True, (1.5, 2.0)),
        ("frontier", (INVALID,), True, (-1.0, 0.0)),
        ("frontier", (VALID, WRONG, INVALID), True, (0.0, 0.0)),
        ("duel", (VALID, RIGHT), False, (-1.0, 1.0)),
        ("duel", (VALID, WRONG), False, (0.0, 0.0)),
        ("duel", (INVALID,), True, (-3.0, 3.0)),
        ("duel", (VALID, RIGHT, INVALID), True, (-3.0, 3.0)),
        ("duel", (VALID, WRONG, INVALID), True, (-2.0, 2.0)),
        ("duel", (VALID, WRONG) * 3, True, (0.0, 0.0)),
    ],
)
def test_payoffs_by_hand(payoff, replies, done, returns):
    play = played(*replies, payoff=payoff, rounds=3, easy=0.25)
    assert (play.done, play.returns) == (done, returns)
    assert play.due() == (() if done else (len(replies) % 2,))


def test_what_seats_are_told_and_draw():
    play = played(VALID)
    assert play.observe(1).text == "solve 3 5 7 target 22"
    full = played("I take <puzzle>3  5 7 ->22</puzzle> as <proof>(3*5)+7</proof>", style="full")
    text = full.observe(1).text
    assert "The puzzle: 3 5 7 -> 22\n" in text and "(3*5)" not in text and "I take" not in text
    play = played(VALID, WRONG, rounds=2)
    assert play.observe(0).text == "failed propose 1 2 3 4 5 6 7 8 9"
    play.step({0: VALID})
    assert play.observe(1).text == "failed solve 3 5 7 target 22"
    full = played("<puzzle>3 5 -> 15</puzzle><proof>3*5</proof>", "<solution>5*3</solution>", rounds=2, style="full")
    assert full.returns == (0.5, 1.0)
    assert full.observe(0).text.startswith(
        "The last puzzle was solved.\nRound 2 of 2. The numbers of your puzzle may be, also repeatedly: 1 2 3"
    )
    with pytest.raises(GameError, match=r"seats \(0,\) are due"):
        game().reset(Stream.from_seed(0)).step({1: VALID})


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
def test_hard_replies_lose_and_nothing_else(style, reply):
    play = played(reply, style=style)
    assert play.done and play.returns == (-1.0, 0.0)
    play = played(
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
    noise=st.text(max_size=20),
)
def test_payoffs_keep_their_bounds_and_what_is_said_has_its_words(seed, rounds, payoff, noise):
    rules = make_game("puzzle_duel", options={"rounds": rounds, "payoff": payoff})
    play, stream, words, turns = (
        rules.reset(Stream.from_seed(seed)),
        Stream.from_seed(seed).child("play"),
        set(rules.vocabulary()),
        0,
    )
    while not play.done:
        (seat,) = play.due()
        reply = play.sample(seat, stream.child(turns))
        assert {*reply.split(), *play.observe(seat).text.split()} - words <= {
            part for part in reply.split() if part.startswith("-")
        }
        play.step({seat: noise if stream.uniform(turns) < 0.2 else reply})
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
