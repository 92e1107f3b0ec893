"""Tic-tac-toe: prompts, board, returns, and games from a given position."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError
from sparring.environments.tic_tac_toe import CELLS
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from tests.environments.worlds import make_game_factory, state_after

BOARD = """The board:
  a b c
1 X O .
2 . X .
3 . . ."""
game = make_game_factory("tic_tac_toe")


def state_after_moves(style, *moves, start=""):
    return state_after(game(style=style, start=start), *moves)


def test_prompts_returns_and_illegal_moves():
    text = state_after_moves("full", "a1", "b1", "b2").observe(1, 2).text
    assert text.startswith("The player 'X' chose b2.\n\n" + BOARD)
    assert "Legal actions: c1, a2, c2, a3, b3, c3." in text
    assert "three" not in text.lower()
    state = state_after_moves("brief", "a1", "b1", "b2", "c1", "c3")
    assert state.done
    assert list(state.returns) == [1.0, -1.0]
    assert state.legal_actions() == ()
    with pytest.raises(GameError, match="'b2' is not legal at ply 1; legal actions: a1, b1"):
        state_after_moves("brief", "b2").apply("b2")


def test_given_positions_by_hand():
    state = state_after_moves("brief", start="a1 b2 c3")
    assert (state.seat, state.plies, state.trail) == (1, 0, ())
    assert state.observe(1).text == "tictactoe O a1 b2 c3"
    state.apply("b1")
    assert state.observe(0).text == "tictactoe X a1 b2 c3 b1"
    assert state.observe(1, 1).text == "."
    text = state_after_moves("full", "b2", start="a1 b1").observe(1).text
    assert "The game begins after these moves, 'X' first: a1, b1." in text
    assert BOARD in text and "You play as 'O'." in text and "Legal actions: c1, a2, c2, a3, b3, c3." in text
    assert BOARD in state_after_moves("full", start="a1 b1 b2").observe(1, 1).text
    assert "begins" not in state_after_moves("full").observe(0).text
    # X O X / O O X / X . . with O to move: b3 wins, c3 leads to a draw.
    rules = game(start="a1 b1 c1 a2 c2 b2 a3")
    states = enumerate_info_states(rules)
    report = evaluate_exploitability(rules, states, UniformScorer())
    assert len(states) == 2
    assert (report.values, report.gains) == ((-0.5, 0.5), (0.0, 0.5))
    rules = game(start="a1 b2 c3")
    assert (rules.zero_sum, rules.utility_sum) == (True, 0.0)
    values = registry.bind("players", "minimax", {})().action_values(state_after_moves("brief", start="a1 b2 c3"))
    assert {cell: value for cell, value in values.items() if value} == {
        "c1": -1.0,
        "a3": -1.0,
    }  # X answers a corner with a fork


@settings(max_examples=50, deadline=None)
@given(st.permutations(CELLS), st.integers(1, 8))
def test_a_game_from_a_position_continues_like_the_full_game(moves, num_given):
    full_state = state_after_moves("full")
    for cell in moves[:num_given]:
        full_state.apply(cell)
        if full_state.done:
            return
    started_state = state_after_moves("full", start=" ".join(moves[:num_given]))
    assert started_state.game.max_turns == 9 - num_given
    for cell in [*moves[num_given:], None]:
        assert (started_state.seat, started_state.done, started_state.returns, started_state.legal_actions()) == (
            full_state.seat,
            full_state.done,
            full_state.returns,
            full_state.legal_actions(),
        )
        assert started_state.plies == full_state.plies - num_given
        for seat in (0, 1):
            assert started_state.game.position(started_state, seat) == full_state.game.position(full_state, seat)
            assert (started_state.observe(seat).key, started_state.observe(seat).view) == (
                full_state.observe(seat).key,
                full_state.observe(seat).view,
            )
        if full_state.done:
            break
        full_state.apply(cell)
        started_state.apply(cell)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("a1 b2 a1", "move 3, 'a1', is not possible; write one of: b1, c1"),
        ("a1 e5", "move 2, 'e5', is not possible"),
        ("a1,b2", "move 1, 'a1,b2', is not possible"),
        ("a1 b1 a2 b2 a3", "the game is over after 'a3'; write fewer moves, such as 'a1 b1 a2 b2'"),
    ],
)
def test_impossible_positions_are_refused(start, message):
    with pytest.raises(ConfigError, match=message):
        game(start=start)
