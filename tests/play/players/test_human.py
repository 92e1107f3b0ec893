"""The human agent: shows what the seat is told, asks until the action is legal."""

import pytest

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game


def person(*lines):
    shown, replies = [], iter(lines)

    def ask(text):
        shown.append(text)
        return next(replies)

    return registry.bind("players", "human", {"ask": ask})(), shown


def state_of(style, *moves):
    state = make_game("tic_tac_toe", options={"style": style}).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


@pytest.mark.parametrize("style", ["full", "brief"])
def test_it_asks_again_until_the_action_is_legal(style):
    agent, shown = person("b2", "what?", "", "I take A1.")
    assert agent.choose(state_of(style, "b2"), 1, Stream.from_seed(0)) == "a1"
    assert shown[0].startswith("The player 'X' chose b2.") and "2 . X ." in shown[0]
    assert shown[1].startswith("b2 is not possible now; it does not count as a move")
    assert shown[2].startswith("'what?' is no action of this game; it does not count as a move")
    assert "? for the rules" in shown[3]
    whole = [" ".join(text.split()) for text in shown]
    assert all("Legal actions: a1, b1, c1, a2, c2, a3, b3, c3" in text for text in whole[:3])
    assert max(len(line) for text in shown for line in text.splitlines()) <= 88


@pytest.mark.parametrize("word", ["?", "help", "Rules"])
def test_a_question_mark_shows_the_rules_and_all_actions(word):
    agent, shown = person(word, "c3")
    assert agent.choose(state_of("brief"), 0, Stream.from_seed(0)) == "c3"
    assert shown[1].startswith("We play tic-tac-toe.") and "1 . . ." in shown[1] and "c3" in shown[1]


def test_later_turns_show_only_what_is_new():
    agent, shown = person(" c1 ")
    assert agent.choose(state_of("brief", "b2", "a1", "c3"), 1, Stream.from_seed(0)) == "c1"
    board = "The board:\n  a b c\n1 O . .\n2 . X .\n3 . . X"
    legal = "Legal actions: b1, c1, a2, c2, a3, b3"
    assert shown == [f"The player 'X' chose c3.\n\n{board}\n\n{legal}\n> "]


def test_a_word_that_leaves_ends_as_the_end_of_input_does():
    agent, _ = person("q")
    with pytest.raises(EOFError):
        agent.choose(state_of("brief"), 0, Stream.from_seed(0))


def test_the_end_of_input_is_passed_on():
    def ask(text):
        raise EOFError

    agent = registry.bind("players", "human", {"ask": ask})()
    with pytest.raises(EOFError):
        agent.choose(state_of("brief"), 0, Stream.from_seed(0))
