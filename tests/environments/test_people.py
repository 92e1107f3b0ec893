"""Games as shown to human players: rules, boards, final reveals, and no hidden information."""

import re

import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game, searchable_names
from sparring.environments.openspiel.people import (
    for_people,
    list_actions,
    rules_of,
    seen_by,
    wrap_lines,
)
from tests.cases import every_case
from tests.contract.test_games import positions

NAMES = searchable_names()
SMALL_OPTIONS = {"liars_dice": {"sides": 2}, "kuhn_rounds": {"rounds": 1}, "needle_chain": {"length": 3}}
GAMES_WITH_TREES = (
    "kuhn_poker",
    "leduc_poker",
    "liars_dice",
    "tiny_hanabi",
    "signalling",
    "kuhn_rounds",
    "repeated_dilemma",
    "needle_chain",
)


@every_case("name", NAMES)
def test_every_game_has_rules_in_sentences(name):
    rules = rules_of(for_people(make_game(name)))
    assert 2 <= len(re.findall(r"[.!?](?:\s|$)", rules)) <= 14
    assert len(rules) < 1200


def test_rules_events_and_wrapped_lines():
    rules = rules_of(for_people(make_game("breakthrough")))
    assert "'Breakthrough'" in rules and "nothing is hidden" in rules and "zero-sum" in rules
    game = make_game("tic_tac_toe")
    state = game.reset(Stream.from_seed(0))
    for move in ("b2", "a1", "c3"):
        state.apply(move)
    assert seen_by(for_people(game), state, 1).startswith("The player 'X' chose c3.")
    assert list_actions(("a", "b", "c"), limit=2) == "a, b and 1 more (? lists all)"
    assert wrap_lines("aa bb\ncc", width=3) == "aa\nbb\ncc"
    assert wrap_lines("a  b\n  c") == "a  b\n  c"


@every_case("name", NAMES)
def test_every_position_can_be_shown_to_its_seat(name):
    game = make_game(name)
    wording = for_people(game)
    assert wording.style == "full" and wording.name == game.name
    for state in positions(game, 0):
        for seat in range(game.num_seats) if state.done else (state.seat,):
            assert seen_by(wording, state, seat).strip()


@pytest.mark.parametrize("name", GAMES_WITH_TREES)
def test_positions_in_one_information_state_have_equal_pictures(name):
    game = make_game(name, options=SMALL_OPTIONS.get(name, {}))
    wording, texts, states_to_visit = for_people(game), {}, [game.spiel.new_initial_state()]
    while states_to_visit:
        spiel = states_to_visit.pop()
        if spiel.is_terminal():
            continue
        if not spiel.is_chance_node():
            state = game.state_of(spiel)
            key = (state.seat, game.key(state, state.seat))
            text = seen_by(wording, state, state.seat)
            assert texts.setdefault(key, text) == text
        states_to_visit += [spiel.child(index) for index in spiel.legal_actions()]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("kuhn_poker", r"The cards: first (Jack|Queen|King), second (Jack|Queen|King)\."),
        ("leduc_poker", r"The private cards: first (Jack|Queen|King), second"),
        ("liars_dice", r"The dice: seat0 [1-6], seat1 [1-6]\."),
        ("tiny_hanabi", r"The cards: seat0 d[01], seat1 d[01]\."),
        ("signalling", r"The colour was (red|green)\."),
        ("simple_negotiation", r"to seat0 wood 5, gold 15; to seat1 wood 15, gold 5"),
        ("needle_chain", r"Step 3 mattered, and green was right\."),
        ("kuhn_rounds", r"The cards of each round, seat0 and seat1: [JQK] [JQK]"),
        ("hanabi", r"The hands: seat0 [RY]\d"),
        ("battleship_hunt", r"The ships: [a-d][1-4] [a-d][1-4]"),
        ("minesweeper", r"r1  [.*\d]  [.*\d]"),
        ("sudoku", r"The solution:\n\d \d \| \d \d"),
        ("zebra", r"The solution:\nhouse 1: colour \w+, drink"),
        ("tic_tac_toe", r"^$"),
    ],
)
def test_the_final_reveal_shows_hidden_information(name, pattern):
    game = for_people(make_game(name))
    *_, final_state = positions(game, 0)
    assert re.search(pattern, game.revealed(final_state)), game.revealed(final_state)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tic_tac_toe", "  a b c\n1 . . ."),
        ("connect_four", "1 2 3 4 5 6 7"),
        ("sudoku", " c 1 2   3 4\nr1 "),
        ("minesweeper", "    c1 c2 c3 c4\nr1  .  .  .  ."),
        ("nim", "The piles now: a has 1"),
        ("sokoban", "#"),
        ("kuhn_poker", "Chips in the pot: 1 from first, 1 from second. Betting so far: none."),
        ("leduc_poker", "Chips in the pot: 1 from first, 1 from second."),
        ("breakthrough", "8bbbbbbbb"),
    ],
)
def test_boards_show_coordinates_and_pots_show_chips(name, text):
    game = make_game(name)
    state = game.reset(Stream.from_seed(0))
    assert text in seen_by(for_people(game), state, state.seat)
