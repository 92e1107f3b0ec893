"""Recorded episodes in tests/golden, compared word by word. To rewrite them, set SPARRING_WRITE_GOLDEN=1."""

import os
from pathlib import Path

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game, searchable_names
from tests.cases import every_case

GOLDEN = Path(__file__).parents[1] / "golden"
OPTION_VARIANTS = {
    "kuhn_poker": {"players": 3},
    "leduc_poker": {"players": 3},
    "hanabi": {"players": 3},
    "liars_dice": {"dice": 2, "sides": 4},
    "kuhn_rounds": {"rounds": 2, "outcome": "sign"},
    "simple_negotiation": {"turns": 9, "largest": 1, "values": "drawn", "outcome": "gain"},
    "needle_chain": {"length": 3, "actions": 3, "needle": 2},
    "signalling": {"types": 3, "rounds": 2},
    "sudoku": {"wrong": "continues", "pay": "share", "level": "naked"},
    "zebra": {"houses": 2, "attributes": 2, "wrong": "continues", "pay": "share", "kinds": "links"},
    "minesweeper": {"rows": 3, "columns": 3, "mines": 2, "flags": True},
    "twenty_questions": {"objects": 4, "attributes": 2, "values": 2, "noise": 0.3, "cost": 0.05},
    "urn": {"urns": 3, "colours": 3, "cost": 0.0},
}


def record_random_episode(name, options):
    """Return a random episode as text: the prompts and actions of each seat, then the returns."""
    game = make_game(name, options=options)
    state, stream = game.reset(Stream.from_seed(4)), Stream.from_seed(4).child("play")
    counts = [0] * game.num_seats
    lines = [
        f"== {name} {options} roles {game.roles} utilities {game.min_utility} to {game.max_utility} sum {game.utility_sum}"
    ]
    while not state.done:
        seat, legal = state.seat, state.legal_actions()
        action = legal[stream.integer(state.plies, len(legal))]
        lines += [
            f"[{game.roles[seat]} is told] {state.observe(seat, counts[seat]).text}",
            f"[{game.roles[seat]} plays] {action}",
        ]
        state.apply(action)
        counts[seat] = state.plies
    lines += [f"[{role} is told] {state.observe(seat, counts[seat]).text}" for seat, role in enumerate(game.roles)]
    return "\n".join([*lines, f"[returns] {list(state.returns)}", ""])


@every_case("name", searchable_names())
def test_random_episodes_match_the_golden_file(name):
    variants = [
        {"style": "brief"},
        {"style": "full"},
        *([{**OPTION_VARIANTS[name], "style": "brief"}] if name in OPTION_VARIANTS else []),
    ]
    text = "\n".join(record_random_episode(name, options) for options in variants)
    path = GOLDEN / f"game_{name}.txt"
    if os.environ.get("SPARRING_WRITE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


def test_every_golden_file_belongs_to_a_game():
    assert {path.stem.removeprefix("game_") for path in GOLDEN.glob("game_*.txt")} == set(searchable_names())
