"""The human agent: shows what the seat is told, asks until the action is legal."""

import pytest

from sparring import registry
from sparring.games.catalogue import make_game
from sparring.rng import Stream


def person(*lines):
    shown, replies = [], iter(lines)

    def ask(text):
        shown.append(text)
        return next(replies)

    return registry.bind("agents", "human", {"ask": ask})(), shown


def state_of(style, *moves):
    state = make_game("tic_tac_toe", options={"style": style}).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


def test_it_asks_again_until_the_action_is_legal():
    agent, shown = person("b2", "what?", "I take A1.")
    assert agent.choose(state_of("full", "b2"), 1, Stream.from_seed(0)) == "a1"
    assert "You play as 'O'" in shown[0]
    assert shown[1].startswith("The action b2 is not legal now.")
    assert shown[2].startswith("Your reply contained no action.")


def test_later_turns_show_only_what_is_new():
    agent, shown = person(" c1 ")
    assert agent.choose(state_of("brief", "b2", "a1", "c3"), 1, Stream.from_seed(0)) == "c1"
    assert shown == ["c3\nLegal actions: b1, c1, a2, c2, a3, b3\n> "]


def test_the_end_of_input_is_passed_on():
    def ask(text):
        raise EOFError

    agent = registry.bind("agents", "human", {"ask": ask})()
    with pytest.raises(EOFError):
        agent.choose(state_of("brief"), 0, Stream.from_seed(0))
