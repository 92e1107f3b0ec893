"""Finding the action in a reply."""

import pytest

from sparring.environments.reply import ReplyParser

POKER = ReplyParser(["fold", "call", "raise", "bet"])
COLUMNS = ReplyParser([str(number) for number in range(1, 8)])
CELLS = ReplyParser(["a1", "b2", "c3"])


@pytest.mark.parametrize(
    ("parser", "reply", "action"),
    [
        (POKER, "bet", "bet"),
        (POKER, "  Bet \n", "bet"),
        (POKER, "I could fold, but I bet.", "bet"),
        (POKER, "abet", None),
        (POKER, "better to wait, alphabet", None),
        (POKER, "non-bet", None),
        (POKER, "<think>fold or raise?</think> [call] because a raise is too much", "call"),
        (POKER, "Answer: raise. I will not fold", "raise"),
        (POKER, "my move is **fold** and no call", "fold"),
        (POKER, r"\boxed{call}", "call"),
        (POKER, "", None),
        (COLUMNS, "I play column 4.", "4"),
        (COLUMNS, "There are 12 stones, 3.5 of them mine", None),
        (COLUMNS, "-3", None),
        (COLUMNS, "100% sure: 3", "3"),
        (COLUMNS, "3%", None),
        (CELLS, "B2", "b2"),
        (CELLS, "b22", None),
        (CELLS, "[a1] or [c3]", "c3"),
    ],
)
def test_find(parser, reply, action):
    assert parser.find(reply) == action


def test_words_that_differ_in_case_only_are_matched_exactly():
    parser = ReplyParser(["a", "A"])
    assert (parser.find("A"), parser.find("I say a"), parser.find("A a A")) == ("A", "a", "A")


def test_no_words_no_action():
    assert ReplyParser([]).find("anything") is None
