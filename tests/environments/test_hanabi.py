"""Hanabi: the table that is rebuilt from events matches OpenSpiel's observation."""

import re

import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.hanabi import replay

VARIANTS = [(size, players) for size in ("mini", "simple") for players in (2, 3, 4)]


def action_word(game, index, spiel):
    """Return our word of an action, translated from OpenSpiel's name."""
    name = spiel.action_to_string(spiel.current_player(), index)
    if match := re.fullmatch(r"\((Play|Discard) (\d)\)", name):
        return f"{match[1].lower()}{int(match[2]) + 1}"
    match = re.fullmatch(r"\(Reveal player \+(\d) (?:color|rank) (\w)\)", name)
    return f"tell-{match[2]}" if game.num_seats == 2 else f"tell+{match[1]}-{match[2]}"


def parse_openspiel_observation(spiel, seat):
    """Return (lives, information, stacks, hands starting with the seat, deck, discards) of OpenSpiel."""
    text = spiel.observation_string(seat)
    lives, information = (int(re.search(rf"{word} tokens: (\d+)", text)[1]) for word in ("Life", "Info"))
    stacks = re.search(r"Fireworks: (.*?) *\n", text)[1]
    hands = [
        re.findall(r"^(\w\w) \|\|", part, re.M) for part in text.split("Hands:")[1].split("Deck size")[0].split("-----")
    ]
    return (
        lives,
        information,
        stacks,
        hands,
        int(re.search(r"Deck size: (\d+)", text)[1]),
        text.split("Discards:")[1].split(),
    )


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_table_matches_openspiel_at_every_position(size, players):
    game = make_game("hanabi", options={"size": size, "players": players})
    for seed in range(30):
        state, stream = game.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
        while not state.done:
            table, seat = replay(game.sizes, state.trail), state.seat
            lives, information, stacks, hands, deck, discards = parse_openspiel_observation(state.spiel, seat)
            assert (table.lives, table.information, table.deck) == (lives, information, deck)
            assert " ".join(f"{colour}{height}" for colour, height in table.stacks.items()) == stacks
            other_hands = [table.hands[(seat + offset) % players] for offset in range(1, players)]
            assert hands[1:] == other_hands
            assert sorted(table.discards) == sorted(discards)
            legal = state.legal_actions()
            assert [action_word(game, index, state.spiel) for index in state.spiel.legal_actions()] == list(legal)
            state.apply(legal[stream.integer(state.plies, len(legal))])
        table = replay(game.sizes, state.trail)
        score = sum(table.stacks.values()) if table.lives else 0
        assert list(state.returns) == [float(score)] * players


@pytest.mark.parametrize("style", ["brief", "full"])
@pytest.mark.parametrize("players", [2, 3])
def test_prompts_hide_the_seat_s_own_cards(players, style):
    """The prompt depends on the other hands only, not on the seat's own hidden hand."""
    game = make_game("hanabi", options={"players": players, "style": style})
    text_and_hands = {}
    for seed in range(300):
        state = game.reset(Stream.from_seed(seed))
        hidden = tuple(event.action for event in state.trail[: game.sizes.hand])
        other_cards = tuple(event.action for event in state.trail[game.sizes.hand :])
        text = state.observe(0).text
        entry = text_and_hands.setdefault(other_cards, (text, {hidden}))
        assert entry[0] == text
        entry[1].add(hidden)
    assert any(len(hands) > 1 for _, hands in text_and_hands.values())


def test_prompts_after_a_hint_and_a_played_card():
    game = make_game("hanabi")
    spiel = game.spiel.new_initial_state()
    for _ in range(6):
        spiel.apply_action(spiel.chance_outcomes()[0][0])
    state = game.state_of(spiel)  # seat0 holds R1 R1 R1, seat1 holds R2 Y1 Y1
    state.apply("tell-Y")
    assert state.observe(1).text == "hanabi seat1 R1 R1 R1 tell-Y 2 3"
    state.apply("play1")
    state.apply_index(3)
    assert state.observe(0, 1).text == "play1 R2 miss Y2"
    assert state.game.table(state).hints[1] == [["Y", "?"], ["Y", "?"], ["?", "?"]]
