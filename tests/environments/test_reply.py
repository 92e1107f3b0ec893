"""The parser that finds the action in a reply."""

import pytest

from sparring import make_environment
from sparring.core.rng import Stream
from sparring.environments.base import read_reply
from sparring.environments.reply import ReplyParser, listed_reply

POKER = ReplyParser(["fold", "call", "raise", "bet"])
COLUMNS = ReplyParser([str(number) for number in range(1, 8)])
CELLS = ReplyParser(["a1", "b2", "c3"])


@pytest.mark.parametrize(
    ("parser", "reply", "action"),
    [
        (POKER, "bet", "bet"),
        (POKER, "  Bet \n", "bet"),
        (POKER, "I could fold, but I bet.", "bet"),
        (POKER, "better to wait, alphabet", None),
        (POKER, "<think>fold or raise?</think> [call] because a raise is too much", "call"),
        (POKER, "Answer: raise. I will not fold", "raise"),
        (POKER, "my move is **fold** and no call", "fold"),
        (POKER, "", None),
        (COLUMNS, "I play column 4.", "4"),
        (COLUMNS, "There are 12 stones, 3.5 of them mine", None),
        (COLUMNS, "-3", None),
        (COLUMNS, "3%", None),
        (CELLS, "b22", None),
        # with a marked answer, only the marked text counts
        (CELLS, "I thought of a1. Final answer: d4", None),
        (POKER, "I could bet or fold. Final answer: all-in", None),
        (POKER, r"I bet: \boxed{check}", None),
        (POKER, r"I [bet]; \boxed{\text{call}} it is", "call"),
        (POKER, "**Final answer:** Call", "call"),
        (POKER, '{"thought": "fold?", "action": "bet"}', "bet"),
        (POKER, "Answer: check, not bet", None),
        (POKER, "The answer is check, though I like to bet", None),
        (POKER, "The best action is fold. I cannot call", "fold"),
        (POKER, "The legal actions are fold, call: I call", "call"),
        (POKER, "Answer: bet. Final answer: check", None),
        (POKER, "Answer: check. Final answer: bet", "bet"),
        (POKER, "I bet. Answer:", None),
        (POKER, "<answer> call </answer> or fold", "call"),
        (COLUMNS, "Answer: I'll drop my disc in column 4, as 5 loses", "4"),
        (COLUMNS, "Answer: $3$", "3"),
        (CELLS, "final_answer = (b2)", "b2"),
        (ReplyParser(["(1,2)", "(2,1)"]), "(2,1) is worse. Answer: (1,2)", "(1,2)"),
        (ReplyParser(["go", "left"]), "Answer: go with left", "go"),
    ],
)
def test_parser_finds_the_action(parser, reply, action):
    assert parser.find(reply) == action


def test_words_that_differ_in_case_and_no_words():
    parser = ReplyParser(["a", "A"])
    assert (parser.find("A"), parser.find("I say a"), parser.find("A a A")) == ("A", "a", "A")
    assert ReplyParser([]).find("anything") is None


@pytest.mark.parametrize(
    ("environment", "reply", "expected"),
    [
        ("kuhn_poker", "I could bet or pass. Final answer: raise", "unparsable"),
        ("kuhn_poker", "I could bet or pass. Final answer: bet", "ok"),
        ("tic_tac_toe", "I thought of a1. Final answer: d4", "unparsable"),
        ("tic_tac_toe", "I thought of a1. Final answer: b2", "illegal"),
    ],
)
def test_marked_answers_that_are_not_legal_actions_are_rejected(environment, reply, expected):
    episode = make_environment(environment, style="full").reset(Stream.from_seed(0))
    if environment == "tic_tac_toe":
        episode.step({0: "b2"})
    (seat,) = episode.due()
    action = read_reply(episode, seat, episode.legal(seat), reply, False)
    outcome = "unparsable" if action is None else "ok" if action in episode.legal(seat) else "illegal"
    assert outcome == expected
    assert listed_reply(("left", "right"), "I could go left or right. Final answer: up", False) is None
